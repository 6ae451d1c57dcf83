"""Tables: a CSV file with a header, read into encoded features and numbered labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leaveout.errors import TrainingError
from leaveout.models.train.cells import read_cells
from leaveout.models.train.data import TrainingData
from leaveout.models.train.encoding import (
    CategoryColumn,
    Encoding,
    NumberColumn,
    encode_rows,
    number,
)
from leaveout.names import hint

__all__ = ["read_csv"]

_MISSING = {"na", "n/a", "nan", "null", "none", "?", "-"}
_MOST_CATEGORIES = 50
_MOST_FRACTIONAL_LABELS = 20


@dataclass(frozen=True)
class _Table:
    """Cells by column, and the line of the file each row ends on."""

    path: Path
    columns: dict[str, list[str]]
    lines: list[int]

    def at(self, row: int, column: str) -> str:
        return f"{self.path}, line {self.lines[row]}, column {column!r}"


def read_csv(path: Path, label: str | None) -> TrainingData:
    """Read a table.

    A column of numbers is scaled into [0, 1] by its own range (a constant one gives 0), a
    column of words gives one feature a category, sorted. Labels are sorted (as numbers if
    all are) and numbered from 0.

    Parameters
    ----------
    path : Path
        UTF-8, commas, the first line names the columns. Blanks around cells do not count.
    label : str or None
        The column to predict.

    Raises
    ------
    TrainingError
        With file, line and column of what cannot be used.
    """
    table = _read(path)
    names = [name for name in table.columns if name != label]
    if len(table.columns) == 1 and ";" in next(iter(table.columns)):
        raise TrainingError(
            f"{path}, line 1: one column only, with ';' in its name; separate columns by commas"
        )
    if label is None:
        raise TrainingError(
            f"{path}: say which column holds the label, as in --label {list(table.columns)[-1]!r}"
        )
    if label not in table.columns:
        raise TrainingError(
            f"{path}, line 1: there is no column {label!r}{hint(label, table.columns)}; "
            f"--label must be one of {_listed(list(table.columns))}"
        )
    if not names:
        raise TrainingError(f"{path}, line 1: there is no column beside the label {label!r}")
    _refuse_empty_cells(table)
    labels, y = _labels(table, label)
    encoding = Encoding(label, tuple(_column(table, name) for name in names))
    cells = zip(*(table.columns[name] for name in names), strict=True)
    X = encode_rows(encoding, (dict(zip(names, row, strict=True)) for row in cells))
    return TrainingData(
        X=X,
        y=y,
        features=encoding.features,
        labels=labels,
        encoding=encoding,
    )


def _read(path: Path) -> _Table:
    cells = read_cells(path)
    rows = cells.rows
    if len(rows) < 2:
        raise TrainingError(
            f"{path}: {len(rows)} row{'s' * (len(rows) != 1)} below the header, expected at "
            "least 2 to leave one out"
        )
    columns = map(list, zip(*rows, strict=True))
    return _Table(path, dict(zip(cells.header, columns, strict=True)), cells.lines)


def _refuse_empty_cells(table: _Table) -> None:
    for name, cells in table.columns.items():
        if "" in cells:
            raise TrainingError(
                f"{table.at(cells.index(''), name)}: the value is missing; fill it in, or drop "
                "the row or the column"
            )


def _column(table: _Table, name: str) -> NumberColumn | CategoryColumn:
    cells = table.columns[name]
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


def _labels(
    table: _Table, label: str
) -> tuple[tuple[str, ...], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    cells = table.columns[label]
    distinct = set(cells)
    values = {cell: number(cell) for cell in distinct}
    numbers = {cell: value for cell, value in values.items() if value is not None}
    for row, cell in enumerate(cells):
        if not math.isfinite(numbers.get(cell, 0.0)) or cell.lower() in _MISSING - {"-", "none"}:
            raise TrainingError(f"{table.at(row, label)}: the label is missing; drop the row")
    if len(numbers) < len(distinct):
        names = sorted(distinct)
    else:
        names = sorted(distinct, key=lambda cell: (numbers[cell], cell))
        fractional = [cell for cell in names if not numbers[cell].is_integer()]
        if fractional and len(names) > _MOST_FRACTIONAL_LABELS:
            raise TrainingError(
                f"{table.path}, column {label!r}: {len(names)} different labels, {fractional[0]!r} "
                "among them, look like measurements; expected a few classes"
            )
    if len(names) < 2:
        raise TrainingError(
            f"{table.path}, column {label!r}: every row has the label {names[0]!r}; expected at "
            "least 2 labels"
        )
    place = {name: index for index, name in enumerate(names)}
    return tuple(names), np.array([place[cell] for cell in cells], dtype=np.int64)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:8])
    return f"{shown}, ... ({len(names)} columns)" if len(names) > 8 else shown
