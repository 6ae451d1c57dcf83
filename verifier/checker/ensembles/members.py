"""A forest without each of its rows in turn: trees retrained down the row's path.

A child depends only on its key and its rows, so off the row's path a tree is unchanged as long as
splits send the same rows to the same sides; below a split that does not, it is regrown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit
from leaveout.verifier.checker.ensembles.choosing import (
    PLAIN,
    Data,
    Room,
    Rules,
    attribute_key,
    between,
    choose,
    compiled_in,
    mix_bits,
    package_stamp,
    room_for,
    root_key,
    threshold_between,
    worth,
)
from leaveout.verifier.checker.ensembles.files import Exact
from leaveout.verifier.checker.ensembles.node_pool import (
    Listed,
    Pool,
    answer,
    enlarge,
    is_full,
    new_pool,
    split,
)
from leaveout.verifier.checker.ensembles.training import (
    NOTHING,
    Nodes,
    Statistics,
    by_value,
    data_of,
    divide,
    grow,
    holders,
    no_statistics,
    nodes_for,
    ranks,
    rules_of,
)
from leaveout.verifier.checker.errors import RejectedError


class Each(NamedTuple):
    """Each row's split of its node without that row, and work space."""

    feature: NDArray[np.int64]  # shape (rows,): -1 for a leaf
    threshold: NDArray[np.float64]  # shape (rows,): the threshold
    value: NDArray[np.float64]  # shape (rows,): the quality of the split
    considered: NDArray[np.int64]  # shape (rows,): number of attributes
    group: NDArray[np.int64]  # shape (rows,): the row's group of equal values
    at: NDArray[np.float64]  # shape (rows,): each group's value
    bits: NDArray[np.uint64]  # shape (rows,)
    counts: NDArray[np.int64]  # shape (rows, labels): rows of each label in a group
    sums: NDArray[np.int64]  # shape (rows, labels): rows of each label up to a group
    priority: NDArray[np.uint64]  # shape (thresholds + 2,)
    first: NDArray[np.int64]  # shape (thresholds + 2,)
    whole: NDArray[np.int64]  # shape (labels,)
    rest: NDArray[np.int64]  # shape (labels,)
    low: NDArray[np.int64]  # shape (labels,)
    attributes: NDArray[np.int64]  # shape (attributes,)
    keys: NDArray[np.uint64]  # shape (attributes,)


def each_for(data: Data, rules: Rules, labels: int) -> Each:
    """Return work space for the rows of a node."""
    rows, whole = len(data.labels), np.int64
    k, d = rules.thresholds + 2, len(data.columns)
    return Each(
        np.empty(rows, whole), np.empty(rows), np.empty(rows), np.empty(rows, whole),
        np.empty(rows, whole), np.empty(rows), np.empty(rows, np.uint64),
        np.empty((rows, labels), whole), np.empty((rows, labels), whole), np.empty(k, np.uint64),
        np.empty(k, whole), np.empty(labels, whole), np.empty(labels, whole),
        np.empty(labels, whole), np.empty(d, whole), np.empty(d, np.uint64),
    )  # fmt: skip


@compiled_in
def _begin(
    data: Data, order: Any, begin: int, end: int, depth: int, rules: Rules, waits: Any, each: Each
) -> int:
    """Count the node's rows; return for how many waiting rows it remains an inner node."""
    whole, n, asked = each.whole, end - begin, 0
    for c in range(len(whole)):
        whole[c] = 0
    for i in range(begin, end):
        whole[data.labels[order[0, i]]] += 1
    for i in range(begin, end):
        row = order[0, i]
        if not waits[row]:
            continue
        present = 0
        for c in range(len(whole)):
            present += whole[c] - (c == data.labels[row]) > 0
        each.feature[row], each.threshold[row], each.value[row] = -1, 0.0, -np.inf
        is_leaf = depth >= rules.depth or n - 1 < rules.least or present < 2
        each.considered[row] = rules.attributes if is_leaf else 0
        asked += not is_leaf
    return asked


@compiled_in
def _by_priority(
    data: Data, order: Any, begin: int, end: int, key: np.uint64, each: Each
) -> tuple[int, Any]:
    """Store the non-constant attributes in order of priority; return their number and order."""
    found = 0
    for a in range(len(data.columns)):
        if data.columns[a, order[a, begin]] != data.columns[a, order[a, end - 1]]:
            each.attributes[found], each.keys[found] = a, attribute_key(key, a)
            found += 1
    return found, np.argsort(each.keys[:found])


