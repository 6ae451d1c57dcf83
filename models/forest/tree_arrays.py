"""Array layouts of a tree and of the work on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic
from numpy.typing import NDArray

from leaveout.models.forest.compiling import scalar, subroutine
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

    nodes: NDArray[Any]  # the root is node 0
    counts: NDArray[np.int32]  # shape (nodes, labels): rows of each label in each node
    arena: NDArray[np.int32]  # records of cached statistics
    rows: NDArray[np.int32]
    where: NDArray[np.int32]  # shape (slots,)
    used: NDArray[np.int64]  # shape (3,)


class Scratch(NamedTuple):
    """Working memory of one thread, valid for one node."""

    words: NDArray[np.uint64]  # shape (words, slots): bits of the node's rows, side by side
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
    chosen: NDArray[np.int32]  # shape (k + 1, 2 + 3 labels): thresholds kept, and a spare one
    priority: NDArray[np.uint64]  # shape (k,): their priorities
    record: NDArray[np.int32]  # the record just decided
    size: NDArray[np.int64]  # shape (1,): its length in words
    stack_node: NDArray[np.int32]  # shape (levels,)
    stack_key: NDArray[np.uint64]  # shape (levels,)
    stack_depth: NDArray[np.int32]  # shape (levels,)
    path: NDArray[np.int32]  # shape (levels,): nodes on the path last walked
    path_feature: NDArray[np.int32]  # shape (levels,)
    path_threshold: NDArray[np.float64]  # shape (levels,)


class Work(NamedTuple):
    """What kernels work on besides trees."""

    table: Table
    rules: Rules
    scratch: Scratch
    seed: int  # of the forest


@scalar
def attribute_of(feature: int) -> int:
    """Return the attribute a node splits on, decided or not, or a negative number."""
    return OPEN - feature if feature <= OPEN else feature


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
        stack_node=np.empty(deepest, np.int32),
        stack_key=np.empty(deepest, np.uint64),
        stack_depth=np.empty(deepest, np.int32),
        path=np.empty(deepest, np.int32),
        path_feature=np.empty(deepest, np.int32),
        path_threshold=np.empty(deepest, np.float64),
    )


ADDRESS = 11
"""Whole numbers that say where a tree is."""


def address_of(tree: Tree) -> tuple[int, ...]:
    """Return a tree's array addresses and its capacities."""
    sizes = (
        len(tree.nodes), tree.counts.shape[1], len(tree.arena), len(tree.rows), len(tree.where),
    )  # fmt: skip
    return (*(part.ctypes.data for part in tree), *sizes)


def _to_pointer(_typing: Any, _address: Any) -> tuple[Any, Callable[..., Any]]:
    """Convert an address to a pointer, as numba's manual shows for intrinsics."""

    def cast(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.uintp), cast


_pointer: Any = intrinsic(_to_pointer)


@subroutine
def tree_at(at: NDArray[np.int64]) -> Tree:
    """Return the tree at an address, shape (``ADDRESS``,)."""
    return Tree(
        carray(_pointer(at[0]), (at[6],), NODE),
        carray(_pointer(at[1]), (at[6], at[7]), np.int32),
        carray(_pointer(at[2]), (at[8],), np.int32),
        carray(_pointer(at[3]), (at[9],), np.int32),
        carray(_pointer(at[4]), (at[10],), np.int32),
        carray(_pointer(at[5]), (3,), np.int64),
    )


@subroutine
def _view(array: Any) -> Any:
    return carray(_pointer(array.ctypes.data), array.shape, array.dtype)


@subroutine
def borrow(work: Work) -> tuple[Table, Rules, Scratch]:
    """Return a kernel's working data as views; all arrays are in C order."""
    t, s = work.table, work.scratch
    table = Table(
        _view(t.bits), _view(t.codes), _view(t.labels), _view(t.kind), _view(t.bit_attribute),
        _view(t.general_attribute), _view(t.lows), _view(t.highs), _view(t.levels),
        _view(t.level_bits), _view(t.level_start), _view(t.order), _view(t.group),
    )  # fmt: skip
    scratch = Scratch(
        _view(s.words), _view(s.mask), _view(s.rows), _view(s.live), _view(s.keys),
        _view(s.spare), _view(s.starts), _view(s.histogram), _view(s.group_code),
        _view(s.group_label), _view(s.group_counts), _view(s.pick_hash), _view(s.pick),
        _view(s.constant), _view(s.low), _view(s.chosen), _view(s.priority), _view(s.record),
        _view(s.size), _view(s.stack_node), _view(s.stack_key), _view(s.stack_depth),
        _view(s.path), _view(s.path_feature), _view(s.path_threshold),
    )  # fmt: skip
    return table, work.rules, scratch
