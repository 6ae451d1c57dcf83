"""Tables: a CSV file with a header, read into encoded features and numbered labels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.table import Table, number, read_table
from leaveout.models.train.data import TrainingData
from leaveout.models.train.encoding import (
    CategoryColumn,
    Encoding,
    NumberColumn,
    encode_columns,
    number_column,
)
from leaveout.names import hint

__all__ = [
    "ReadColumns",
    "labels_of",
    "read_columns",
    "read_csv",
    "refuse_empty_cells",
    "row_ids",
    "table_data",
]

_MISSING = {"na", "n/a", "nan", "null", "none", "?", "-"}
_MOST_CATEGORIES = 50
_FEW_ROWS = 20
"""Below, rows with words of their own are no sign of names."""


@dataclass(frozen=True, eq=False)
class ReadColumns:
    """What the columns of a table are.

    Attributes
    ----------
    encoding : Encoding
        Of all columns but the label and the one that names rows.
    labels : tuple of str
        As numbers in order if all are.
    y : ndarray of int64, shape (rows,)
        Which of the labels.
    ids : tuple of str
        A name a row; empty where rows have none.
    units : mapping of str to str
        What numbers are measured in, by columns.
    """

    encoding: Encoding
    labels: tuple[str, ...]
    y: NDArray[np.int64]
    ids: tuple[str, ...]
    units: Mapping[str, str]


def read_csv(
    path: Path,
    label: str | None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
) -> TrainingData:
    """Read a CSV file as `table_data` does, UTF-8 with a header; it raises what that raises."""
    return table_data(read_table(path), label, identity, units)


def table_data(
    table: Table,
    label: str | None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
) -> TrainingData:
    """Encode a table.

    A column of numbers is scaled into [0, 1] by its own range (a constant one gives 0), a
    column of words gives one feature a category, sorted. Labels are sorted (as numbers if
    all are) and numbered from 0; arguments are those of `read_columns`, and so is what it raises.
    """
    read = read_columns(table, label, identity, units)
    return TrainingData(
        X=encode_columns(read.encoding, table.column, len(table.rows)),
        y=read.y,
        features=read.encoding.features,
        labels=read.labels,
        encoding=read.encoding,
        ids=read.ids,
        units=read.units,
    )


def read_columns(
    table: Table,
    label: str | None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
    scaled: bool = True,
) -> ReadColumns:
    """Say what the columns of a table are, and how they become features.

    Parameters
    ----------
    table : Table
    label : str or None
        The column to predict.
    identity : str or None
        The column that names the rows, each another; it is no feature.
    units : mapping of str to str or None
        By columns, what their numbers are measured in.
    scaled : bool
        Whether numbers are scaled into [0, 1], or are features as they are.

    Raises
    ------
    TrainingError
        With file, line and column of what cannot be used.
    """
    if len(table.rows) < 2:
        raise TrainingError(
            f"{table.path}: {len(table.rows)} row{'s' * (len(table.rows) != 1)} below the header, "
            "expected at least 2 to leave one out"
        )
    ids = () if identity is None else row_ids(table, identity)
    label, names = table.label_and_features(label, identity)
    _check_units(table, names, units or {})
    refuse_empty_cells(table)
    labels, y = labels_of(table, label)
    encoding = Encoding(label, tuple(_column(table, name, scaled) for name in names))
    return ReadColumns(encoding, labels, y, ids, units or {})


def row_ids(table: Table, column: str) -> tuple[str, ...]:
    """Return the names of the rows.

    Raises
    ------
    TrainingError
        If there is no such column, or two rows have the same name.
    """
    table.require(column, "--id names one of its columns")
    names = table.column(column)
    seen: dict[str, int] = {}
    for row, name in enumerate(names):
        if name in seen:
            raise TrainingError(
                f"{table.at(row, column)}: {name!r} names the row of {table.unit} "
                f"{table.lines[seen[name]]} too; names of rows must differ"
            )
        seen[name] = row
    return tuple(names)


def _check_units(table: Table, names: Sequence[str], units: Mapping[str, str]) -> None:
    for name in units:
        if name not in names:
            raise TrainingError(
                f"{table.path}: a unit is given for {name!r}, which is no column of "
                f"features{hint(name, names)}"
            )


def refuse_empty_cells(table: Table) -> None:
    """Refuse a table in which a value is missing, with its place; raises TrainingError."""
    for name in table.header:
        cells = table.column(name)
        if "" in cells:
            raise TrainingError(
                f"{table.at(cells.index(''), name)}: the value is missing; fill it in, or drop "
                "the row or the column"
            )


def _column(table: Table, name: str, scaled: bool) -> NumberColumn | CategoryColumn:
    cells = table.column(name)
    values = [number(cell) for cell in cells]
    wrong = [row for row, value in enumerate(values) if value is None]
    if wrong:
        distinct = sorted(set(cells))
        word = cells[wrong[0]]
        mostly_numbers = 2 * len(wrong) < len(cells)
        if mostly_numbers and word.lower() in _MISSING:
            raise TrainingError(
                f"{table.at(wrong[0], name)}: the value is missing ({word!r} among numbers); "
                "fill it in, or drop the row or the column"
            )
        if mostly_numbers and len(distinct) > _MOST_CATEGORIES:
            raise TrainingError(
                f"{table.at(wrong[0], name)}: {word!r} is not a number while most of the column "
                "is; mend it, or drop the row or the column"
            )
        _refuse_names(table, name, cells)
        return CategoryColumn(name, tuple(distinct))
    known = [value for value in values if value is not None]
    for row, value in enumerate(known):
        if not math.isfinite(value):
            raise TrainingError(
                f"{table.at(row, name)}: {cells[row]!r} is not a finite number; fill it in, or "
                "drop the row or the column"
            )
    column = number_column(name, np.array(known), scaled)
    low, high = column.minimum, column.maximum
    if scaled and not math.isfinite(high - low):
        raise TrainingError(
            f"{table.path}, column {name!r}: the range {low} to {high} is too wide to be scaled"
        )
    return column


def _refuse_names(table: Table, name: str, cells: list[str]) -> None:
    """Refuse words that mostly stand in one row alone: as features they would publish the rows."""
    counts = Counter(cells)
    alone = [row for row, cell in enumerate(cells) if counts[cell] == 1]
    if len(cells) >= _FEW_ROWS and 2 * len(alone) > len(cells):
        raise TrainingError(
            f"{table.at(alone[0], name)}: {len(alone):,} of {len(cells):,} rows have a word of "
            f"their own, such as {cells[alone[0]]!r}: each would become a feature, and name its "
            "row; drop the column, name it as the rows' id, or write numbers or few categories"
        )


def labels_of(
    table: Table, label: str
) -> tuple[tuple[str, ...], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return the names of the labels, and the label of each row by its place among them.

    Raises
    ------
    TrainingError
        If a label is missing, all are alike, or they look like measurements.
    """
    cells = table.column(label)
    for row, cell in enumerate(cells):
        value = number(cell)
        is_finite = value is None or math.isfinite(value)
        if not is_finite or cell.lower() in _MISSING - {"-", "none"}:
            raise TrainingError(f"{table.at(row, label)}: the label is missing; drop the row")
    names = table.labels(label)
    if len(names) < 2:
        raise TrainingError(
            f"{table.path}, column {label!r}: every row has the label {names[0]!r}; expected at "
            "least 2 labels"
        )
    place = {name: index for index, name in enumerate(names)}
    return tuple(names), np.array([place[cell] for cell in cells], dtype=np.int64)