@compiled_in
def _several(one: Any, other: Any, gone: int) -> bool:
    """Return whether two groups have several labels, even without a row of label ``gone``."""
    present = 0
    for c in range(len(one)):
        present += one[c] + other[c] - (c == gone) > 0
    return present > 1


@compiled_in
def _gather(
    data: Data, order: Any, begin: int, end: int, a: int, own: np.uint64, each: Each
) -> tuple[int, int]:
    """Store an attribute's groups and first thresholds by priority; return the number of each."""
    groups, labels = -1, each.counts.shape[1]
    last = 0.0
    for i in range(begin, end):
        row = order[a, i]
        value = data.columns[a, row]
        if groups < 0 or value != last:
            groups += 1
            last = value
            each.at[groups], each.bits[groups] = value, data.bits[a, row]
            for c in range(labels):
                each.counts[groups, c] = 0
                each.sums[groups, c] = each.sums[groups - 1, c] if groups else 0
        each.group[row] = groups
        each.counts[groups, data.labels[row]] += 1
        each.sums[groups, data.labels[row]] += 1
    groups += 1
    many = 0
    for g in range(groups - 1):
        if not _several(each.counts[g], each.counts[g + 1], -1):
            continue
        priority = mix_bits(own ^ each.bits[g])
        if many == len(each.first):
            if priority > each.priority[many - 1]:
                continue
            many -= 1
        at = many
        while at > 0 and each.priority[at - 1] > priority:
            each.priority[at], each.first[at] = each.priority[at - 1], each.first[at - 1]
            at -= 1
        each.priority[at], each.first[at] = priority, g
        many += 1
    return groups, many


@compiled_in
def _take(each: Each, row: int, label: int, a: int, g: int, following: int, entropy: bool) -> None:
    """Consider the threshold after group g for a node without a row."""
    for c in range(len(each.low)):
        each.low[c] = each.sums[g, c] - (c == label and each.group[row] <= g)
    value, cut = worth(entropy, each.low, each.rest), between(each.at[g], each.at[following])
    earlier = a < each.feature[row] or (a == each.feature[row] and cut < each.threshold[row])
    if value > each.value[row] or (value == each.value[row] and earlier):
        each.feature[row], each.threshold[row], each.value[row] = a, cut, value


@compiled_in
def _consider(
    data: Data, row: int, a: int, own: np.uint64, groups: int, many: int, rules: Rules, each: Each
) -> None:
    """Consider an attribute's thresholds for a node without a row."""
    label, g = data.labels[row], each.group[row]
    size = 0
    for c in range(len(each.rest)):
        each.rest[c] = each.whole[c] - (c == label)
        size += each.counts[g, c]
    goes = size == 1
    # If the group disappears, there may be a threshold between its neighbours.
    pending = goes and 0 < g < groups - 1
    pending = pending and _several(each.counts[g - 1], each.counts[g + 1], -1)
    new = mix_bits(own ^ each.bits[g - 1]) if pending else np.uint64(0)
    taken, i = 0, 0
    while taken < rules.thresholds:
        if pending and (i == many or new < each.priority[i]):
            pending = False
            _take(each, row, label, a, g - 1, g + 1, rules.entropy)
            taken += 1
            continue
        if i == many:
            break
        first, at = each.first[i], each.priority[i]
        i += 1
        if first == g or first == g - 1:
            if pending and new == at:
                pending = False
                _take(each, row, label, a, g - 1, g + 1, rules.entropy)
                taken += 1
                continue
            if goes or not _several(each.counts[first], each.counts[first + 1], label):
                continue
        _take(each, row, label, a, first, first + 1, rules.entropy)
        taken += 1


