"""The possible answers of one tree in a box, for the forest and for a member."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Ints
from leaveout.compiling import subroutine
from leaveout.handles import Handle

Longs = NDArray[np.int64]

LAMBDAS = (0.25, 0.5, 0.75, 1.0, 1.5)
"""Multipliers of the bound on the member's margin; 0 and infinity give valid bounds, too."""


class Trees(NamedTuple):
    """Trees, the members' replacement nodes, and one label's margins."""

    nodes: Annotated[Ints, 2]  # shape (nodes, 4)
    shares: Annotated[Floats, 2]  # shape (answers, labels)
    roots: Longs  # shape (trees + 1,)
    end: Ints  # shape (nodes of the whole,): the node after the last one below each
    low: Annotated[Floats, 2]  # shape (nodes, labels)
    high: Annotated[Floats, 2]  # shape (nodes, labels)
    start: Longs  # shape (members + 1,)
    tree: Ints  # shape (changes,)
    node: Longs  # shape (changes,)
    instead: Longs  # shape (changes,)
    weights: Floats  # shape (2,): reciprocal number of trees of the whole and of the members
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

    box: Annotated[Ints, 3]  # shape (slots, 2, features): least and greatest codes
    at: Annotated[Ints, 3]  # shape (slots, 2, trees)
    upper: Floats  # shape (slots,)
    split: Annotated[Ints, 2]  # shape (slots, 2): feature to split, greatest code of its left part
    heap: Longs  # shape (slots,)
    free: Longs  # shape (slots,): free slots, taken from the end
    state: Longs  # shape (6,)
    values: Floats  # shape (4,)
    found: Ints  # shape (features,): codes of the last leak reported


class Scratch(NamedTuple):
    """Work space for computing one bound."""

    changed: Annotated[Longs, 2]  # shape (2, trees)
    parts: Annotated[Floats, 4]  # shape (trees, 2, labels, 2 + multipliers)
    worse: NDArray[np.bool_]  # shape (labels,): whether some tree may move towards this rival
    stack: Annotated[Longs, 2]  # shape (entries, 7)
    drops: Annotated[Floats, 2]  # shape (features, 4)
    sums: Annotated[Floats, 2]  # shape (labels, 2 + multipliers)
    means: Annotated[Floats, 2]  # shape (2, labels)
    lambdas: Floats  # shape (multipliers,)


FRONTIER = Handle(Frontier)
frontier_at = FRONTIER.at


def frontier(slots: int, features: int, trees: int, kept: Frontier | None = None) -> Frontier:
    """Return an empty frontier, or a larger one with the content of another."""
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


class Work(NamedTuple):
    """What kernels work on besides a frontier; they get its words."""

    trees: Trees
    listed: Listed
    scratch: Scratch
    words: Longs


def work_on(trees: Trees, listed: Listed) -> Work:
    """Return what kernels work on, for one thread."""
    count, labels, kinds = len(trees.roots) - 1, trees.shares.shape[1], 2 + len(LAMBDAS)
    scratch = Scratch(
        np.empty((2, count), np.int64), np.empty((count, 2, labels, kinds)),
        np.empty(labels, np.bool_), np.empty((4096, 7), np.int64), np.zeros((len(listed.of), 4)),
        np.empty((labels, kinds)), np.empty((2, labels)), np.array(LAMBDAS),
    )  # fmt: skip
    words = (_TREES.words(trees), _LISTED.words(listed), _SCRATCH.words(scratch))
    return Work(trees, listed, scratch, np.concatenate(words))


_TREES, _LISTED, _SCRATCH = Handle(Trees), Handle(Listed), Handle(Scratch)
_trees_at, _listed_at, _scratch_at = _TREES.at, _LISTED.at, _SCRATCH.at
_SECOND = _TREES.length
_THIRD = _SECOND + _LISTED.length


@subroutine
def borrow(words: Longs) -> tuple[Trees, Listed, Scratch]:
    """Return a kernel's working data."""
    return _trees_at(words, 0), _listed_at(words, _SECOND), _scratch_at(words, _THIRD)


@subroutine
def go_down(nodes: Any, box: Any, node: int) -> int:
    """Return the child that the whole box goes to; the node itself if split, or if a leaf."""
    feature = nodes[node, 0]
    if feature >= 0:
        if box[1, feature] <= nodes[node, 1]:
            return int(nodes[node, 2])
        if box[0, feature] > nodes[node, 1]:
            return int(nodes[node, 3])
    return node


@subroutine
def settle(nodes: Any, box: Any, a: int, b: int, changed: int, instead: int) -> tuple[int, int]:
    """Descend from the forest's and the member's node as far as the whole box goes."""
    while True:
        if a == b:
            if a == changed:
                b = instead
                continue
            down = go_down(nodes, box, a)
            if down == a:
                return a, b
            a = b = down
        else:
            x, y = go_down(nodes, box, a), go_down(nodes, box, b)
            if x == a and y == b:
                return a, b
            a, b = x, y


