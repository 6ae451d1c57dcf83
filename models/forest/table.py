"""Training rows of a forest: two-valued attributes as bits, others as value codes.

Codes and bits only make the kernels fast. Priorities and thresholds are computed from the values
themselves, and only from those of rows a node holds, so no result depends on the encoding.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import kernel


class Table(NamedTuple):
    """Rows by slot, their place here; names are kept elsewhere."""

    bits: Annotated[NDArray[np.uint64], 2]  # shape (slots, words)
    codes: Annotated[NDArray[np.int32], 2]  # shape (general, slots)
    labels: NDArray[np.int32]  # shape (slots,): -1 where the row was deleted
    kind: NDArray[np.int32]  # shape (attributes,)
    bit_attribute: NDArray[np.int32]  # shape (64 words,): which attribute a bit is; -1 for none
    general_attribute: NDArray[np.int32]  # shape (general,)
    lows: NDArray[np.float64]  # shape (attributes,)
    highs: NDArray[np.float64]  # shape (attributes,)
    levels: NDArray[np.float64]  # shape (all values,)
    level_bits: NDArray[np.uint64]  # the same memory, as bits
    level_start: NDArray[np.int64]  # shape (general + 1,)
    order: Annotated[NDArray[np.int32], 2]  # shape (general, slots): slots by code
    group: NDArray[np.int64]  # shape (all values + general,)


MISSING = -np.inf
"""What stands for a missing value (NaN) inside: it is below all others."""


def internal(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a copy of values with unique bit patterns, NaN as ``MISSING``."""
    # -0.0 and 0.0 are one value.
    out = np.add(X, 0.0, order="C")
    out[np.isnan(out)] = MISSING
    return out


def public(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Replace ``MISSING`` by NaN in place and return the array."""
    X[X == MISSING] = np.nan
    return X


def encode(X: NDArray[np.float64], y: NDArray[np.int32]) -> Table:
    """Return the table of rows ``X``, finite or NaN, labelled ``y``."""
    rows, attributes = X.shape
    columns = internal(X.T)
    lows, highs = columns.min(axis=1), columns.max(axis=1)
    two = [bool(np.all((x == a) | (x == b))) for x, a, b in zip(columns, lows, highs, strict=True)]
    binary = np.flatnonzero(two)
    general = np.flatnonzero(np.logical_not(two))
    kind = np.empty(attributes, np.int32)
    kind[binary] = np.arange(len(binary))
    kind[general] = -1 - np.arange(len(general))
    words = -(-len(binary) // 64)
    bits = np.zeros((rows, words), np.uint64)
    bit_attribute = np.full(64 * words, -1, np.int32)
    bit_attribute[: len(binary)] = binary
    for b, attribute in enumerate(binary):
        greater = (columns[attribute] > lows[attribute]).astype(np.uint64)
        bits[:, b // 64] |= greater << np.uint64(b % 64)
    codes = np.empty((len(general), rows), np.int32)
    order = np.empty((len(general), rows), np.int32)
    levels, groups, starts = [np.empty(0)], [np.empty(0, np.int64)], [0]
    for g, attribute in enumerate(general):
        place = np.argsort(columns[attribute], kind="stable")
        values = columns[attribute][place]
        first = np.concatenate(([True], values[1:] != values[:-1]))
        codes[g, place] = np.cumsum(first) - 1
        order[g] = place
        levels.append(values[first])
        groups += [np.flatnonzero(first), np.array([rows])]
        starts.append(starts[-1] + len(levels[-1]))
    level = np.concatenate(levels)
    return Table(
        bits, codes, y.astype(np.int32), kind, bit_attribute, general.astype(np.int32),
        lows, highs, level, level.view(np.uint64), np.array(starts, np.int64),
        order, np.concatenate(groups),
    )  # fmt: skip


def decode(table: Table, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the values of rows, shape (slots, attributes), with ``MISSING`` for missing."""
    X = np.empty((len(slots), len(table.kind)))
    for attribute, kind in enumerate(table.kind):
        if kind >= 0:
            word, bit = table.bits[slots, kind // 64], np.uint64(kind % 64)
            greater = (word >> bit) & np.uint64(1)
            X[:, attribute] = np.where(greater == 1, table.highs[attribute], table.lows[attribute])
        else:
            g = -1 - int(kind)
            X[:, attribute] = table.levels[table.level_start[g] + table.codes[g, slots]]
    return X


def extend(
    table: Table, X: NDArray[np.float64], y: NDArray[np.int32]
) -> tuple[Table, NDArray[np.int32]] | None:
    """Return the table with rows added, and the recoding; None if it must be encoded again."""
    X = internal(X)
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


@kernel
def erase(table: Table, slots: NDArray[np.int64]) -> None:
    """Erase labels, two-valued attributes and no longer used values of rows."""
    for i in range(len(slots)):
        table.labels[slots[i]] = -1
        for w in range(table.bits.shape[1]):
            table.bits[slots[i], w] = 0
    for g in range(len(table.codes)):
        start = table.level_start[g]
        for j in range(len(slots)):
            code = table.codes[g, slots[j]]
            i, end = table.group[start + g + code], table.group[start + g + code + 1]
            while i < end and table.labels[table.order[g, i]] < 0:
                i += 1
            if i == end:
                table.levels[start + code] = np.nan
