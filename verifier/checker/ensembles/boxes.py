"""Claims about leaks of forests, checked by trees of boxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.compiling import cached_njit
from leaveout.kernel.boxes import Inputs
from leaveout.verifier.checker.ensembles.choosing import PLAIN, compiled_in, package_stamp
from leaveout.verifier.checker.ensembles.members import Members
from leaveout.verifier.checker.ensembles.node_pool import Listed, Pool
from leaveout.verifier.checker.errors import RejectedError

FACTORS = (0.25, 0.5, 0.75, 1.0, 1.5)
"""Multiples of the other forest's margin to subtract; any non-negative number is sound."""


class Asked(NamedTuple):
    """The query of the kernels."""

    label: int
    trees: tuple[int, int]  # number of trees in the whole forest, and in the others
    factors: NDArray[np.float64]  # shape (factors,)
    padding: float  # larger than the effect of rounding on any bound


class Box(NamedTuple):
    """Inputs above ``low`` and at most ``high`` in each feature."""

    low: NDArray[np.float64]  # shape (features,)
    high: NDArray[np.float64]  # shape (features,)


@compiled_in
def _down(pool: Pool, box: Box, node: int) -> int:
    """Return the lowest node above all leaves that a box reaches."""
    while pool.feature[node] >= 0:
        feature, threshold = pool.feature[node], pool.threshold[node]
        if box.high[feature] <= threshold:
            node = pool.left[node]
        elif box.low[feature] >= threshold:
            node = pool.right[node]
        else:
            break
    return int(node)


@compiled_in
def both_down(pool: Pool, box: Box, a: int, b: int) -> tuple[int, int]:
    """Take a node of each forest down as far as the whole box goes."""
    if a == b:
        a = _down(pool, box, a)
        return a, a
    return _down(pool, box, a), _down(pool, box, b)


@compiled_in
def _note(pool: Pool, a: int, b: int, asked: Asked, out: Any, worse: Any) -> None:
    """Widen bounds by a leaf of each forest."""
    c, labels = asked.label, pool.shares.shape[1]
    s, m = pool.left[a], pool.left[b]
    shares, equal = pool.shares, asked.trees[0] == asked.trees[1]
    one, other = 1.0 / asked.trees[0], 1.0 / asked.trees[1]
    for d in range(labels):
        if d == c:
            continue
        x, y = shares[s, c] - shares[s, d], shares[m, c] - shares[m, d]
        out[d, 0] = max(out[d, 0], one * x)
        out[d, 1] = min(out[d, 1], other * y)
        for i in range(len(asked.factors)):
            out[d, 2 + i] = max(out[d, 2 + i], one * x - asked.factors[i] * (other * y))
        if not equal or shares[m, d] > shares[s, d] or shares[m, c] < shares[s, c]:
            worse[d] = True


@compiled_in
def gather(
    pool: Pool, box: Box, a: int, b: int, asked: Asked, out: Any, worse: Any, stack: Any, ends: Any
) -> Any:
    """Bound the contributions to margins of both forests' trees in a box.

    All pairs of leaves that one input can reach are visited; where the trees are equal, each leaf
    is paired with itself.
    """
    for d in range(out.shape[0]):
        worse[d] = False
        for i in range(out.shape[1]):
            out[d, i] = np.inf if i == 1 else -np.inf
    # An entry: two nodes (-1: only restore a range), a feature (-1: none) and its range.
    stack[0, 0], stack[0, 1], stack[0, 2] = a, b, -1
    count = 1
    while count:
        count -= 1
        a, b, feature = stack[count, 0], stack[count, 1], stack[count, 2]
        if feature >= 0:
            box.low[feature], box.high[feature] = ends[count, 0], ends[count, 1]
        if a < 0:
            continue
        a, b = both_down(pool, box, a, b)
        first = a if pool.feature[a] >= 0 else b
        feature = pool.feature[first]
        if feature < 0:
            _note(pool, a, b, asked, out, worse)
            continue
        if count + 4 > len(stack):
            stack, ends = np.concatenate((stack, stack)), np.concatenate((ends, ends))
        threshold = pool.threshold[first]
        low, high = box.low[feature], box.high[feature]
        together = pool.feature[b] == feature and pool.threshold[b] == threshold and first == a
        for side in range(2):
            x = (pool.left[first] if side else pool.right[first]) if first == a else a
            y = b
            if together or first == b:
                y = pool.left[b] if side else pool.right[b]
            stack[count, 0], stack[count, 1], stack[count, 2] = -1, -1, feature
            ends[count, 0], ends[count, 1] = low, high
            stack[count + 1, 0], stack[count + 1, 1], stack[count + 1, 2] = x, y, feature
            ends[count + 1, 0] = low if side else threshold
            ends[count + 1, 1] = threshold if side else high
            count += 2
    return stack, ends


PROVED = -1
"""Returned instead of a failing node."""

DEEPEST = 4000

Longs = NDArray[np.int64]


class Tables(NamedTuple):
    """Features that jointly take listed rows; others are in no table."""

    of: Longs  # shape (features,): the table of each feature; -1 for none
    column_start: Longs  # shape (tables + 1,)
    columns: Longs
    row_start: Longs  # shape (tables + 1,): start of each table in ``columns`` and in ``rows``
    rows: Floats


class Levels(NamedTuple):
    """Facts about each box on the path from the root, one row per level."""

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
        """Return the number of levels of a tree in preorder; -1 if it is not one."""
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
    """Shrink a box to the listed rows in it; return whether any is left, and what changed."""
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
    """Return the leak's confidence if every tree is at one leaf; -inf if it is not a leak.

    Shares are added in the order of the trees and divided once, as in forests.
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
    """Return an upper bound of all leaks in a box; -inf if there is none."""
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
    """Update the facts about a box from those about its parent."""
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
    """Set the facts about the whole input set, known already where trees are equal."""
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


_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees of boxes, one per member, in preorder, concatenated."""

    size: NDArray[np.int32]  # shape (members,): number of nodes
    feature: NDArray[np.int32]  # shape (nodes,): feature that a box is split on; -1 for a leaf
    value: Floats  # shape (nodes,): inputs up to this value go left; 0 for a leaf


