"""Walk of a tree of boxes: in every leaf, one member's leaks meet the claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit
from leaveout.verifier.checker.ensembles.chance import PLAIN, compiled_in, package_stamp
from leaveout.verifier.checker.ensembles.margins import Asked, Box, both_down, gather
from leaveout.verifier.checker.ensembles.sharing import Pool

PROVED = -1
"""What is returned in place of the node that fails."""

DEEPEST = 4000

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


class Tables(NamedTuple):
    """Features that take listed rows together; of those that take values alone none."""

    of: Longs  # shape (features,): which table a feature is in; -1 for none
    column_start: Longs  # shape (tables + 1,)
    columns: Longs
    row_start: (
        Longs  # shape (tables + 1,): where in ``columns``, and in ``rows``, each table begins
    )
    rows: Floats


class Levels(NamedTuple):
    """What is known of each box on the path from the root, a row per level."""

    low: Floats  # shape (levels, features)
    high: Floats  # shape (levels, features)
    empty: NDArray[np.bool_]  # shape (levels,)
    nodes: Longs  # shape (levels, trees, 2): the lowest nodes above all leaves that the box reaches
    parts: Floats  # shape (levels, trees, labels, 2 + factors)
    worse: NDArray[np.bool_]  # shape (levels, trees, labels)


def _compile_depth_of(stamp: int) -> Callable[..., int]:
    """Compile with a stamp of this package's sources, which invalidates stale kernels."""

    @cached_njit(**PLAIN)
    def depth_of(feature: NDArray[np.int32], begin: int, end: int, features: int) -> int:
        """Return how many levels a tree in preorder has; -1 where it is none."""
        _ = stamp
        waiting = np.empty(end - begin + 1, np.int64)
        waiting[0] = 1
        count, deepest = 1, 0
        for at in range(begin, end):
            if count == 0 or feature[at] >= features:
                return -1
            count -= 1
            level = waiting[count]
            deepest = max(deepest, level)
            if feature[at] >= 0:
                waiting[count] = waiting[count + 1] = level + 1
                count += 2
        return deepest if count == 0 else -1

    return cast("Callable[..., int]", depth_of)


depth_of = _compile_depth_of(package_stamp())


@compiled_in
def _narrow(tables: Tables, box: Box, feature: int) -> tuple[bool, np.uint64]:
    """Shrink a box to the listed rows in it; return whether there is one, and what changed."""
    table = tables.of[feature]
    changed = np.uint64(1) << np.uint64(feature & 63)
    if table < 0:
        return True, changed
    first, last = tables.column_start[table], tables.column_start[table + 1]
    width = last - first
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    found = False
    for at in range(tables.row_start[table], tables.row_start[table + 1], width):
        inside = True
        for j in range(width):
            column, value = tables.columns[first + j], tables.rows[at + j]
            inside = inside and box.low[column] < value <= box.high[column]
        if inside:
            found = True
            for j in range(width):
                low[j] = min(low[j], tables.rows[at + j])
                high[j] = max(high[j], tables.rows[at + j])
    for j in range(width):
        column = tables.columns[first + j]
        changed |= np.uint64(1) << np.uint64(column & 63)
        if found:
            box.low[column] = max(box.low[column], np.nextafter(low[j], -np.inf))
            box.high[column] = min(box.high[column], high[j])
    return found, changed


@compiled_in
def _confidence(pool: Pool, nodes: Any, asked: Asked) -> float:
    """Return the confidence of the leak where every tree is at one leaf; -inf if it is none.

    Shares are added in the order of trees and divided once, as forests do.
    """
    labels, c = pool.shares.shape[1], asked.label
    means = np.zeros((2, labels))
    for side in range(2):
        for t in range(len(nodes)):
            leaf = pool.left[nodes[t, side]]
            for d in range(labels):
                means[side, d] += pool.shares[leaf, d]
        for d in range(labels):
            means[side, d] /= asked.trees[side]
    for side in range(2):
        best = 0
        for d in range(labels):
            if means[side, d] > means[side, best]:
                best = d
        if (best == c) != (side == 0):
            return -np.inf
    rest = 0.0
    for d in range(labels):
        if d != c:
            rest = max(rest, means[0, d])
    return float(means[0, c] - rest)


@compiled_in
def _bound(pool: Pool, nodes: Any, parts: Any, worse: Any, asked: Asked) -> float:
    """Return what no leak in a box is above; -inf where there is none."""
    trees, labels, kinds = len(nodes), pool.shares.shape[1], parts.shape[2]
    settled = True
    for t in range(trees):
        settled = settled and pool.feature[nodes[t, 0]] < 0 and pool.feature[nodes[t, 1]] < 0
    if settled:
        return _confidence(pool, nodes, asked)
    cap, best = np.inf, -np.inf
    sums = np.zeros((labels, kinds))
    for d in range(labels):
        if d != asked.label:
            for t in range(trees):
                for i in range(kinds):
                    sums[d, i] += parts[t, d, i]
            cap = min(cap, sums[d, 0])
    for d in range(labels):
        moves = False
        for t in range(trees):
            moves = moves or worse[t, d]
        if d == asked.label or not moves or sums[d, 1] > asked.padding:
            continue
        least = cap
        for i in range(2, kinds):
            least = min(least, sums[d, i])
        best = max(best, least)
    return -np.inf if best < -asked.padding else best + asked.padding