@subroutine
def _note(
    out: Any, lambdas: Any, weights: Any, first: float, last: float, least: float, most: float,
    tied: bool,
) -> None:  # fmt: skip
    """Widen one rival's bounds by margins from first to last; if tied, both sides' are equal."""
    whole, member = weights[0], weights[1]
    out[0] = max(out[0], whole * last)
    out[1] = min(out[1], member * least)
    for i in range(len(lambdas)):
        if tied:
            factor = whole - lambdas[i] * member
            high = factor * last if factor >= 0.0 else factor * first
        else:
            high = whole * last - lambdas[i] * (member * least)
        out[2 + i] = max(out[2 + i], high)


@subroutine
def _leaves(trees: Trees, a: int, b: int, out: Any, room: Scratch) -> None:
    """Widen bounds by a leaf of the forest and one of the member."""
    c, labels = trees.numbers[0], trees.shares.shape[1]
    s, m = trees.nodes[a, 2], trees.nodes[b, 2]
    shares, equal = trees.shares, trees.numbers[3] == 1
    for d in range(labels):
        if d == c:
            continue
        x, y = shares[s, c] - shares[s, d], shares[m, c] - shares[m, d]
        _note(out[d], room.lambdas, trees.weights, x, x, y, y, a == b)
        if not equal or shares[m, d] > shares[s, d] or shares[m, c] < shares[s, c]:
            room.worse[d] = True


@subroutine
def _may_worsen(trees: Trees, a: int, b: int, d: int) -> bool:
    """Return whether a member may move towards a rival; for leaves, whether it does."""
    if trees.nodes[a, 0] >= 0 or trees.nodes[b, 0] >= 0:
        return True
    c, x, y = trees.numbers[0], trees.nodes[a, 2], trees.nodes[b, 2]
    shares = trees.shares
    return bool(shares[y, d] > shares[x, d] or shares[y, c] < shares[x, c])


@subroutine
def _subtrees(trees: Trees, a: int, b: int, changed: int, instead: int, out: Any,
              room: Scratch) -> None:  # fmt: skip
    """Widen bounds by all leaves below a node of the forest and one of the member."""
    c, labels = trees.numbers[0], trees.shares.shape[1]
    low, high, equal = trees.low, trees.high, trees.numbers[3] == 1
    holds = a == b and a < len(trees.end) and a <= changed < trees.end[a]
    for d in range(labels):
        if d == c:
            continue
        tied = a == b
        _note(out[d], room.lambdas, trees.weights, low[a, d], high[a, d], low[b, d], high[b, d],
              tied)  # fmt: skip
        if holds:
            _note(out[d], room.lambdas, trees.weights, low[changed, d], high[changed, d],
                  low[instead, d], high[instead, d], False)  # fmt: skip
        if not equal or not tied or (holds and _may_worsen(trees, changed, instead, d)):
            room.worse[d] = True


@subroutine
def copy_into(made: Any, given: Any) -> None:
    """Copy a table; a loop compiles much faster than a slice assignment."""
    for i in range(made.shape[0]):
        for j in range(made.shape[1]):
            made[i, j] = given[i, j]


@subroutine
def _put(
    entry: Any, a: int, b: int, feature: int, low: int, high: int, side: int, level: int
) -> None:
    entry[0], entry[1], entry[2], entry[3], entry[4] = a, b, feature, low, high
    entry[5], entry[6] = side, level


@subroutine
def bound_tree(
    trees: Trees, box: Any, a: int, b: int, tree: int, levels: int, room: Scratch
) -> None:
    """Bound a tree's contribution in a box, on each side of its first open split."""
    nodes, stack, parts = trees.nodes, room.stack, room.parts[tree]
    changed, instead = room.changed[0, tree], room.changed[1, tree]
    for side in range(2):
        for d in range(parts.shape[1]):
            for i in range(parts.shape[2]):
                parts[side, d, i] = np.inf if i == 1 else -np.inf
    # An entry: two nodes, the feature whose range to set first (-1 for none), range, side, level.
    _put(stack[0], a, b, -1, 0, 0, -1, 0)
    count = 1
    while count:
        count -= 1
        a, b, f = stack[count, 0], stack[count, 1], stack[count, 2]
        if f >= 0:
            box[0, f], box[1, f] = stack[count, 3], stack[count, 4]
            if a < 0:
                continue
        side, level = stack[count, 5], stack[count, 6]
        a, b = settle(nodes, box, a, b, changed, instead)
        out = parts[max(side, 0)]
        first = a if nodes[a, 0] >= 0 else b
        f = nodes[first, 0]
        if f < 0:
            _leaves(trees, a, b, out, room)
            continue
        if level == levels:
            _subtrees(trees, a, b, changed, instead, out, room)
            continue
        k = nodes[first, 1]
        # Only where both test the same feature does one's range restrict the other.
        one = a == b
        narrows = not one or (a < len(trees.end) and a <= changed < trees.end[a])
        left, right = nodes[first, 2], nodes[first, 3]
        for turn in range(2):
            child = right if turn == 0 else left
            x = child if first == a else a
            y = child if one or first == b else b
            at = side if side >= 0 else 1 - turn
            if narrows:
                _put(stack[count], -1, -1, f, box[0, f], box[1, f], 0, 0)
                low = k + 1 if turn == 0 else box[0, f]
                high = box[1, f] if turn == 0 else k
                _put(stack[count + 1], x, y, f, low, high, at, level + 1)
                count += 2
            else:
                _put(stack[count], x, y, -1, 0, 0, at, level + 1)
                count += 1
