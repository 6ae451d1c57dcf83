"""A forest without each of its rows in turn: trees retrained down the row's path.

A child is a function of its key and its rows, so beside the row's path a tree stands as long as
splits send the same rows to the same sides; where one does not, what is below is grown anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit
from leaveout.verifier.checker.ensembles.chance import PLAIN, compiled_in, package_stamp, root_key
from leaveout.verifier.checker.ensembles.choosing import Data, Room, Rules, room_for
from leaveout.verifier.checker.ensembles.growing import (
    NOTHING,
    Nodes,
    Statistics,
    divide,
    grow,
    nodes_for,
)
from leaveout.verifier.checker.ensembles.held import Exact
from leaveout.verifier.checker.ensembles.leaving import Each, choose_each, each_for
from leaveout.verifier.checker.ensembles.sharing import (
    Listed,
    Pool,
    answer,
    enlarge,
    is_full,
    new_pool,
    split,
)
from leaveout.verifier.checker.ensembles.training import (
    by_value,
    data_of,
    holders,
    no_statistics,
    ranks,
    rules_of,
)
from leaveout.verifier.checker.errors import RejectedError

Longs = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Members:
    """A forest and others, as roots in one pool.

    Attributes
    ----------
    pool : Pool
    whole : ndarray of int64, shape (trees,)
    others : ndarray of int64, shape (members, trees)
    trees : tuple of int
        By how many trees the sums of the whole forest and of the others are divided.
    """

    pool: Pool
    whole: Longs
    others: Longs
    trees: tuple[int, int]


@compiled_in
def _leaf(pool: Pool, counts: Any, totals: Any, gone: int) -> int:
    """Return the leaf of some counts; of none, that of the labels that are left in the forest."""
    shares = np.zeros(len(counts))
    size, left = 0, 0
    for c in range(len(counts)):
        size += counts[c]
        left += totals[c] - (c == gone) > 0
    for c in range(len(counts)):
        if size:
            shares[c] = counts[c] / size
        elif totals[c] - (c == gone) > 0:
            shares[c] = 1.0 / left
    return answer(pool, shares)


@compiled_in
def _share_tree(pool: Pool, nodes: Nodes, size: int, totals: Any, gone: int, ids: Any) -> int:
    """Add a grown tree to the pool, and record the number of each of its nodes."""
    for node in range(size - 1, -1, -1):
        if nodes.feature[node] < 0:
            ids[node] = _leaf(pool, nodes.counts[node], totals, gone)
        else:
            left, right = ids[nodes.left[node]], ids[nodes.right[node]]
            ids[node] = split(pool, nodes.feature[node], nodes.threshold[node], left, right)
    return int(ids[0])


@compiled_in
def _same_sides(
    data: Data, order: Any, begin: int, end: int, out: int, one: int, at: float, other: int,
    by: float,
) -> bool:  # fmt: skip
    """Return whether two splits send every row of a node but one to the same side."""
    for i in range(begin, end):
        row = order[0, i]
        if row != out and (data.columns[one, row] <= at) != (data.columns[other, row] <= by):
            return False
    return True


def _compile_without(stamp: int) -> Callable[..., int]:
    """Compile with a stamp of this package's sources, which invalidates stale kernels."""

    @cached_njit(**PLAIN)
    def _without(
        data: Data, order: NDArray[np.int64], seed: int, tree: int, rules: Rules, room: Room,
        each: Each, top: Nodes, sub: Nodes, nothing: Statistics, totals: NDArray[np.int64],
        asked: NDArray[np.bool_], pool: Pool, roots: NDArray[np.int64],
    ) -> int:  # fmt: skip
        """Set the root of a tree without each row asked about; return its own, -1 if full."""
        _ = stamp
        n = order.shape[1]
        spare = np.empty(n, np.int64)
        divided = order.copy()
        size = grow(
            data, divided, root_key(seed, tree), 0, rules, room, spare, NOTHING, top, nothing
        )  # fmt: skip
        ids = np.empty(2 * n, np.int64)
        below = np.empty(2 * n, np.int64)
        if is_full(pool, 2 * n):
            return -1
        own = _share_tree(pool, top, size, totals, -1, ids)
        levels = 1
        for node in range(size):
            levels = max(levels, top.depth[node] + 1)
        waits = asked.copy()
        counts = np.zeros(len(totals), np.int64)
        # Of each row and level: the node of the tree there, and what it splits on without the row.
        path = np.empty((len(data.labels), levels), np.int64)
        feature_at = np.empty((len(data.labels), levels), np.int64)
        threshold_at = np.empty((len(data.labels), levels))
        for node in range(size):
            begin, end, depth, key = top.begin[node], top.end[node], top.depth[node], top.key[node]
            choose_each(data, order, begin, end, key, depth, rules, waits, each)
            for i in range(begin, end):
                row = order[0, i]
                if not waits[row]:
                    continue
                if is_full(pool, 2 * n + levels):
                    return -1
                gone = data.labels[row]
                feature, threshold = each.feature[row], each.threshold[row]
                if feature < 0:
                    for c in range(len(counts)):
                        counts[c] = top.counts[node, c] - (c == gone)
                    found = _leaf(pool, counts, totals, gone)
                elif (
                    feature == top.feature[node] and threshold == top.threshold[node]
                ) or _same_sides(
                    data, order, begin, end, row, feature, threshold, top.feature[node],
                    top.threshold[node],
                ):  # fmt: skip
                    path[row, depth] = node
                    feature_at[row, depth], threshold_at[row, depth] = feature, threshold
                    continue
                else:
                    rest = np.empty((len(order), end - begin - 1), np.int64)
                    for a in range(len(order)):
                        at = 0
                        for j in range(begin, end):
                            if order[a, j] != row:
                                rest[a, at] = order[a, j]
                                at += 1
                    many = grow(data, rest, key, depth, rules, room, spare, NOTHING, sub, nothing)
                    found = _share_tree(pool, sub, many, totals, gone, below)
                waits[row] = False
                for level in range(depth - 1, -1, -1):
                    above = path[row, level]
                    left, right = ids[top.left[above]], ids[top.right[above]]
                    if data.columns[top.feature[above], row] <= top.threshold[above]:
                        left = found
                    else:
                        right = found
                    found = split(
                        pool, feature_at[row, level], threshold_at[row, level], left, right
                    )  # fmt: skip
                roots[row] = found
            if top.feature[node] >= 0:
                divide(data, order, begin, end, top.feature[node], top.threshold[node], spare)
        return own

    return cast("Callable[..., int]", _without)


