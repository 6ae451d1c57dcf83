"""Recomputation of every cached statistic of a forest from its rows.

Written apart from the kernels, over whole columns, so that a mistake there is not made here too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.chance import label_key
from leaveout.models.forest.plain import Ensemble, PlainTree
from leaveout.models.forest.table import internal
from leaveout.models.forest.tree_arrays import SMALL


def ensemble_difference(a: Ensemble, b: Ensemble) -> str | None:
    """Return a sentence on the first difference of two forests, or None."""
    for name in a.settings.__struct_fields__:
        first, second = getattr(a.settings, name), getattr(b.settings, name)
        if first != second:
            return f"the setting {name} is {first!r} in one and {second!r} in the other"
    if not _equal(a.classes, b.classes):
        return f"the labels are {a.classes.tolist()} in one and {b.classes.tolist()} in the other"
    if not _equal(a.names, b.names):
        row = int(np.setxor1d(a.names, b.names)[0])
        return f"row {row} is only in the {'one' if row in a.names else 'other'}"
    for what, first, second in (("label", a.y, b.y), ("values", internal(a.X), internal(b.X))):
        if not _equal(first, second):
            unlike = first != second
            row = int(np.flatnonzero(unlike if unlike.ndim == 1 else unlike.any(axis=-1))[0])
            return f"the {what} of row {a.names[row]} differ"
    if (a.groups is None) != (b.groups is None) or not _equal(a.units, b.units):
        return "other rows leave together in one than in the other"
    if a.groups is not None and b.groups is not None and not _equal(a.groups.cells, b.groups.cells):
        return "rows that leave together are called otherwise in one than in the other"
    for i, (one, other) in enumerate(zip(a.trees, b.trees, strict=True)):
        found = _tree_difference(one, other, a.names)
        if found is not None:
            return f"tree {i}, {found}"
    return None


def path_of(tree: PlainTree, node: int) -> str:
    """Return the path of a node from the root, such as ``node LRR``."""
    steps = []
    while node > 0:
        parent = int(np.flatnonzero((tree.left == node) | (tree.right == node))[0])
        steps.append("L" if tree.left[parent] == node else "R")
        node = parent
    return "node " + "".join(reversed(steps)) if steps else "the root"


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool(np.all(a == b))


def _split(tree: PlainTree, node: int) -> str:
    if tree.feature[node] < 0:
        return "is a leaf"
    return f"splits attribute {tree.feature[node]} at {float(tree.threshold[node])!r}"


def _tree_difference(a: PlainTree, b: PlainTree, names: np.ndarray) -> str | None:
    both = min(len(a.feature), len(b.feature))
    apart = (a.feature[:both] != b.feature[:both]) | (a.threshold[:both] != b.threshold[:both])
    apart |= (a.counts[:both] != b.counts[:both]).any(axis=1)
    apart |= (a.left[:both] != b.left[:both]) | (a.right[:both] != b.right[:both])
    first = int(np.flatnonzero(apart)[0]) if apart.any() else both
    cached = _cache_difference(a, b, first)
    if cached is not None:
        return cached
    if first < both:
        where = path_of(a, first)
        if not _equal(a.counts[first], b.counts[first]):
            one, other = a.counts[first].tolist(), b.counts[first].tolist()
            return f"{where}: it counts {one} rows by label in one and {other} in the other"
        if _split(a, first) != _split(b, first):
            return f"{where}: it {_split(a, first)} in one and {_split(b, first)} in the other"
        return f"{where}: its children differ between the two"
    if len(a.feature) != len(b.feature):
        return f"it has {len(a.feature)} nodes in one and {len(b.feature)} in the other"
    if not _equal(a.rows, b.rows):
        place = int(np.flatnonzero(a.rows != b.rows)[0])
        ends = np.cumsum(np.where(a.feature < 0, a.counts.sum(axis=1), 0))
        leaf = int(np.searchsorted(ends, place, side="right"))
        one, other = names[a.rows[place]], names[b.rows[place]]
        return f"{path_of(a, leaf)}: the leaf lists row {one} in one and {other} in the other"
    return None


def _cache_difference(a: PlainTree, b: PlainTree, before: int) -> str | None:
    """Return the first difference among the statistics cached by nodes before one."""
    one, other = int(np.sum(a.cached_node < before)), int(np.sum(b.cached_node < before))
    both = min(one, other)
    apart = (a.cached_node[:both] != b.cached_node[:both]) | (
        a.cached_attribute[:both] != b.cached_attribute[:both]
    )
    apart |= (a.cached_values[:both] != b.cached_values[:both]).any(axis=1)
    apart |= (a.cached_counts[:both] != b.cached_counts[:both]).any(axis=1)
    if not apart.any():
        if one == other:
            return None
        longer = a if one > other else b
        where = path_of(longer, int(longer.cached_node[both]))
        return f"{where}: {one} statistics are cached up to it in one and {other} in the other"
    i = int(np.flatnonzero(apart)[0])
    node = min(int(a.cached_node[i]), int(b.cached_node[i]))
    first, second = _cached_statistic_text(a, i), _cached_statistic_text(b, i)
    return f"{path_of(a, node)}: it caches {first} in one and {second} in the other"


def _cached_statistic_text(tree: PlainTree, i: int) -> str:
    """Return a description of a cached statistic."""
    low, high = tree.cached_values[i].tolist()
    counts = tree.cached_counts[i].tolist()
    return f"attribute {tree.cached_attribute[i]} between {low!r} and {high!r} with counts {counts}"


def first_unsound(ensemble: Ensemble) -> str | None:
    """Return a description of the first cached statistic the rows contradict, or None.

    It does not check that the right thresholds were drawn: compare with a retrained forest for
    that.
    """
    X = np.where(np.isnan(ensemble.X), -np.inf, ensemble.X + 0.0)
    holders = _holders(ensemble, X)
    for i, tree in enumerate(ensemble.trees):
        for problem in _problems(replace(ensemble, X=X), tree, holders[:, i]):
            return f"tree {i}, {problem}"
    return None


def _mix_bits(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 pseudorandom bits for each number."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _holders(ensemble: Ensemble, X: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether each tree holds each row, shape (rows, trees)."""
    settings, rows = ensemble.settings, len(X)
    if settings.trees_a_row == settings.trees:
        return np.ones((rows, settings.trees), bool)
    step = np.array([0x9E3779B97F4A7C15], np.uint64)
    seed = _mix_bits(np.array([settings.seed], np.uint64) + step)
    labels = np.array([label_key(label) for label in ensemble.classes.tolist()], np.uint64)
    hashed = _mix_bits(_mix_bits(seed ^ np.uint64(0xE7037ED1A0B428DB)) ^ labels[ensemble.y])
    for column in X.T:
        hashed = _mix_bits((hashed ^ np.ascontiguousarray(column).view(np.uint64)) + step)
    _, content = np.unique(np.column_stack((X, ensemble.y)), axis=0, return_inverse=True)
    order = np.argsort(content.ravel(), kind="stable")
    begins = np.searchsorted(content.ravel()[order], content.ravel())
    rank = np.empty(rows, np.int64)
    rank[order] = np.arange(rows)
    own = _mix_bits(hashed + (rank - begins + 1).astype(np.uint64) * step)
    trees = np.arange(1, settings.trees + 1, dtype=np.uint64) * step
    held = np.zeros((rows, settings.trees), bool)
    for begin in range(0, rows, 4096):
        part = slice(begin, begin + 4096)
        first = np.argsort(_mix_bits(own[part, None] + trees), axis=1)[:, : settings.trees_a_row]
        np.put_along_axis(held[part], first, True, axis=1)
    return held


