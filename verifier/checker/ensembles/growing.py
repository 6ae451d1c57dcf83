"""Growth of a tree from its rows: nodes, counts, leaf rows and cached statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit
from leaveout.verifier.checker.ensembles.chance import (
    PLAIN,
    child_key,
    compiled_in,
    package_stamp,
    root_key,
)
from leaveout.verifier.checker.ensembles.choosing import (
    Data,
    Room,
    Rules,
    choose,
    kept_in_order,
)

CACHING_FROM = 65
"""Nodes of at least so many rows cache what they considered."""

NOTHING = 2**62
"""In its place, where no node caches anything."""


class Nodes(NamedTuple):
    """Nodes in preorder, with the part of ``order`` that holds their rows."""

    feature: NDArray[np.int32]  # shape (room,): -1 for a leaf, and for its children
    left: NDArray[np.int32]  # shape (room,): -1 for a leaf, and for its children
    right: NDArray[np.int32]  # shape (room,): -1 for a leaf, and for its children
    threshold: NDArray[np.float64]  # shape (room,)
    counts: NDArray[np.int32]  # shape (room, labels)
    begin: NDArray[np.int64]  # shape (room,)
    end: NDArray[np.int64]  # shape (room,)
    depth: NDArray[np.int64]  # shape (room,)
    key: NDArray[np.uint64]  # shape (room,)


class Statistics(NamedTuple):
    """Cached statistics by node, as in a forest file, with spare capacity."""

    node: NDArray[np.int32]  # shape (room,)
    attribute: NDArray[np.int32]  # shape (room,)
    values: NDArray[np.float64]  # shape (room, 2)
    counts: NDArray[np.int32]  # shape (room, 3 labels)
    used: NDArray[np.int64]  # shape (1,): how many there are, beyond the room too


def nodes_for(rows: int, labels: int) -> Nodes:
    """Return storage for any tree of that many rows."""
    size = 2 * max(rows, 1)
    one, two = np.int32, np.int64
    return Nodes(
        np.empty(size, one), np.empty(size, one), np.empty(size, one), np.empty(size),
        np.empty((size, labels), one), np.empty(size, two), np.empty(size, two),
        np.empty(size, two), np.empty(size, np.uint64),
    )  # fmt: skip


@compiled_in
def divide(
    data: Data, order: Any, begin: int, end: int, feature: int, threshold: float, spare: Any
) -> int:
    """Put the rows of the left child first in every line of ``order``; return where they end."""
    stop = begin
    for a in range(len(order)):
        stay, go = begin, 0
        for i in range(begin, end):
            row = order[a, i]
            if data.columns[feature, row] <= threshold:
                order[a, stay] = row
                stay += 1
            else:
                spare[go] = row
                go += 1
        for i in range(go):
            order[a, stay + i] = spare[i]
        stop = stay
    return stop


@compiled_in
def _note(room: Room, node: int, place: Any, out: Statistics) -> None:
    """Append what a node considered."""
    for i in range(room.many[-1]):
        kept_in_order(room, i, place)
        for j in range(room.many[i]):
            at = out.used[0]
            out.used[0] += 1
            if at >= len(out.node):
                continue
            one = place[j]
            out.node[at], out.attribute[at] = node, room.picked[i]
            out.values[at, 0], out.values[at, 1] = room.kept[i, one, 0], room.kept[i, one, 1]
            labels = room.counts.shape[0]
            for part in range(3):
                for c in range(labels):
                    out.counts[at, part * labels + c] = room.counted[i, one, part, c]


@compiled_in
def grow(
    data: Data, order: Any, key: np.uint64, depth: int, rules: Rules, room: Room, spare: Any,
    caching: int, out: Nodes, statistics: Statistics,
) -> int:  # fmt: skip
    """Grow the subtree of the rows in ``order``, which is divided on the way; return its size."""
    n = order.shape[1]
    waiting = np.empty((n + 2, 5), np.int64)
    keys = np.empty(n + 2, np.uint64)
    place = np.empty(room.kept.shape[1], np.int64)
    # Of each: where its rows begin and end, its level, its parent, and on which side it is.
    waiting[0, 0], waiting[0, 1], waiting[0, 2], waiting[0, 3], waiting[0, 4] = 0, n, depth, -1, 0
    keys[0] = key
    top, size = 1, 0
    while top:
        top -= 1
        begin, end, level = waiting[top, 0], waiting[top, 1], waiting[top, 2]
        parent, side, own = waiting[top, 3], waiting[top, 4], keys[top]
        if parent >= 0 and side == 0:
            out.left[parent] = size
        elif parent >= 0:
            out.right[parent] = size
        feature, threshold = choose(data, order, begin, end, own, level, rules, room)
        out.feature[size], out.threshold[size] = feature, threshold if feature >= 0 else 0.0
        out.left[size], out.right[size] = -1, -1
        out.begin[size], out.end[size], out.depth[size], out.key[size] = begin, end, level, own
        for c in range(room.counts.shape[0]):
            out.counts[size, c] = room.counts[c]
        if feature >= 0:
            if end - begin >= caching:
                _note(room, size, place, statistics)
            middle = divide(data, order, begin, end, feature, threshold, spare)
            for right in range(1, -1, -1):
                waiting[top, 0] = middle if right else begin
                waiting[top, 1] = end if right else middle
                waiting[top, 2], waiting[top, 3], waiting[top, 4] = level + 1, size, right
                keys[top] = child_key(own, right)
                top += 1
        size += 1
    return size


def _compile_grow_tree(stamp: int) -> Callable[..., int]:
    """Compile with a stamp of this package's sources, which invalidates stale kernels."""

    @cached_njit(**PLAIN)
    def grow_tree(
        data: Data, order: NDArray[np.int64], seed: int, tree: int, rules: Rules, room: Room,
        spare: NDArray[np.int64], out: Nodes, statistics: Statistics,
    ) -> int:  # fmt: skip
        """Grow a tree from at least one row; see `grow`."""
        _ = stamp
        statistics.used[0] = 0
        key = root_key(seed, tree)
        return grow(data, order, key, 0, rules, room, spare, CACHING_FROM, out, statistics)

    return cast("Callable[..., int]", grow_tree)


grow_tree = _compile_grow_tree(package_stamp())