_without = _compile_without(package_stamp())


def _compile_empty(stamp: int) -> Callable[..., int]:
    """Compile with a stamp of this package's sources, which invalidates stale kernels."""

    @cached_njit(**PLAIN)
    def _empty(
        pool: Pool, totals: NDArray[np.int64], labels: NDArray[np.int64], roots: NDArray[np.int64]
    ) -> int:
        """Set the root of a tree without rows, where the last row of a label goes."""
        _ = stamp
        none = np.zeros(len(totals), np.int64)
        for row in range(len(labels)):
            roots[row] = _leaf(pool, none, totals, labels[row])
        return _leaf(pool, none, totals, -1)

    return cast("Callable[..., int]", _empty)


_empty = _compile_empty(package_stamp())


def members_of(forest: Exact, listed: Listed) -> Members:
    """Return a forest retrained on its rows, and without each of them in turn."""
    rows, labels = len(forest.names), len(forest.classes)
    if rows < 2:
        raise RejectedError("the forest holds one row, and no forest is trained on none")
    data, rules = data_of(forest.X, forest.y), rules_of(forest.settings, rows)
    totals = np.bincount(forest.y, minlength=labels).astype(np.int64)
    leaving = _leaving_rows(forest)
    pool = new_pool(max(4096, 8 * rows), labels, listed)
    whole = np.empty(forest.settings.trees, np.int64)
    others = np.empty((rows, forest.settings.trees), np.int64)
    each = each_for(data, rules, labels)
    room, nothing = room_for(rules, labels), no_statistics(labels)
    top, sub = nodes_for(rows, labels), nodes_for(rows, labels)
    for i, held in enumerate(holders(forest.settings, forest.labels, forest.X, forest.y)):
        asked = np.zeros(rows, np.bool_)
        asked[held] = True
        roots = np.full(rows, -1, np.int64)
        while True:
            if is_full(pool, 2 * rows + labels + 4):
                pool = enlarge(pool)
            if not len(held):
                own = _empty(pool, totals, data.labels, roots)
                break
            order = by_value(data, held)
            own = _without(
                data, order, forest.settings.seed, i, rules, room, each, top, sub, nothing,
                totals, asked, pool, roots,
            )  # fmt: skip
            if own >= 0:
                break
            pool = enlarge(pool)
        whole[i] = own
        changed = roots[leaving] if len(held) else roots
        others[:, i] = np.where(changed >= 0, changed, own)
    return Members(pool, whole, others, (forest.settings.trees, forest.settings.trees))


def _leaving_rows(forest: Exact) -> Longs:
    """Return the row that leaves the trees with each: the copy of greatest rank.

    If every tree holds every row, that may be any copy, as they are equal.
    """
    content, rank = ranks(forest.X, forest.y)
    last = np.zeros(int(content.max()) + 1, np.int64)
    np.maximum.at(last, content, rank)
    place = {pair: i for i, pair in enumerate(zip(content.tolist(), rank.tolist(), strict=True))}
    ends = zip(content.tolist(), last[content].tolist(), strict=True)
    return np.array([place[pair] for pair in ends], np.int64)
