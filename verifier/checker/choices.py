"""Discrete inputs: shrinking regions to listed rows, and maximising over rows.

A row v stands for the real point v - origin. It is compared as s = fl(v - origin): rounding is
monotone, so a region whose ends are floats and that holds v - origin holds s. Nothing is left out
by a tolerance; hulls are widened by one float, since s is within one of v - origin.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.arithmetic import Arithmetic
from leaveout.verifier.checker.inputs import Table

Floats = NDArray[np.float64]

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
            # Of regions without a row nothing is asked any more.
            rows = np.where((inside | ~some[:, None])[:, :, None], table.values, np.nan)
            first, last = np.nanmin(rows, axis=1), np.nanmax(rows, axis=1)
            lower[part, at] = np.maximum(lower[part, at], np.nextafter(first, -np.inf))
            upper[part, at] = np.minimum(upper[part, at], np.nextafter(last, np.inf))
    return lower, upper, empty


def ends_over(
    shifted: tuple[Table, ...],
    slopes: Floats,  # shape (r, inputs)
    lower: Floats,  # shape (inputs,)
    upper: Floats,  # shape (inputs,)
    numbers: Arithmetic,
) -> Floats:
    """Largest ``slopes y`` over one shifted region whose listed features take whole rows."""
    ends = np.maximum(slopes * lower, slopes * upper)
    for table in shifted:
        ends[:, table.columns] = 0.0
    total: Floats = ends.sum(axis=1)
    for table in shifted:
        step = max(1, _AT_ONCE // len(table.values))
        for i in range(0, len(slopes), step):
            part = slice(i, i + step)
            values = slopes[part][:, table.columns] @ table.values.T
            total[part] = total[part] + numbers.up(values).max(axis=1)
    return total
