"""Discrete inputs: shrink regions to the listed rows inside, and maximise over the rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.question import Table

__all__ = ["ends_over", "shrink"]

Floats = NDArray[np.float64]

_AT_ONCE = 2**20
_ROOM = 1e-12
"""A listed value may sit a rounding outside of a region it belongs to."""


def shrink(
    tables: tuple[Table, ...], origin: Floats, lower: Floats, upper: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Shrink shifted regions, shape (n, inputs), to the hulls of the rows in them.

    Returns the regions, and which hold no row.
    """
    empty: NDArray[np.bool_] = np.any(lower > upper, axis=1)
    if not tables:
        return lower, upper, empty
    room = _ROOM * (np.abs(lower + origin) + np.abs(upper + origin))
    least, most = lower + origin - room, upper + origin + room
    lower, upper = lower.copy(), upper.copy()
    for table in tables:
        at = table.columns
        step = max(1, _AT_ONCE // table.values.size)
        for i in range(0, len(lower), step):
            part = slice(i, i + step)
            inside = np.all(
                (table.values >= least[part, None, at]) & (table.values <= most[part, None, at]),
                axis=2,
            )[:, :, None]
            first = np.where(inside, table.values, np.inf).min(axis=1)
            last = np.where(inside, table.values, -np.inf).max(axis=1)
            none = ~inside.any(axis=(1, 2))
            empty[part] |= none
            first[none], last[none] = least[part][none][:, at], most[part][none][:, at]
            lower[part, at] = np.maximum(lower[part, at], first - origin[at] - room[part, at])
            upper[part, at] = np.minimum(upper[part, at], last - origin[at] + room[part, at])
    return lower, upper, empty


def ends_over(
    tables: tuple[Table, ...], origin: Floats, slopes: Floats, lower: Floats, upper: Floats
) -> Floats:
    """Largest ``slopes x`` over one shifted region whose listed features take whole rows.

    Parameters
    ----------
    slopes : ndarray of float64, shape (r, inputs)
    lower, upper : ndarray of float64, shape (inputs,)
    """
    ends = np.maximum(slopes * lower, slopes * upper)
    for table in tables:
        ends[:, table.columns] = 0.0
    total = ends.sum(axis=1)
    for table in tables:
        values = table.values - origin[table.columns]
        step = max(1, _AT_ONCE // len(values))
        for i in range(0, len(slopes), step):
            part = slice(i, i + step)
            total[part] += (slopes[part][:, table.columns] @ values.T).max(axis=1)
    return np.asarray(total)
