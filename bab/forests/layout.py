"""Arrays of the forest search's kernels, as named tuples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

LAMBDAS = (0.25, 0.5, 0.75, 1.0, 1.5)
"""Multipliers of what the member's margin must not exceed; 0 and infinity are bounds as well."""


class Trees(NamedTuple):
    """Trees, the members' replacement nodes, and one label's margins."""

    nodes: Ints  # shape (nodes, 4)
    shares: Floats  # shape (answers, labels)
    roots: Longs  # shape (trees + 1,)
    end: Ints  # shape (nodes of the whole,): the node behind the last one below each
    low: Floats  # shape (nodes, labels)
    high: Floats  # shape (nodes, labels)
    start: Longs  # shape (members + 1,)
    tree: Ints  # shape (changes,)
    node: Longs  # shape (changes,)
    instead: Longs  # shape (changes,)
    weights: Floats  # shape (2,): one over the number of trees of the whole and of the members
    numbers: Longs  # shape (4,)


class Listed(NamedTuple):
    """Features that take listed rows jointly; see `leaveout.encoders.forests.cells.Groups`."""

    of: Ints
    column_start: Longs
    columns: Ints
    row_start: Longs
    rows: Ints


class Frontier(NamedTuple):
    """Open boxes of one member, in slots that a heap orders by bound."""

    box: Ints  # shape (slots, 2, features): least and greatest codes
    at: Ints  # shape (slots, 2, trees)
    upper: Floats  # shape (slots,)
    split: Ints  # shape (slots, 2): the feature to split, and the greatest code of the left part
    heap: Longs  # shape (slots,)
    free: Longs  # shape (slots,): slots not in use; the last is taken first
    state: Longs  # shape (6,)
    values: Floats  # shape (4,)
    found: Ints  # shape (features,): codes of the leak reported last


class Scratch(NamedTuple):
    """Work space for one bound."""

    changed: Longs  # shape (2, trees)
    parts: Floats  # shape (trees, 2, labels, 2 + multipliers)
    worse: NDArray[np.bool_]  # shape (labels,): whether some tree moves towards this rival
    stack: Longs  # shape (entries, 7)
    drops: Floats  # shape (features, 4)
    sums: Floats  # shape (labels, 2 + multipliers)
    means: Floats  # shape (2, labels)
    lambdas: Floats  # shape (multipliers,)


def frontier(slots: int, features: int, trees: int, kept: Frontier | None = None) -> Frontier:
    """Return an empty frontier, or a larger one with another's content."""
    made = Frontier(
        np.empty((slots, 2, features), np.int32), np.empty((slots, 2, trees), np.int32),
        np.empty(slots), np.empty((slots, 2), np.int32), np.empty(slots, np.int64),
        np.empty(slots, np.int64), np.zeros(6, np.int64), np.zeros(4),
        np.zeros(features, np.int32),
    )  # fmt: skip
    if kept is None:
        made.free[:] = np.arange(slots)[::-1]
        made.state[1], made.state[2] = slots, -1
        return made
    old = len(kept.upper)
    made.box[:old], made.at[:old], made.upper[:old] = kept.box, kept.at, kept.upper
    made.split[:old], made.heap[:old] = kept.split, kept.heap
    more = slots - old
    made.free[:more] = np.arange(old, slots)[::-1]
    made.free[more : more + kept.state[1]] = kept.free[: kept.state[1]]
    made.state[:], made.values[:], made.found[:] = kept.state, kept.values, kept.found
    made.state[1] += more
    return made


def scratch(features: int, trees: int, labels: int) -> Scratch:
    """Return work space for bounds."""
    kinds = 2 + len(LAMBDAS)
    return Scratch(
        np.empty((2, trees), np.int64), np.empty((trees, 2, labels, kinds)),
        np.empty(labels, np.bool_), np.empty((4096, 7), np.int64), np.zeros((features, 4)),
        np.empty((labels, kinds)), np.empty((2, labels)), np.array(LAMBDAS),
    )  # fmt: skip