@dataclass(frozen=True, eq=False)
class Boxes:
    """Forests over a set of inputs."""

    members: Members
    inputs: Inputs
    names: Callable[[int], str]  # a member's name in messages
    _tables: Tables = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tables", _tables_of(self.inputs))

    @property
    def tables(self) -> Tables:
        """The listed features of the inputs."""
        return self._tables


def listed_of(inputs: Inputs) -> Listed:
    """Return the parts of an input set that nodes depend on."""
    known: list[Floats] = [np.zeros(0)] * len(inputs.lower)
    lower, upper = inputs.lower.copy(), inputs.upper.copy()
    for table in inputs.tables:
        for column, values in zip(table.columns.tolist(), table.values.T, strict=True):
            known[column] = np.unique(values)
            lower[column], upper[column] = known[column][0], known[column][-1]
    start = np.concatenate(([0], np.cumsum([len(each) for each in known])))
    return Listed(lower, upper, start.astype(np.int64), np.concatenate([np.zeros(0), *known]))


def _tables_of(inputs: Inputs) -> Tables:
    wide = [table for table in inputs.tables if len(table.columns) > 1]
    of = np.full(len(inputs.lower), -1, np.int64)
    for i, table in enumerate(wide):
        of[table.columns] = i
    columns = [table.columns.astype(np.int64) for table in wide]
    rows = [np.ascontiguousarray(table.values).ravel() for table in wide]
    starts = [
        np.concatenate(([0], np.cumsum([len(each) for each in parts]))).astype(np.int64)
        for parts in (columns, rows)
    ]
    return Tables(
        of, starts[0], np.concatenate([np.zeros(0, np.int64), *columns]), starts[1],
        np.concatenate([np.zeros(0), *rows]),
    )  # fmt: skip


def read_boxes(proof: Mapping[str, NDArray[Any]], members: int) -> Trees:
    """Return the trees of boxes in a certificate.

    There, only inner nodes have a value.
    """
    kinds = {"size": np.int32, "feature": np.int32, "value": np.float64}
    if set(proof) != set(kinds):
        raise RejectedError("its proof does not consist of the arrays of box trees")
    for name, kind in kinds.items():
        if proof[name].dtype != kind or proof[name].ndim != 1:
            raise RejectedError(f"its box trees: {name!r} has the wrong type or rank")
    size, feature = proof["size"], proof["feature"]
    inner = feature >= 0
    if len(size) != members:
        raise RejectedError(f"it has box trees for {len(size)} of {members} forests")
    if (size < 1).any() or int(size.astype(np.int64).sum()) != len(feature):
        raise RejectedError("its box trees have missing or extra nodes")
    if int(inner.sum()) != len(proof["value"]) or not np.isfinite(proof["value"]).all():
        raise RejectedError("its box trees have a split value that is missing, extra or not finite")
    value = np.zeros(len(feature))
    value[inner] = proof["value"]
    return Trees(size.copy(), np.ascontiguousarray(feature), value)


def prove(
    boxes: Boxes,
    label: int,
    upper: float,
    trees: Trees,
    progress: Callable[[int], None] = lambda done: None,
) -> int:
    """Prove that no leak of a label exceeds a bound; return the number of leaves used."""
    found, features = boxes.members, len(boxes.inputs.lower)
    starts = np.concatenate(([0], np.cumsum(trees.size.astype(np.int64))))
    deepest = 0
    for i in range(len(trees.size)):
        depth = depth_of(trees.feature, int(starts[i]), int(starts[i + 1]), features)
        if depth < 0:
            raise RejectedError(f"{boxes.names(i)}: its box tree is malformed")
        deepest = max(deepest, depth)
    if deepest > DEEPEST:
        raise RejectedError(f"a box tree has {deepest} levels; at most {DEEPEST} are supported")
    shape = len(found.whole), found.pool.shares.shape[1]
    levels = Levels(
        np.empty((deepest + 1, features)), np.empty((deepest + 1, features)),
        np.zeros(deepest + 1, np.bool_), np.empty((deepest + 1, shape[0], 2), np.int64),
        np.empty((deepest + 1, *shape, 2 + len(FACTORS))),
        np.zeros((deepest + 1, *shape), np.bool_),
    )  # fmt: skip
    asked = Asked(label, found.trees, np.array(FACTORS), _padding(found))
    for begin in range(0, len(trees.size), _AT_ONCE):
        end = min(begin + _AT_ONCE, len(trees.size))
        member, node, bound = walk(
            found.pool, found.whole, found.others, asked, boxes.tables, found.pool.listed.lower,
            found.pool.listed.upper, starts, trees.feature, trees.value, levels, upper, begin, end,
        )  # fmt: skip
        if member != PROVED:
            raise RejectedError(
                f"{boxes.names(int(member))}, box {node} of its tree: a leak of confidence "
                f"{float(bound)!r} is not ruled out; the claimed bound is {upper!r}"
            )
        progress(int(starts[end]))
    return int(np.count_nonzero(trees.feature < 0))


def _padding(members: Members) -> float:
    """Return more than the effect of rounding on any bound; see the page on certificates."""
    used = int(members.pool.used[1])
    most = float(members.pool.shares[:used].max())
    return 8.0 * (max(members.trees) + 8) * (1.0 + max(FACTORS)) * most * 2.0**-53