def _problems(ensemble: Ensemble, tree: PlainTree, holds: NDArray[np.bool_]) -> Iterator[str]:
    labels, everything = len(ensemble.classes), np.flatnonzero(holds)
    if not np.array_equal(np.sort(tree.rows), everything):
        yield "the leaves do not list each of its rows exactly once"
        return
    starts = np.searchsorted(tree.cached_node, np.arange(len(tree.feature) + 1))
    depths = tree.depths
    members: dict[int, NDArray[np.int64]] = {0: everything}
    listed = 0
    for node in range(len(tree.feature)):
        mine = members.pop(node)
        counts = np.bincount(ensemble.y[mine], minlength=labels)
        if not np.array_equal(counts, tree.counts[node]):
            cached = tree.counts[node].tolist()
            where, right = path_of(tree, node), counts.tolist()
            yield f"{where}: it counts {cached} rows by label; {right} is correct"
        cached_here = range(starts[node], starts[node + 1])
        feature = int(tree.feature[node])
        if feature < 0:
            leaf = tree.rows[listed : listed + len(mine)]
            listed += len(mine)
            if not np.array_equal(leaf, mine):
                row = ensemble.names[np.setxor1d(leaf, mine)[0]]
                yield (
                    f"{path_of(tree, node)}: row {row} is listed in a leaf that it does not reach"
                )
        else:
            above = ensemble.X[mine, feature] > tree.threshold[node]
            members[int(tree.left[node])] = mine[~above]
            members[int(tree.right[node])] = mine[above]
        wanted = feature >= 0 and len(mine) > SMALL
        if bool(cached_here) != wanted:
            has = "caches statistics" if cached_here else "caches no statistics"
            yield f"{path_of(tree, node)}: it {has} and has {len(mine)} rows"
        at_random = depths[node] < ensemble.settings.random_depth
        for i in cached_here:
            problem = _wrong(ensemble, tree, i, mine, at_random)
            if problem is not None:
                yield f"{path_of(tree, node)}: {problem}"


def _wrong(
    ensemble: Ensemble, tree: PlainTree, i: int, mine: NDArray[np.int64], at_random: bool
) -> str | None:
    labels = len(ensemble.classes)
    attribute = int(tree.cached_attribute[i])
    low, high = tree.cached_values[i].tolist()
    values, y = ensemble.X[mine, attribute], ensemble.y[mine]
    if at_random:
        if (low, high) != (values.min(), values.max()):
            runs = (float(values.min()), float(values.max()))
            return (
                f"attribute {attribute} is recorded as ranging from {low!r} to {high!r}, not {runs}"
            )
        return None
    where = f"the threshold of attribute {attribute} between {low!r} and {high!r}"
    if low not in values or high not in values or np.any((values > low) & (values < high)):
        return f"{where} is not between adjacent values"
    for k, (what, chosen) in enumerate(
        (("at most the first", values <= low), ("at the first", values == low),
         ("at the second", values == high))
    ):  # fmt: skip
        right = np.bincount(y[chosen], minlength=labels)
        cached = tree.cached_counts[i, k * labels : (k + 1) * labels]
        if not np.array_equal(right, cached):
            return f"{where} caches {cached.tolist()} rows {what}; {right.tolist()} is correct"
    if len(np.unique(y[(values == low) | (values == high)])) < 2:
        return f"{where} has rows of one label on both sides"
    return None
