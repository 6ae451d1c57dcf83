"""Every cached statistic of a forest, computed again from the rows it holds.

Written apart from the kernels, over whole columns, so that a mistake there is not made here too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.difference import path_of
from leaveout.models.forest.layout import SMALL
from leaveout.models.forest.plain import Ensemble, PlainTree

__all__ = ["first_unsound"]


def first_unsound(ensemble: Ensemble) -> str | None:
    """Return the first cached statistic that the rows contradict, in words, or None.

    Checked are the rows of each leaf, the counts of each node, and of each cached threshold that
    its two values are adjacent in the node, its three counts, and that it is valid; of a random
    node the least and the greatest value. That nodes cache what they should is checked too; that
    the *right* thresholds were drawn is what a comparison with a new forest shows.
    """
    for i, tree in enumerate(ensemble.trees):
        for problem in _problems(ensemble, tree):
            return f"tree {i}, {problem}"
    return None


def _problems(ensemble: Ensemble, tree: PlainTree) -> Iterator[str]:
    labels, everything = len(ensemble.classes), np.arange(len(ensemble.names))
    if not np.array_equal(np.sort(tree.rows), everything):
        yield "the leaves do not list every row once"
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