@compiled_in
def choose_each(
    data: Data, order: Any, begin: int, end: int, key: np.uint64, depth: int, rules: Rules,
    waits: Any, each: Each,
) -> None:  # fmt: skip
    """Store in ``each`` the node's splits without each waiting row."""
    asked = _begin(data, order, begin, end, depth, rules, waits, each)
    if asked == 0:
        return
    found, place = _by_priority(data, order, begin, end, key, each)
    at_random = depth < rules.random_depth
    wanted = 1 if at_random else rules.attributes
    n = end - begin
    for j in range(found):
        if asked == 0:
            return
        a, own = each.attributes[place[j]], each.keys[place[j]]
        ordered, column = order[a, begin:end], data.columns[a]
        groups, many = 0, 0
        if not at_random:
            groups, many = _gather(data, order, begin, end, a, own, each)
        for i in range(n):
            row = ordered[i]
            if not waits[row] or each.considered[row] >= wanted:
                continue
            low = column[ordered[1 if i == 0 else 0]]
            high = column[ordered[n - 2 if i == n - 1 else n - 1]]
            if low == high:
                continue
            each.considered[row] += 1
            asked -= each.considered[row] == wanted
            if at_random:
                each.feature[row], each.threshold[row] = a, threshold_between(own, low, high)
            else:
                _consider(data, row, a, own, groups, many, rules, each)


Longs = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Members:
    """A forest and its members, as roots in one pool."""

    pool: Pool
    whole: Longs  # shape (trees,)
    others: Longs  # shape (members, trees)
    trees: tuple[int, int]


@compiled_in
def _leaf(pool: Pool, counts: Any, totals: Any, gone: int) -> int:
    """Return the leaf of some counts; without rows, that of the labels left in the forest."""
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
    """Return whether two splits send all rows of a node but one to the same side."""
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
        """Set the root of a tree without each requested row; return the tree's root, -1 if full."""
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
        # For each row and level: the tree's node there, and its split without the row.
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
        """Add uniform leaves over the labels left, one for each member; return that of all rows."""
        _ = stamp
        none = np.zeros(len(totals), np.int64)
        for row in range(len(labels)):
            roots[row] = _leaf(pool, none, totals, labels[row])
        return _leaf(pool, none, totals, -1)

    return cast("Callable[..., int]", _empty)


_empty = _compile_empty(package_stamp())


def _compile_without_group(stamp: int) -> Callable[..., int]:
    """Compile with a stamp of this package's sources, which invalidates stale kernels."""

    @cached_njit(**PLAIN)
    def _without_group(
        data: Data, order: NDArray[np.int64], seed: int, tree: int, rules: Rules, room: Room,
        top: Nodes, sub: Nodes, nothing: Statistics, totals: NDArray[np.int64],
        gone: NDArray[np.int64], starts: NDArray[np.int64], left: NDArray[np.int64], pool: Pool,
        roots: NDArray[np.int64],
    ) -> int:  # fmt: skip
        """Set the root of a tree without each group; return the tree's root, -1 if full.

        The rows that leave with a group are a part of ``gone``; the rows of each label that the
        forest then has are a line of ``left``.
        """
        _ = stamp
        n = order.shape[1]
        leaves = np.zeros(len(data.labels), np.bool_)
        spare, rest = np.empty(n, np.int64), np.empty_like(order)
        size = grow(
            data, order.copy(), root_key(seed, tree), 0, rules, room, spare, NOTHING, top, nothing
        )  # fmt: skip
        ids, below = np.empty(2 * n + 1, np.int64), np.empty(2 * n + 1, np.int64)
        # Of the nodes that a group's rows reach: the root of what stands there without them.
        fresh = np.full(size, -1, np.int64)
        visits, ends = np.empty(size, np.int64), np.empty((size, 2), np.int64)
        feature_at, threshold_at = np.empty(size, np.int64), np.empty(size)
        if is_full(pool, 2 * n + 1):
            return -1
        own = _share_tree(pool, top, size, totals, -1, ids)
        for group in range(len(left)):
            if is_full(pool, 4 * n + 2):
                return -1
            mine = gone[starts[group] : starts[group + 1]]
            leaves[mine] = True
            kept = 0
            for i in range(n):
                kept += not leaves[order[0, i]]
            for a in range(len(order) if kept < n else 0):
                at = 0
                for i in range(n):
                    if not leaves[order[a, i]]:
                        rest[a, at] = order[a, i]
                        at += 1
            leaves[mine] = False
            if 0 < kept == n:
                continue
            visits[0], ends[0, 0], ends[0, 1] = 0, 0, kept
            waiting, j = 1, 0
            while j < waiting:
                node, begin, end = visits[j], ends[j, 0], ends[j, 1]
                feature, threshold = choose(
                    data, rest, begin, end, top.key[node], top.depth[node], rules, room
                )  # fmt: skip
                feature_at[j], threshold_at[j] = feature, threshold
                if feature < 0:
                    fresh[node] = _leaf(pool, room.counts, left[group], -1)
                elif top.feature[node] < 0 or not _same_sides(
                    data, rest, begin, end, -1, feature, threshold, top.feature[node],
                    top.threshold[node],
                ):  # fmt: skip
                    part = rest[:, begin:end].copy()
                    many = grow(
                        data, part, top.key[node], top.depth[node], rules, room, spare, NOTHING,
                        sub, nothing,
                    )  # fmt: skip
                    fresh[node] = _share_tree(pool, sub, many, left[group], -1, below)
                    feature_at[j] = -1
                else:
                    middle = divide(data, rest, begin, end, feature, threshold, spare)
                    for right in range(2):
                        child = top.right[node] if right else top.left[node]
                        first, last = middle if right else begin, end if right else middle
                        if last - first < top.end[child] - top.begin[child]:
                            visits[waiting], ends[waiting, 0], ends[waiting, 1] = child, first, last
                            waiting += 1
                j += 1
            for j in range(waiting - 1, -1, -1):
                node = visits[j]
                if feature_at[j] >= 0:
                    one, other = top.left[node], top.right[node]
                    fresh[node] = split(
                        pool, feature_at[j], threshold_at[j],
                        fresh[one] if fresh[one] >= 0 else ids[one],
                        fresh[other] if fresh[other] >= 0 else ids[other],
                    )  # fmt: skip
            roots[group] = fresh[0]
            fresh[visits[:waiting]] = -1
        return own

    return cast("Callable[..., int]", _without_group)


