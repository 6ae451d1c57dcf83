"""Retraining of a forest: the rows of each tree, and its growth."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.compiling import cached_njit
from leaveout.verifier.checker.ensembles.choosing import (
    PLAIN,
    STEP,
    Data,
    Room,
    Rules,
    child_key,
    choose,
    compiled_in,
    kept_in_order,
    mix_bits,
    package_stamp,
    room_for,
    root_key,
)
from leaveout.verifier.checker.ensembles.files import Exact, Settings, Tree
from leaveout.verifier.checker.errors import RejectedError

CACHING_FROM = 65
"""Nodes with at least this many rows cache the splits they considered."""

NOTHING = 2**62
"""Replaces it if no node caches anything."""


class Nodes(NamedTuple):
    """Nodes in preorder, with the part of ``order`` for their rows."""

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
    used: NDArray[np.int64]  # shape (1,): their number, even beyond the capacity


def nodes_for(rows: int, labels: int) -> Nodes:
    """Return storage for any tree with this many rows."""
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
    """Move the left child's rows first in every line of ``order``; return where they end."""
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
    """Append the splits that a node considered."""
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
    """Grow the subtree of the rows in ``order``, which is reordered; return its size."""
    n = order.shape[1]
    waiting = np.empty((n + 2, 5), np.int64)
    keys = np.empty(n + 2, np.uint64)
    place = np.empty(room.kept.shape[1], np.int64)
    # For each node: start and end of its rows, its level, its parent, and its side.
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


Longs = NDArray[np.int64]

_SHARE = np.uint64(0xE7037ED1A0B428DB)
_AT_ONCE = 4096


def rules_of(settings: Settings, rows: int) -> Rules:
    """Return the settings that nodes depend on, with capacities limited by the rows."""
    depth = 2**31 - 1 if settings.depth is None else settings.depth
    return Rules(
        min(settings.thresholds, max(rows, 1)), settings.attributes, depth, settings.random_depth,
        settings.least, settings.criterion == "entropy",
    )  # fmt: skip


def data_of(X: Floats, y: NDArray[np.int32]) -> Data:
    """Return rows for kernels."""
    columns = np.ascontiguousarray(X.T)
    return Data(columns, columns.view(np.uint64), y.astype(np.int64))


def by_value(data: Data, rows: Longs) -> Longs:
    """Return rows in order of each attribute, shape (attributes, rows)."""
    place = np.argsort(data.columns[:, rows], axis=1, kind="stable")
    return np.ascontiguousarray(rows[place])


def ranks(X: Floats, y: NDArray[np.int32]) -> tuple[Longs, Longs]:
    """Return the content group of each row, and its rank in the group.

    Rows, and hence ranks, are in the order of the rows' names.
    """
    _, content = np.unique(np.column_stack((X, y)), axis=0, return_inverse=True)
    content = content.reshape(-1).astype(np.int64)
    order = np.argsort(content, kind="stable")
    first = np.searchsorted(content[order], content[order])
    rank = np.empty(len(content), np.int64)
    rank[order] = np.arange(len(content)) - first
    return content, rank


def holders(
    settings: Settings, labels: Sequence[Any], X: Floats, y: NDArray[np.int32]
) -> Iterator[Longs]:
    """Yield the rows of each tree, ascending.

    A row is in the first ceil(q trees) trees by a hash of its values, its label and its rank among
    rows of the same content.
    """
    share = math.ceil(Fraction(repr(settings.share)) * settings.trees)
    everyone = np.arange(len(X))
    if share == settings.trees:
        for _ in range(settings.trees):
            yield everyone
        return
    hashed = _contents(settings.seed, labels, X, y)
    _, rank = ranks(X, y)
    with np.errstate(over="ignore"):
        own = _mix_all_bits(hashed + (rank + 1).astype(np.uint64) * STEP)
        trees = np.arange(1, settings.trees + 1, dtype=np.uint64) * STEP
        held = np.zeros((settings.trees, len(X)), np.bool_)
        for begin in range(0, len(X), _AT_ONCE):
            part = own[begin : begin + _AT_ONCE]
            first = np.argsort(_mix_all_bits(part[:, None] + trees), axis=1)[:, :share]
            held[first.T, begin + np.arange(len(part))] = True
    for each in held:
        yield np.flatnonzero(each)