@compiled_in
def _enter(
    pool: Pool, levels: Levels, level: int, changed: np.uint64, asked: Asked, stack: Any, ends: Any
) -> Any:
    """Update what is known of a box from that of its parent."""
    box = Box(levels.low[level], levels.high[level])
    for t in range(levels.nodes.shape[1]):
        a, b = levels.nodes[level - 1, t, 0], levels.nodes[level - 1, t, 1]
        out, worse = levels.parts[level, t], levels.worse[level, t]
        if (pool.mask[a] | pool.mask[b]) & changed:
            a, b = both_down(pool, box, a, b)
            stack, ends = gather(pool, box, a, b, asked, out, worse, stack, ends)
        else:
            for d in range(out.shape[0]):
                worse[d] = levels.worse[level - 1, t, d]
                for i in range(out.shape[1]):
                    out[d, i] = levels.parts[level - 1, t, d, i]
        levels.nodes[level, t, 0], levels.nodes[level, t, 1] = a, b
    return stack, ends


@compiled_in
def _root(
    pool: Pool, whole: Any, other: Any, known: Any, asked: Asked, levels: Levels, stack: Any,
    ends: Any,
) -> Any:  # fmt: skip
    """Set what is known of the whole set of inputs; where the trees are the same it is known."""
    box = Box(levels.low[0], levels.high[0])
    for t in range(len(whole)):
        a, b = both_down(pool, box, whole[t], other[t])
        levels.nodes[0, t, 0], levels.nodes[0, t, 1] = a, b
        out, worse = levels.parts[0, t], levels.worse[0, t]
        if a != b:
            stack, ends = gather(pool, box, a, b, asked, out, worse, stack, ends)
            continue
        for d in range(out.shape[0]):
            worse[d] = asked.trees[0] != asked.trees[1]
            for i in range(out.shape[1]):
                out[d, i] = known[t, d, i]
    return stack, ends


def _compile_walk(stamp: int) -> Callable[..., tuple[int, int, float]]:
    """Compile with a stamp of this package's sources, which invalidates stale kernels."""

    @cached_njit(**PLAIN)
    def walk(
        pool: Pool, whole: Longs, others: Longs, asked: Asked, tables: Tables, lower: Floats,
        upper: Floats, starts: Longs, feature: NDArray[np.int32], value: Floats, levels: Levels,
        claimed: float, begin: int, end: int,
    ) -> tuple[int, int, float]:  # fmt: skip
        """Walk the trees of boxes of some members."""
        _ = stamp
        trees, labels = len(whole), pool.shares.shape[1]
        stack, ends = np.empty((256, 3), np.int64), np.empty((256, 2))
        side = np.zeros(len(levels.empty), np.int64)
        split = np.zeros(len(levels.empty), np.int64)
        known = np.empty((trees, labels, levels.parts.shape[3]))
        for f in range(len(lower)):
            levels.low[0, f], levels.high[0, f] = np.nextafter(lower[f], -np.inf), upper[f]
        box = Box(levels.low[0], levels.high[0])
        for t in range(trees):
            stack, ends = gather(
                pool, box, whole[t], whole[t], asked, known[t], levels.worse[0, t], stack, ends
            )
        for member in range(begin, end):
            at, level = starts[member], 0
            stack, ends = _root(pool, whole, others[member], known, asked, levels, stack, ends)
            levels.empty[0] = False
            while True:
                if feature[at] >= 0:
                    split[level], side[level] = at, 0
                else:
                    if not levels.empty[level]:
                        parts, worse = levels.parts[level], levels.worse[level]
                        found = _bound(pool, levels.nodes[level], parts, worse, asked)
                        if found > claimed:
                            return member, at - starts[member], found
                    while level > 0 and side[level - 1] == 1:
                        level -= 1
                    if level == 0:
                        break
                    level -= 1
                    side[level] = 1
                at += 1
                # The next node is a child of this level's.
                f, cut = feature[split[level]], value[split[level]]
                for i in range(len(lower)):
                    levels.low[level + 1, i] = levels.low[level, i]
                    levels.high[level + 1, i] = levels.high[level, i]
                level += 1
                if side[level - 1] == 0:
                    levels.high[level, f] = min(levels.high[level, f], cut)
                else:
                    levels.low[level, f] = max(levels.low[level, f], cut)
                levels.empty[level] = levels.empty[level - 1] or (
                    levels.low[level, f] >= levels.high[level, f]
                )
                if not levels.empty[level]:
                    box = Box(levels.low[level], levels.high[level])
                    there, changed = _narrow(tables, box, f)
                    levels.empty[level] = not there
                    if there:
                        stack, ends = _enter(pool, levels, level, changed, asked, stack, ends)
        return PROVED, 0, 0.0

    return cast("Callable[..., tuple[int, int, float]]", walk)


walk = _compile_walk(package_stamp())
