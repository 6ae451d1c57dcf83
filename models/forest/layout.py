"""The arrays of a tree and of the work on it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.table import Table

__all__ = ["NODE", "SMALL", "Rules", "Scratch", "Tree", "Work", "record_length", "scratch_for"]

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
    """Working memory of one thread; what is in it lasts for one node.

    Attributes
    ----------
    words : ndarray of uint64, shape (words, slots)
        Bits of the node's rows, side by side.
    mask : ndarray of uint64, shape (words,)
        Which two-valued attributes vary.
    rows, live : ndarray of int32, shape (slots,)
        Rows on their way to the right child; rows of the node, by label.
    keys, spare : ndarray of int64, shape (slots,) or (0,)
        Code and label of each row, to be sorted.
    starts : ndarray of int64, shape (256,)
        Where each digit begins.
    histogram : ndarray of int32
        Rows of each code and label; zero between uses.
    group_code, group_label : ndarray of int32, shape (slots,) or (0,)
        Of rows of equal value: its code, and their label, -1 where they have several.
    group_counts : ndarray of int32, shape (slots labels,) or (0,)
    pick_hash : ndarray of uint64, shape (attributes,)
        Priorities of the attributes considered.
    pick : ndarray of int32, shape (attributes,)
        These attributes.
    constant : ndarray of int8, shape (general,)
        Whether a general attribute is constant: 0, 1, or 2 where not known.
    low : ndarray of int32, shape (labels,)
        Counts on the left.
    chosen : ndarray of int32, shape (k + 1, 2 + 3 labels)
        Thresholds kept, and a spare one.
    priority : ndarray of uint64, shape (k,)
        Their priorities.
    record : ndarray of int32
        The record just decided.
    size : ndarray of int64, shape (1,)
        Its length in words.
    stack_node, stack_key, stack_depth : ndarray, shape (levels,)
        Nodes still to be grown, with their keys and depths.
    path : ndarray of int32, shape (levels,)
        Nodes on the path last walked.
    path_feature, path_threshold : ndarray, shape (levels,)
        What each of them that stands is split on without, or with, the row that was walked.
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
    stack_node: NDArray[np.int32]
    stack_key: NDArray[np.uint64]
    stack_depth: NDArray[np.int32]
    path: NDArray[np.int32]
    path_feature: NDArray[np.int32]
    path_threshold: NDArray[np.float64]


class Work(NamedTuple):
    """What kernels work on, beside trees.

    Attributes
    ----------
    table : Table
    rules : Rules
    scratch : Scratch
    seed : int
        Of the forest.
    """

    table: Table
    rules: Rules
    scratch: Scratch
    seed: int


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
        size=np.zeros(1, np.int64),
        stack_node=np.empty(deepest, np.int32),
        stack_key=np.empty(deepest, np.uint64),
        stack_depth=np.empty(deepest, np.int32),
        path=np.empty(deepest, np.int32),
        path_feature=np.empty(deepest, np.int32),
        path_threshold=np.empty(deepest, np.float64),
    )