def _contents(
    seed: int, labels: Sequence[Any], X: Floats, y: NDArray[np.int32]
) -> NDArray[np.uint64]:
    """Return a keyed hash of each row's values and label."""
    with np.errstate(over="ignore"):
        key = _mix_all_bits(_mix_all_bits(np.array([seed], np.uint64) + STEP) ^ _SHARE)
        own = np.array([_label_hash(label) for label in labels], np.uint64)
        hashed = _mix_all_bits(key ^ own[y])
        for column in X.T:
            hashed = _mix_all_bits((hashed ^ np.ascontiguousarray(column).view(np.uint64)) + STEP)
    return hashed


def _mix_all_bits(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the mixed bits of each number."""
    return cast("NDArray[np.uint64]", mix_bits(cast("np.uint64", x)))


def _label_hash(label: Any) -> int:
    text = f"text {label}" if isinstance(label, str) else f"number {Fraction(label)}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def without(forest: Exact, rows: Sequence[int]) -> Exact:
    """Return a forest's rows without some of them, without trees; unused labels are dropped."""
    gone = np.array(rows, np.int64)
    if len(np.unique(gone)) < len(gone):
        raise RejectedError("a row is deleted twice")
    absent = gone[~np.isin(gone, forest.names)]
    if len(absent):
        raise RejectedError(f"{forest.path}: no row {absent[0]} to delete")
    stays = ~np.isin(forest.names, gone)
    if not stays.any():
        raise RejectedError("no row is left, and a forest cannot be trained on none")
    present, y = np.unique(forest.y[stays], return_inverse=True)
    classes = forest.classes[present]
    if classes.dtype.kind == "U":
        # As wide as the longest label left.
        classes = np.array(classes.tolist())
    cells = None if forest.cells is None else np.array(forest.cells[stays].tolist())
    return replace(
        forest, classes=classes, names=forest.names[stays], X=forest.X[stays],
        y=y.reshape(-1).astype(np.int32), trees=(), cells=cells,
    )  # fmt: skip


def train(forest: Exact) -> Exact:
    """Return the forest trained with a forest's settings and rows, whatever its trees are."""
    labels = len(forest.classes)
    data, rules = data_of(forest.X, forest.y), rules_of(forest.settings, len(forest.X))
    room = room_for(rules, labels)
    out = nodes_for(len(forest.X), labels)
    spare = np.empty(len(forest.X), np.int64)
    statistics = _statistics(1024, labels)
    trees = []
    last, every = np.zeros(0, np.int64), np.zeros((len(forest.X), 0), np.int64)
    for i, rows in enumerate(holders(forest.settings, forest.labels, forest.X, forest.y)):
        if not len(rows):
            trees.append(_empty(labels))
            continue
        if not np.array_equal(rows, last):
            last, every = rows, by_value(data, rows)
        while True:
            order = every.copy()
            size = grow_tree(
                data, order, forest.settings.seed, i, rules, room, spare, out, statistics
            )
            if statistics.used[0] <= len(statistics.node):
                break
            statistics = _statistics(2 * int(statistics.used[0]), labels)
        trees.append(_tree(out, statistics, size, order))
    return replace(forest, trees=tuple(trees))


def no_statistics(labels: int) -> Statistics:
    """Return storage for no statistics."""
    return _statistics(0, labels)


def _statistics(size: int, labels: int) -> Statistics:
    return Statistics(
        np.empty(size, np.int32), np.empty(size, np.int32), np.empty((size, 2)),
        np.empty((size, 3 * labels), np.int32), np.zeros(1, np.int64),
    )  # fmt: skip


def _tree(out: Nodes, statistics: Statistics, size: int, order: Longs) -> Tree:
    """Return a tree as in a file, in new arrays."""
    leaves = np.flatnonzero(out.feature[:size] < 0)
    rows = [np.sort(order[0, out.begin[leaf] : out.end[leaf]]) for leaf in leaves.tolist()]
    used = int(statistics.used[0])
    return Tree(
        out.feature[:size].copy(), out.threshold[:size].copy(), out.left[:size].copy(),
        out.right[:size].copy(), out.counts[:size].copy(), np.concatenate(rows).astype(np.int32),
        statistics.node[:used].copy(), statistics.attribute[:used].copy(),
        statistics.values[:used].copy(), statistics.counts[:used].copy(),
    )  # fmt: skip


def _empty(labels: int) -> Tree:
    """Return a tree without rows: a leaf with zero counts."""
    none, leaf = np.empty(0, np.int32), np.full(1, -1, np.int32)
    return Tree(
        leaf, np.zeros(1), leaf, leaf, np.zeros((1, labels), np.int32), none, none, none,
        np.empty((0, 2)), np.empty((0, 3 * labels), np.int32),
    )  # fmt: skip
