"""Array layouts of a tree and of the work on it."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import subroutine
from leaveout.handles import Handle
from leaveout.models.forest.table import Table

SMALL = 64
"""Nodes of at most so many rows cache no thresholds: they are decided anew, which is as fast."""

LEAF, PENDING = -1, -2
"""What stands in place of an attribute in a leaf, and in a node of which only the rows and their
counts are known: it is grown when it is asked."""

OPEN = -3
"""A node whose split is to be decided again when it is asked has ``OPEN`` less its attribute."""

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
"""A node: attribute (or ``LEAF`` or ``PENDING``), children, its part of ``Tree.rows``,
where its cached statistics begin in ``Tree.arena`` (-1: none), and its threshold; at most the
threshold is left."""


class Rules(NamedTuple):
    """Parameters by which a tree is grown."""

    thresholds: int  # k, valid thresholds an attribute
    attributes: int  # attributes a greedy node
    depth: int  # deepest level of a leaf
    random_depth: int  # d_rmax: levels above it hold random nodes
    least: int  # rows a node needs to be split
    entropy: bool  # else Gini


class Tree(NamedTuple):
    """The arrays of a tree."""

    nodes: Annotated[NDArray[Any], NODE]  # the root is node 0
    counts: Annotated[
        NDArray[np.int32], 2
    ]  # shape (nodes, labels): rows of each label in each node
    arena: NDArray[np.int32]  # records of cached statistics
    rows: NDArray[np.int32]
    where: NDArray[np.int32]  # shape (slots,)
    used: NDArray[np.int64]  # shape (3,)


class Scratch(NamedTuple):
    """Working memory of one thread, valid for one node."""

    words: Annotated[
        NDArray[np.uint64], 2
    ]  # shape (words, slots): bits of the node's rows, side by side
    mask: NDArray[np.uint64]  # shape (words,): which two-valued attributes vary
    rows: NDArray[np.int32]  # shape (slots,)
    live: NDArray[np.int32]  # shape (slots,)
    keys: NDArray[np.int64]  # shape (slots,) or (0,): code and label of each row, to be sorted
    spare: NDArray[np.int64]  # shape (slots,) or (0,): code and label of each row, to be sorted
    starts: NDArray[np.int64]  # shape (256,): where each digit begins
    histogram: NDArray[np.int32]  # rows of each code and label; zero between uses
    group_code: NDArray[np.int32]  # shape (slots,) or (0,)
    group_label: NDArray[np.int32]  # shape (slots,) or (0,)
    group_counts: NDArray[np.int32]  # shape (slots labels,) or (0,)
    pick_hash: NDArray[np.uint64]  # shape (attributes,): priorities of the attributes considered
    pick: NDArray[np.int32]  # shape (attributes,): these attributes
    constant: NDArray[np.int8]  # shape (general,)
    low: NDArray[np.int32]  # shape (labels,): counts on the left
    chosen: Annotated[
        NDArray[np.int32], 2
    ]  # shape (k + 1, 2 + 3 labels): thresholds kept, and a spare one
    priority: NDArray[np.uint64]  # shape (k,): their priorities
    record: NDArray[np.int32]  # the record just decided
    size: NDArray[np.int64]  # shape (1,): its length in words
    stack_node: NDArray[np.int64]  # shape (levels,)
    stack_key: NDArray[np.uint64]  # shape (levels,)
    stack_depth: NDArray[np.int64]  # shape (levels,)
    path: NDArray[np.int32]  # shape (levels,): nodes on the path last walked
    path_feature: NDArray[np.int32]  # shape (levels,)
    path_threshold: NDArray[np.float64]  # shape (levels,)


@subroutine
def attribute_of(feature: int) -> int:
    """Return the attribute a node splits on, decided or not, or a negative number."""
    return OPEN - feature if feature <= OPEN else feature


@subroutine
def total(counts: Any) -> int:
    """Return the sum of counts by label."""
    n = 0
    for c in range(len(counts)):
        n += counts[c]
    return n


def record_length(rules: Rules, labels: int, rows: int) -> int:
    """Return the length in words of the longest record for a number of rows."""
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
        stack_node=np.empty(deepest, np.int64),
        stack_key=np.empty(deepest, np.uint64),
        stack_depth=np.empty(deepest, np.int64),
        path=np.empty(deepest, np.int32),
        path_feature=np.empty(deepest, np.int32),
        path_threshold=np.empty(deepest, np.float64),
    )


TREE, TABLE, SCRATCH = Handle(Tree), Handle(Table), Handle(Scratch)
tree_at, _table_at, _scratch_at = TREE.at, TABLE.at, SCRATCH.at
_SCRATCH = TABLE.length
_RULES = _SCRATCH + SCRATCH.length


class Work(NamedTuple):
    """What kernels work on besides trees; they get its words."""

    table: Table
    rules: Rules
    scratch: Scratch
    seed: int  # of the forest
    words: NDArray[np.int64]


def work_on(table: Table, rules: Rules, scratch: Scratch, seed: int) -> Work:
    """Return what kernels work on."""
    numbers = np.array([*rules, seed], np.int64)
    words = np.concatenate((TABLE.words(table), SCRATCH.words(scratch), numbers))
    return Work(table, rules, scratch, seed, words)


@subroutine
def borrow(words: NDArray[np.int64]) -> tuple[Table, Rules, Scratch, int]:
    """Return a kernel's working data, and the forest's seed."""
    rules = words[_RULES:]
    return (
        _table_at(words, 0),
        Rules(rules[0], rules[1], rules[2], rules[3], rules[4], rules[5] != 0),
        _scratch_at(words, _SCRATCH),
        rules[6],
    )