_without_group = _compile_without_group(package_stamp())


def _without_groups(forest: Exact, listed: Listed) -> Members:
    """Return a forest retrained on its rows, and without each group of them in turn."""
    rows, labels = len(forest.names), len(forest.classes)
    data, rules = data_of(forest.X, forest.y), rules_of(forest.settings, rows)
    totals = np.bincount(forest.y, minlength=labels).astype(np.int64)
    leaving = [places for _, places in forest.units]
    content, rank = ranks(forest.X, forest.y)
    # Of copies those of the greatest ranks leave the trees.
    copies = np.split(np.lexsort((rank, content)), np.cumsum(np.bincount(content))[:-1])
    gone = []
    for each in leaving:
        different, times = np.unique(content[each], return_counts=True)
        gone += [np.concatenate([copies[c][-n:] for c, n in zip(different, times, strict=True)])]
    starts = np.cumsum([0, *map(len, gone)])
    left = np.array([totals - np.bincount(forest.y[each], minlength=labels) for each in leaving])
    pool = new_pool(max(4096, 8 * rows), labels, listed)
    whole = np.empty(forest.settings.trees, np.int64)
    others = np.empty((len(leaving), forest.settings.trees), np.int64)
    room, nothing = room_for(rules, labels), no_statistics(labels)
    top, sub = nodes_for(rows, labels), nodes_for(rows, labels)
    for i, held in enumerate(holders(forest.settings, forest.labels, forest.X, forest.y)):
        roots, own, order = np.full(len(leaving), -1, np.int64), -1, by_value(data, held)
        while own < 0:
            own = _without_group(
                data, order, forest.settings.seed, i, rules, room, top, sub, nothing, totals,
                np.concatenate(gone), starts, left, pool, roots,
            )  # fmt: skip
            pool = enlarge(pool) if own < 0 else pool
        whole[i], others[:, i] = own, np.where(roots >= 0, roots, own)
    return Members(pool, whole, others, (forest.settings.trees, forest.settings.trees))


def members_of(forest: Exact, listed: Listed) -> Members:
    """Return a forest retrained on its rows, and without each row or group of them in turn."""
    rows, labels = len(forest.names), len(forest.classes)
    if len(forest.units) < 2:
        raise RejectedError("the forest has one row, and a forest cannot be trained on none")
    if len(forest.units) < rows:
        return _without_groups(forest, listed)
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
    """Return the row that leaves the trees with each row: its copy of greatest rank.

    If every tree has every row, any copy will do, as they are equal.
    """
    content, rank = ranks(forest.X, forest.y)
    last = np.zeros(int(content.max()) + 1, np.int64)
    np.maximum.at(last, content, rank)
    place = {pair: i for i, pair in enumerate(zip(content.tolist(), rank.tolist(), strict=True))}
    ends = zip(content.tolist(), last[content].tolist(), strict=True)
    return np.array([place[pair] for pair in ends], np.int64)
