"""What the kernels of the search over forests read and write, as named tuples of arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["LAMBDAS", "Frontier", "Listed", "Scratch", "Trees", "frontier", "scratch"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

LAMBDAS = (0.25, 0.5, 0.75, 1.0, 1.5)
"""Multipliers of what the member's margin must not exceed; 0 and infinity are bounds as well."""


class Trees(NamedTuple):
    """Trees, what members have in place of their nodes, and margins of one label.

    Attributes
    ----------
    nodes : ndarray of int32, shape (nodes, 4)
        Feature (-1: a leaf), greatest code that goes left, left (a leaf's row of shares), right.
    shares : ndarray of float64, shape (answers, labels)
    roots : ndarray of int64, shape (trees + 1,)
    end : ndarray of int32, shape (nodes of the whole,)
        The node behind the last one below each.
    low, high : ndarray of float64, shape (nodes, labels)
        Least and greatest share of the label less each label's, over the leaves below.
    start : ndarray of int64, shape (members + 1,)
    tree : ndarray of int32, shape (changes,)
    node, instead : ndarray of int64, shape (changes,)
    weights : ndarray of float64, shape (2,)
        One over the number of trees of the whole and of the members.
    numbers : ndarray of int64, shape (4,)
        The label; how many trees the whole has, and the members; 1 where these are as many.
    """

    nodes: Ints
    shares: Floats
    roots: Longs
    end: Ints
    low: Floats
    high: Floats
    start: Longs
    tree: Ints
    node: Longs
    instead: Longs
    weights: Floats
    numbers: Longs


class Listed(NamedTuple):
    """Features that take listed rows together; see `leaveout.encoders.forests.cells.Groups`."""

    of: Ints
    column_start: Longs
    columns: Ints
    row_start: Longs
    rows: Ints


class Frontier(NamedTuple):
    """Boxes that are still to be split, for one member; slots that a heap orders by bound.

    Attributes
    ----------
    box : ndarray of int32, shape (slots, 2, features)
        Least and greatest codes.
    at : ndarray of int32, shape (slots, 2, trees)
        The lowest nodes of the whole and of the member above all leaves that a box reaches.
    upper : ndarray of float64, shape (slots,)
    split : ndarray of int32, shape (slots, 2)
        The feature to split, and the greatest code of the left part.
    heap : ndarray of int64, shape (slots,)
    free : ndarray of int64, shape (slots,)
        Slots not in use; the last is taken first.
    state : ndarray of int64, shape (6,)
        Boxes in the heap; free slots; member (-1: none begun); boxes bounded so far; those of
        this member; which of the list of members is next.
    values : ndarray of float64, shape (4,)
        Greatest bound of what was set aside for this member; its greatest leak; padding.
    found : ndarray of int32, shape (features,)
        Codes of the leak reported last.
    """

    box: Ints
    at: Ints
    upper: Floats
    split: Ints
    heap: Longs
    free: Longs
    state: Longs
    values: Floats
    found: Ints


class Scratch(NamedTuple):
    """Room for one bound.

    Attributes
    ----------
    changed : ndarray of int64, shape (2, trees)
        The node of each tree that this member changes (-1: none), and what stands for it.
    parts : ndarray of float64, shape (trees, 2, labels, 2 + multipliers)
        For each tree, side of its first open split and rival: greatest margin of the whole, least
        of the member, greatest of the whole less multiples of the member's.
    worse : ndarray of bool, shape (labels,)
        Whether some tree moves towards this rival.
    stack : ndarray of int64, shape (entries, 7)
    drops : ndarray of float64, shape (features, 4)
        What splitting a feature takes off the bound of its left and of its right part, the most
        that one tree contributes, and the cut of that tree.
    sums : ndarray of float64, shape (labels, 2 + multipliers)
    means : ndarray of float64, shape (2, labels)
    lambdas : ndarray of float64, shape (multipliers,)
    """

    changed: Longs
    parts: Floats
    worse: NDArray[np.bool_]
    stack: Longs
    drops: Floats
    sums: Floats
    means: Floats
    lambdas: Floats


def frontier(slots: int, features: int, trees: int, kept: Frontier | None = None) -> Frontier:
    """Return an empty frontier, or one with more slots that holds what another does."""
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
    """Return room for bounds."""
    kinds = 2 + len(LAMBDAS)
    return Scratch(
        np.empty((2, trees), np.int64), np.empty((trees, 2, labels, kinds)),
        np.empty(labels, np.bool_), np.empty((4096, 7), np.int64), np.zeros((features, 4)),
        np.empty((labels, kinds)), np.empty((2, labels)), np.array(LAMBDAS),
    )  # fmt: skip
