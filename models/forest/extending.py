"""Rows that join a table, and what becomes of the codes of the rows already there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.table import Table

__all__ = ["extended"]


def extended(
    table: Table, X: NDArray[np.float64], y: NDArray[np.int32]
) -> tuple[Table, NDArray[np.int32]] | None:
    """Return the table with more rows in new slots, and each old code's new one.

    None if an attribute of at most two values gets another one: then it is encoded otherwise.
    """
    X = X + 0.0
    binary = np.flatnonzero(table.kind >= 0)
    known = (X[:, binary] == table.lows[binary]) | (X[:, binary] == table.highs[binary])
    if not known.all():
        return None
    bits = np.zeros((len(X), table.bits.shape[1]), np.uint64)
    for attribute in binary:
        bit = int(table.kind[attribute])
        greater = (X[:, attribute] > table.lows[attribute]).astype(np.uint64)
        bits[:, bit // 64] |= greater << np.uint64(bit % 64)
    slots = len(table.labels) + len(X)
    codes = np.empty((len(table.codes), slots), np.int32)
    order = np.empty_like(codes)
    moved = np.zeros(len(table.levels), np.int32)
    levels, groups, starts = [np.empty(0)], [np.empty(0, np.int64)], [0]
    for g, attribute in enumerate(table.general_attribute):
        old = slice(int(table.level_start[g]), int(table.level_start[g + 1]))
        had = table.levels[old]
        alive = ~np.isnan(had)
        values = np.union1d(had[alive], X[:, attribute])
        moved[old][alive] = np.searchsorted(values, had[alive])
        codes[g, : len(table.labels)] = moved[old][table.codes[g]]
        codes[g, len(table.labels) :] = np.searchsorted(values, X[:, attribute])
        order[g] = np.argsort(codes[g], kind="stable")
        levels.append(values)
        groups.append(np.searchsorted(codes[g][order[g]], np.arange(len(values) + 1)))
        starts.append(starts[-1] + len(values))
    level = np.concatenate(levels)
    return table._replace(
        bits=np.concatenate((table.bits, bits)),
        codes=codes,
        labels=np.concatenate((table.labels, y.astype(np.int32))),
        levels=level,
        level_bits=level.view(np.uint64),
        level_start=np.array(starts, np.int64),
        order=order,
        group=np.concatenate(groups).astype(np.int64),
    ), moved
