"""Samples given as a CSV with a header: every cell is text until a part encodes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leaveout.errors import TrainingError
from leaveout.models.train.cells import read_cells
from leaveout.models.train.encoding import number
from leaveout.models.votes.features import TableFeatures, column_of
from leaveout.models.votes.hashing import cell_keys, held_out
from leaveout.models.votes.naming import file_name
from leaveout.models.votes.origin import Assumption
from leaveout.models.votes.samples import Samples, checked_names, checked_truth, number_labels
from leaveout.names import hint

__all__ = ["read_table"]

_MOST_FRACTIONAL_LABELS = 20


@dataclass(frozen=True)
class _Table:
    """Cells by row, and the line of the file each row ends on."""

    path: Path
    header: list[str]
    rows: list[list[str]]
    lines: list[int]

    def chosen(self, rows: Sequence[int]) -> _Table:
        return _Table(
            self.path, self.header, [self.rows[i] for i in rows], [self.lines[i] for i in rows]
        )

    def column(self, name: str) -> list[str]:
        place = self.header.index(name)
        return [row[place] for row in self.rows]


def read_table(
    path: Path,
    label: str | None,
    test: Path | None,
    test_share: float | None,
    labels: Sequence[str] | None,
    hash_key: str,
) -> Samples:
    """Read training rows, and test rows from another table or held out by their hash.

    A sample is the text of its cells, blanks around them taken off; its label is no part of it.
    An empty cell is a word like any other.

    Raises
    ------
    TrainingError
        With file, line and column of what cannot be used.
    """
    table = _read(path)
    if len(table.header) == 1 and ";" in table.header[0]:
        raise TrainingError(
            f"{path}, line 1: one column only, with ';' in its name; separate columns by commas"
        )
    if label is None:
        raise TrainingError(
            f"{path}: say which column holds the label, as in --label {table.header[-1]!r}"
        )
    _require(table, label, "--label names one of its columns")
    features = [name for name in table.header if name != label]
    if not features:
        raise TrainingError(f"{path}, line 1: there is no column beside the label {label!r}")
    keys = cell_keys(zip(*(table.column(name) for name in features), strict=True))
    names, assumption = _names(table, label, labels)
    train, tests = table, None
    if test is not None:
        tests = _read(test)
        for name in table.header:
            _require(tests, name, "the table to test on needs every column of the other")
    elif test_share is not None:
        out = held_out(keys, test_share, hash_key)
        # Sorted, so that the order of the file has no say in theirs either.
        cells = table.column(label)
        held = sorted((keys[row], cells[row], int(row)) for row in np.flatnonzero(out))
        tests = table.chosen([row for _, _, row in held])
        train = table.chosen([row for row in range(len(keys)) if not out[row]])
        keys = [key for key, kept in zip(keys, ~out, strict=True) if kept]
    else:
        raise TrainingError(
            f"{path}: say what to test on: --test FILE, or --test-share 0.2 to hold out a share of "
            "the rows"
        )
    for each in (train, tests):
        if not each.rows:
            raise TrainingError(f"{each.path}: no row is left to train or to test on; add rows")
    words, answers = train.column(label), tests.column(label)
    header = Assumption(
        text=f"a change of the training set adds or removes rows of {file_name(path)}, not columns",
        checked=False,
    )
    return Samples(
        keys=keys,
        y=number_labels(words, names),
        words=tuple(words),
        truth=checked_truth(
            answers, names, lambda row: f"{tests.path}, line {tests.lines[row]}, column {label!r}"
        ),
        labels=names,
        features=TableFeatures(
            tuple(column_of(name, train.column(name) + tests.column(name)) for name in features)
        ),
        source=str(path),
        assumptions=(header, assumption),
    )


def _read(path: Path) -> _Table:
    cells = read_cells(path)
    if not cells.rows:
        raise TrainingError(f"{path}: there is no row below the header")
    return _Table(path, cells.header, cells.rows, cells.lines)


def _require(table: _Table, name: str, why: str) -> None:
    if name not in table.header:
        shown = ", ".join(table.header[:8])
        more = f", ... ({len(table.header)} columns)" if len(table.header) > 8 else ""
        raise TrainingError(
            f"{table.path}, line 1: there is no column {name!r}{hint(name, table.header)}; "
            f"{why}; it has {shown}{more}"
        )


def _names(
    table: _Table, label: str, given: Sequence[str] | None
) -> tuple[tuple[str, ...], Assumption]:
    if given is not None:
        return checked_names(str(table.path), [name.strip() for name in given], given=True)
    cells = table.column(label)
    for line, cell in zip(table.lines, cells, strict=True):
        if not cell:
            raise TrainingError(
                f"{table.path}, line {line}, column {label!r}: the label is missing; drop the row"
            )
    distinct = sorted(set(cells))
    values = {cell: number(cell) for cell in distinct}
    numbers = {
        cell: value for cell, value in values.items() if value is not None and math.isfinite(value)
    }
    if len(numbers) == len(distinct):
        distinct.sort(key=lambda cell: (numbers[cell], cell))
        fractional = [cell for cell in distinct if not numbers[cell].is_integer()]
        if fractional and len(distinct) > _MOST_FRACTIONAL_LABELS:
            raise TrainingError(
                f"{table.path}, column {label!r}: {len(distinct)} different labels, "
                f"{fractional[0]!r} among them, look like measurements; expected a few classes"
            )
    return checked_names(str(table.path), distinct, given=False)
