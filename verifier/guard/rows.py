"""Rows of a CSV, one by one, as inputs for the guard."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from leaveout.errors import GuardError, TrainingError
from leaveout.models.reading import FURTHER, Reading, is_blank
from leaveout.names import hint
from leaveout.verifier.guard.guard import Guard
from leaveout.verifier.guard.inputs import Point


@dataclass(frozen=True)
class Answer:
    """The answer to a row."""

    line: int  # of the CSV, from 1; of arrays the row, from 0
    label: int | None  # None where the row lies outside the verified inputs and is refused


@dataclass(frozen=True, eq=False)
class _Row:
    line: int
    x: Point


def answer_rows(guard: Guard, stream: TextIO, source: str, batch: int) -> Iterator[Answer]:
    """Answer the rows of a CSV in order, reading no further than a batch.

    Columns are matched by name in the training table's units, others ignored; without names they
    are features in order.
    """
    waiting: list[_Row] = []
    for row in _rows(guard, stream, source):
        waiting.append(row)
        if len(waiting) == batch:
            yield from _batch(guard, waiting, source)
            waiting = []
    yield from _batch(guard, waiting, source)


def answer_arrays(guard: Guard, path: Path, batch: int) -> Iterator[Answer]:
    """Answer the rows of an NPZ, ``X_test`` or ``X``, in the model's units."""
    x = guard.subject.read_arrays(path)
    for start in range(0, len(x), batch):
        for at, label in enumerate(guard.answers(x[start : start + batch]).tolist(), start):
            yield Answer(at, None if label < 0 else label)


def _batch(guard: Guard, rows: list[_Row], source: str) -> Iterator[Answer]:
    if not rows:
        return
    try:
        labels = guard.answers(np.stack([row.x for row in rows])).tolist()
    except GuardError as error:
        if len(rows) == 1:
            wrong = str(error).removeprefix("input 0: ")
            raise GuardError(f"{source}, line {rows[0].line}: {wrong}") from None
        # One of them is to blame: those before it are answered.
        for row in rows:
            yield from _batch(guard, [row], source)
        return
    for row, label in zip(rows, labels, strict=True):
        yield Answer(row.line, None if label < 0 else label)


def _rows(guard: Guard, stream: TextIO, source: str) -> Iterator[_Row]:
    reading = reading_of(guard)
    line = 1
    try:
        reader = reading.rows(stream, source)
        header = reader.header()
        wanted = _check_header(guard, header, source)
        for cells in reader:
            if is_blank(cells) and len(header) > 1:
                continue
            line = reader.line
            if len(cells) != len(header):
                raise GuardError(
                    f"{source}, line {line}: {len(cells)} cells, expected {len(header)} as in "
                    "the header; correct the line"
                )
            try:
                yield _Row(line, guard.encode([_row_cells(guard, wanted, cells)])[0])
            except GuardError as error:
                wrong = str(error).removeprefix("row 0, ").removeprefix("row 0: ")
                raise GuardError(f"{source}, line {line}, {wrong}") from None
    except csv.Error as error:
        raise GuardError(f"{source}, line {line}: not CSV: {error}") from None
    except UnicodeDecodeError as error:
        raise GuardError(f"{source}: {reading.why_not_text(error)}") from None
    except TrainingError as error:
        raise GuardError(str(error)) from None


def _row_cells(guard: Guard, header: list[str], cells: list[str]) -> dict[str, str]:
    """Return a row's cells by column, with decimal points in those that the model reads."""
    named = dict(zip(header, (cell.strip() for cell in cells), strict=True))
    if guard.encoding is not None:
        for name in guard.encoding.needed_columns:
            try:
                named[name] = guard.encoding.to_reading.number_text(named[name])
            except ValueError as error:
                raise GuardError(f"column {name!r}: {error}") from None
    return named


def reading_of(guard: Guard) -> Reading:
    """Return how tables are read: like the training table."""
    return FURTHER if guard.encoding is None else guard.encoding.to_reading


def _check_header(guard: Guard, header: list[str], source: str) -> list[str]:
    """Return the header, or feature names where it has none."""
    if not any(header):
        raise GuardError(f"{source}: is empty; expected a header line with the column names")
    encoding = guard.encoding
    columns = guard.features if encoding is None else encoding.needed_columns
    unnamed = encoding is None and columns == tuple(map(str, range(guard.inputs)))
    if unnamed and set(columns) - set(header):
        if len(header) != len(columns):
            raise GuardError(
                f"{source}, line 1: {len(header)} columns, expected {len(columns)}; features "
                "have no names and are matched by order"
            )
        return list(columns)
    for name in columns:
        if name not in header:
            raise GuardError(
                f"{source}, line 1: no column {name!r}{hint(name, header)}; the model reads "
                f"{len(columns)} columns"
            )
        if header.count(name) > 1:
            raise GuardError(f"{source}, line 1: two columns are named {name!r}; rename one")
    return header
