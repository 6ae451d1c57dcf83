"""Sets of inputs: a box, with features restricted to listed rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .numbers import Floats, need

_LARGEST = float(np.finfo(np.float32).max)

_ROWS = 8  # tables with more rows are printed as a digest


@dataclass(frozen=True)
class ChoicesPart:
    """Features that jointly take one of the listed rows, as a claim states them."""

    columns: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class BoxPart:
    """A set of inputs, as a claim states it."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    choices: tuple[ChoicesPart, ...] = ()


class Table(NamedTuple):
    """Features that jointly take one of the listed rows."""

    columns: NDArray[np.int64]  # shape (g,)
    values: Floats  # shape (v, g)

    def __str__(self) -> str:
        width = len(self.columns)
        features = ", ".join(map(str, self.columns.tolist()))
        rows = [
            number(row[0]) if width == 1 else f"({', '.join(map(number, row))})"
            for row in self.values[:_ROWS].tolist()
        ]
        listed = ", ".join(rows)
        if len(self.values) > _ROWS:
            digest = hashlib.sha256(np.ascontiguousarray(self.values, "<f8").tobytes()).hexdigest()
            listed += f", ... {len(self.values):,} in all, SHA-256 of their float64 values {digest}"
        if width == 1:
            return f"feature {features} takes only the values {listed}"
        return f"features {features} together take only the values {listed}"


@dataclass(frozen=True, eq=False)
class Inputs:
    """The points of a box whose listed features take one of their rows."""

    lower: Floats  # shape (inputs,)
    upper: Floats  # shape (inputs,)
    tables: tuple[Table, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield a line per range of inputs."""
        listed = {int(c) for table in self.tables for c in table.columns}
        free = [i for i in range(len(self.lower)) if i not in listed]
        for (low, high), group in groupby(
            sorted(free, key=lambda i: (self.lower[i], self.upper[i], i)),
            key=lambda i: (float(self.lower[i]), float(self.upper[i])),
        ):
            own = list(group)
            features = f"features {runs(own)} are" if len(own) > 1 else f"feature {own[0]} is"
            yield f"{features} in [{number(low)}, {number(high)}]"
        for table in self.tables:
            yield str(table)


def read_box(part: BoxPart, width: int, reader: str, *, single: bool = True) -> Inputs:
    """Return the set of inputs stated in a certificate."""
    lower, upper = np.asarray(part.lower, np.float64), np.asarray(part.upper, np.float64)
    fits = lower.shape == upper.shape == (width,)
    need(fits, f"the box does not have the {width} features that {reader} reads")
    finite = (np.abs(lower) <= _LARGEST) & (np.abs(upper) <= _LARGEST)
    need(finite & (lower <= upper), "the box is empty, or not finite in float32")
    tables = tuple(_table(each, width, single) for each in part.choices)
    for table in tables:
        at, rows = table.columns, table.values
        # With no listed row in the box, the claim would be about no point.
        inside = ((rows >= lower[at]) & (rows <= upper[at])).all(axis=1)
        outside = rows[np.argmin(inside)].tolist()
        need(
            inside,
            f"the box lists a row that lies outside it: {outside} of features {at.tolist()}",
        )
    columns = [column for table in tables for column in table.columns.tolist()]
    once = len(set(columns)) == len(columns)
    need(once, "the box lists the values of a feature more than once")
    return Inputs(lower, upper, tables)


def _table(part: ChoicesPart, width: int, single: bool) -> Table:
    there = len(part.columns) > 0 and all(0 <= column < width for column in part.columns)
    need(there, "the box lists values of features that do not exist")
    fits = len(part.values) > 0 and all(len(row) == len(part.columns) for row in part.values)
    need(
        fits, "the box lists no values, or rows whose length differs from their number of features"
    )
    values = np.asarray(part.values, np.float64)
    # Networks read no other numbers, nor NaN and infinity.
    read = not single or np.array_equal(values.astype(np.float32), values)
    fine = read and np.all(np.abs(values) <= _LARGEST)
    need(fine, "the box lists a number that float32 cannot represent")
    return Table(np.asarray(part.columns, np.int64), values)


def number(value: float) -> str:
    """Return the shortest text that reads back as the number."""
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def runs(numbers: list[int]) -> str:
    """Write ascending numbers with runs joined: 0-4, 7."""
    found: list[list[int]] = []
    for each in numbers:
        if found and each == found[-1][-1] + 1:
            found[-1].append(each)
        else:
            found.append([each])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in found)


_AT_ONCE = 2**20


def shifted_rows(tables: tuple[Table, ...], origin: Floats) -> tuple[Table, ...]:
    """Return the tables in shifted units, each number rounded once."""
    return tuple(Table(table.columns, table.values - origin[table.columns]) for table in tables)


def shrink(
    shifted: tuple[Table, ...], lower: Floats, upper: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Shrink shifted regions, shape (n, inputs), to the hulls of the rows in them."""
    empty: NDArray[np.bool_] = np.any(lower > upper, axis=1)
    lower, upper = lower.copy(), upper.copy()
    for table in shifted:
        at = table.columns
        step = max(1, _AT_ONCE // table.values.size)
        for i in range(0, len(lower), step):
            part = slice(i, i + step)
            inside = np.all(
                (table.values >= lower[part, None, at]) & (table.values <= upper[part, None, at]),
                axis=2,
            )
            some = inside.any(axis=1)
            empty[part] |= ~some
            # Regions without a row are not used any more.
            rows = np.where((inside | ~some[:, None])[:, :, None], table.values, np.nan)
            first, last = np.nanmin(rows, axis=1), np.nanmax(rows, axis=1)
            lower[part, at] = np.maximum(lower[part, at], np.nextafter(first, -np.inf))
            upper[part, at] = np.minimum(upper[part, at], np.nextafter(last, np.inf))
    return lower, upper, empty
