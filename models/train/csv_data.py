"""Tables: a CSV file with a header, read into encoded features and numbered labels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from leaveout.errors import TrainingError
from leaveout.models.table import Table, number, read_table
from leaveout.models.train.data import TrainingData
from leaveout.models.train.encoding import (
    CategoryColumn,
    Encoding,
    NumberColumn,
    encode_rows,
)
from leaveout.names import hint

__all__ = ["labels_of", "read_csv", "table_data"]

_MISSING = {"na", "n/a", "nan", "null", "none", "?", "-"}
_MOST_CATEGORIES = 50
_FEW_ROWS = 20
"""Below, rows with words of their own are no sign of names."""


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
    all are) and numbered from 0.

    Parameters
    ----------
    table : Table
    label : str or None
        The column to predict.
    identity : str or None
        The column that names the rows, each another; it is no feature.
    units : mapping of str to str or None
        By columns, what their numbers are measured in.

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
    ids: tuple[str, ...] = ()
    if identity is not None:
        table.require(identity, "--id names one of its columns")
        ids = _ids(table, identity)
    label, names = table.label_and_features(label, identity)
    _check_units(table, names, units or {})
    _refuse_empty_cells(table)
    labels, y = labels_of(table, label)
    encoding = Encoding(label, tuple(_column(table, name) for name in names))
    X = encode_rows(encoding, (dict(zip(table.header, row, strict=True)) for row in table.rows))
    return TrainingData(
        X=X,
        y=y,
        features=encoding.features,
        labels=labels,
        encoding=encoding,
        ids=ids,
        units=units or {},
    )


def _ids(table: Table, column: str) -> tuple[str, ...]:
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


def _refuse_empty_cells(table: Table) -> None:
    for name in table.header:
        cells = table.column(name)
        if "" in cells:
            raise TrainingError(
                f"{table.at(cells.index(''), name)}: the value is missing; fill it in, or drop "
                "the row or the column"
            )


def _column(table: Table, name: str) -> NumberColumn | CategoryColumn:
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
    low, high = min(known), max(known)
    if not math.isfinite(high - low):
        raise TrainingError(
            f"{table.path}, column {name!r}: the range {low} to {high} is too wide to be scaled"
        )
    # Further from 0, float64 holds no other numbers.
    whole = max(-low, high) <= 2**53 and all(value.is_integer() for value in known)
    return NumberColumn(name, low, high, whole)


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
