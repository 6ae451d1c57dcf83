"""The arrays of a tree and of the work on it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.table import Table

__all__ = ["NODE", "SMALL", "Rules", "Scratch", "Tree", "record_length", "scratch_for"]

SMALL = 64
"""Nodes of at most so many rows cache no thresholds: they are decided anew, which is as fast."""

NODE = np.dtype(
    [
        ("feature", np.int32),
        ("left", np.int32),
        ("right", np.int32),
        ("start", np.int32),
        ("span", np.int32),
        ("record", np.int32),
        ("threshold", np.float64),
    ],
    align=True,
)
"""A node: attribute (-1 for a leaf), children, its part of ``Tree.rows``, where its cached
statistics begin in ``Tree.arena`` (-1: none), and its threshold; at most the threshold is left."""


class Rules(NamedTuple):
    """What a tree is grown by.

    Attributes
    ----------
    thresholds : int
        k, valid thresholds an attribute.
    attributes : int
        Attributes a greedy node.
    depth : int
        Deepest level of a leaf.
    random_depth : int
        d_rmax: levels above it hold random nodes.
    least : int
        Rows a node needs to be split.
    entropy : bool
        Else Gini.
    """

    thresholds: int
    attributes: int
    depth: int
    random_depth: int
    least: int
    entropy: bool


class Tree(NamedTuple):
    """One tree.

    Attributes
    ----------
    nodes : ndarray of NODE
        The root is node 0. Nodes no longer reached lie between the others.
    counts : ndarray of int32, shape (nodes, labels)
        Rows of each label in each node.
    arena : ndarray of int32
        Records of cached statistics. Random node: least and greatest code of its attribute.
        Greedy node: how many attributes, then for each, by priority, the attribute, how many
        thresholds, and for each threshold the counts below it (binary attribute), or the codes of
        the two adjacent values and the counts at most the first, at the first, at the second.
    rows : ndarray of int32
        Slots of the table, those of a node side by side; -1 where one was deleted.
    where : ndarray of int32
        Where in ``rows`` each slot lies; -1 if it is deleted.
    used : ndarray of int64, shape (2,)
        Nodes and words of the arena in use.
    """

    nodes: NDArray[Any]
    counts: NDArray[np.int32]
    arena: NDArray[np.int32]
    rows: NDArray[np.int32]
    where: NDArray[np.int32]
    used: NDArray[np.int64]


class Scratch(NamedTuple):
    """Working memory of one thread; ``size`` and ``key`` also carry results.

    ``size`` is: length of the record just decided; depth at which the walk stopped; rows of the
    node where it did. ``key`` is the key of that node.
    """

    words: NDArray[np.uint64]
    mask: NDArray[np.uint64]
    rows: NDArray[np.int32]
    live: NDArray[np.int32]
    keys: NDArray[np.int64]
    spare: NDArray[np.int64]
    starts: NDArray[np.int64]
    histogram: NDArray[np.int32]
    group_code: NDArray[np.int32]
    group_label: NDArray[np.int32]
    group_counts: NDArray[np.int32]
    pick_hash: NDArray[np.uint64]
    pick: NDArray[np.int32]
    constant: NDArray[np.int8]
    low: NDArray[np.int32]
    chosen: NDArray[np.int32]
    priority: NDArray[np.uint64]
    record: NDArray[np.int32]
    size: NDArray[np.int64]
    key: NDArray[np.uint64]
    stack_node: NDArray[np.int32]
    stack_key: NDArray[np.uint64]
    stack_depth: NDArray[np.int32]
    path: NDArray[np.int32]


def record_length(rules: Rules, labels: int, rows: int) -> int:
    """Return the words of the longest record of a node of so many rows."""
    thresholds = min(rules.thresholds, max(rows, 1))
    return 2 + rules.attributes * (2 + thresholds * (2 + 3 * labels))


def scratch_for(table: Table, rules: Rules, labels: int) -> Scratch:
    """Return working memory for trees on a table."""
    rows, words = table.bits.shape
    general = len(table.codes)
    sorting = rows if general else 0
    deepest = min(rules.depth, rows) + 3
    k = min(rules.thresholds, rows)
    return Scratch(
        words=np.empty((words, rows), np.uint64),
        mask=np.empty(words, np.uint64),
        rows=np.empty(rows, np.int32),
        live=np.empty(rows, np.int32),
        keys=np.empty(sorting, np.int64),
        spare=np.empty(sorting, np.int64),
        starts=np.empty(256, np.int64),
        histogram=np.zeros((2 * sorting + 64) * 2 * labels, np.int32),
        group_code=np.empty(sorting, np.int32),
        group_label=np.empty(sorting, np.int32),
        group_counts=np.empty(sorting * labels, np.int32),
        pick_hash=np.empty(rules.attributes, np.uint64),
        pick=np.empty(rules.attributes, np.int32),
        constant=np.empty(general, np.int8),
        low=np.empty(labels, np.int32),
        chosen=np.empty((k + 1, 2 + 3 * labels), np.int32),
        priority=np.empty(k, np.uint64),
        record=np.empty(record_length(rules, labels, rows), np.int32),
        size=np.zeros(3, np.int64),
        key=np.zeros(1, np.uint64),
        stack_node=np.empty(deepest, np.int32),
        stack_key=np.empty(deepest, np.uint64),
        stack_depth=np.empty(deepest, np.int32),
        path=np.empty(deepest, np.int32),
    )
