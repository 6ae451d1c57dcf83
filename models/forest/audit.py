"""Recomputation of every cached statistic of a forest from its rows.

Written apart from the kernels, over whole columns, so that a mistake there is not made here too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.difference import path_of
from leaveout.models.forest.layout import SMALL
from leaveout.models.forest.plain import Ensemble, PlainTree
from leaveout.models.forest.shares import label_key


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
        yield "the leaves do not list every row it holds once"
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
            yield f"{where}: it counts {cached} rows by label; {right} is right"
        cached_here = range(starts[node], starts[node + 1])
        feature = int(tree.feature[node])
        if feature < 0:
            leaf = tree.rows[listed : listed + len(mine)]
            listed += len(mine)
            if not np.array_equal(leaf, mine):
                row = ensemble.names[np.setxor1d(leaf, mine)[0]]
                yield f"{path_of(tree, node)}: row {row} is listed in a leaf it does not fall into"
        else:
            above = ensemble.X[mine, feature] > tree.threshold[node]
            members[int(tree.left[node])] = mine[~above]
            members[int(tree.right[node])] = mine[above]
        wanted = feature >= 0 and len(mine) > SMALL
        if bool(cached_here) != wanted:
            has = "caches statistics" if cached_here else "caches no statistics"
            yield f"{path_of(tree, node)}: it {has} and holds {len(mine)} rows"
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
            return f"attribute {attribute} is said to run from {low!r} to {high!r}, not {runs}"
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
            return f"{where} caches {cached.tolist()} rows {what}; {right.tolist()} is right"
    if len(np.unique(y[(values == low) | (values == high)])) < 2:
        return f"{where} has rows of one label on both sides"
    return None
