"""Whether plain arrays form a valid forest: everything that kernels assume."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.layout import SMALL
from leaveout.models.forest.plain import Ensemble, PlainTree, Settings
from leaveout.models.forest.scored import ScoredTree
from leaveout.models.forest.shares import content_keys, copies_of, in_tree, members
from leaveout.models.forest.table import internal

LARGEST = 2.0**1000
"""Values must be smaller, so that no difference of two overflows."""


def problem_of(ensemble: Ensemble) -> str | None:
    """Return the first problem of an ensemble, or None."""
    for problem in _setting_problems(ensemble.settings, ensemble.X.shape[1]):
        return problem
    for problem in _row_problems(ensemble):
        return problem
    chosen = holders(ensemble)
    for i, tree in enumerate(ensemble.trees):
        for problem in _tree_problems(ensemble, tree, chosen[i]):
            return f"tree {i}: {problem}"
    return None


def holders(ensemble: Ensemble) -> Sequence[NDArray[np.int64]]:
    """Return the rows each tree should hold, ascending."""
    settings, rows = ensemble.settings, len(ensemble.names)
    if settings.trees_a_row == settings.trees:
        return [np.arange(rows)] * settings.trees
    X = internal(ensemble.X)
    keys = content_keys(X, ensemble.y, ensemble.classes, settings.seed)
    rank, _ = copies_of(keys, X, ensemble.y, np.arange(rows), rows)
    chosen = members(keys, rank, settings.trees, settings.trees_a_row)
    return [in_tree(chosen, rows, i).astype(np.int64) for i in range(settings.trees)]


def _setting_problems(settings: Settings, attributes: int) -> Iterator[str]:
    largest = 2**31 - 1
    for name, least, most in (
        ("trees", 1, largest), ("thresholds", 1, largest), ("attributes", 1, attributes),
        ("random_depth", 0, largest), ("least", 2, largest), ("seed", 0, 2**63 - 1),
    ):  # fmt: skip
        value = getattr(settings, name)
        if not least <= value <= most:
            yield f"the setting {name} is {value}, not in {least} to {most}"
    if settings.depth is not None and not 1 <= settings.depth <= largest:
        yield f"the setting depth is {settings.depth}"
    if not 0.0 < settings.share <= 1.0:
        yield f"the setting share is {settings.share}, not in (0, 1]"
    if settings.criterion not in ("gini", "entropy"):
        yield f"the setting criterion is {settings.criterion!r}"


def _row_problems(ensemble: Ensemble) -> Iterator[str]:
    names, y, labels = ensemble.names, ensemble.y, len(ensemble.classes)
    if not len(names) or not ensemble.X.shape[1] or not len(names) == len(y) == len(ensemble.X):
        yield "the rows' names, labels and values are not equally many"
    elif not ensemble.next_name < 2**62:
        yield "the next row's name is too large"
    elif names[0] < 0 or np.any(np.diff(names) <= 0) or names[-1] >= ensemble.next_name:
        yield "the rows' names do not ascend below the next one"
    elif np.any(np.abs(ensemble.X) >= LARGEST):
        yield "a value is too large"
    elif not np.array_equal(np.unique(y), np.arange(labels)):
        yield "the rows' labels are not numbered among those there are"
    elif ensemble.classes.dtype.kind not in "biufUO" or len(np.unique(ensemble.classes)) != labels:
        yield "the labels are not distinct"


def _tree_problems(ensemble: Ensemble, tree: PlainTree, held: NDArray[np.int64]) -> Iterator[str]:
    size, labels = len(tree.feature), len(ensemble.classes)
    leaf = tree.feature < 0
    if not size or tree.counts.shape[1:] != (labels,) or tree.cached_values.shape[1:] != (2,):
        yield "its arrays have other shapes than a tree's"
    elif tree.cached_counts.shape[1:] != (3 * labels,):
        yield "its statistics have other shapes than a tree's"
    elif not _numbers(tree.threshold) or not _numbers(tree.cached_values):
        yield "a threshold is not a number"
    elif np.any(tree.feature < -1) or np.any(tree.feature >= ensemble.X.shape[1]):
        yield "a node splits on an attribute there is not"
    elif not in_preorder(tree):
        yield "its nodes are not in preorder"
    elif np.any(tree.counts < 0) or (
        np.any(tree.counts.sum(axis=1, dtype=np.int64) < 1) and (size > 1 or len(held))
    ):
        yield "a node holds no rows"
    elif not np.array_equal(np.sort(tree.rows), held):
        yield "its leaves do not list every row it holds once"
    elif not np.array_equal(
        tree.counts[~leaf].astype(np.int64),
        tree.counts[tree.left[~leaf]].astype(np.int64) + tree.counts[tree.right[~leaf]],
    ):
        yield "a node does not count the rows of its children"
    elif not np.array_equal(tree.counts[0], np.bincount(ensemble.y[held], minlength=labels)):
        yield "the root does not count every row"
    elif not _leaves_list(ensemble, tree, held):
        yield "a leaf lists rows that do not fall into it"
    else:
        yield from _cache_problems(ensemble, tree)


def _numbers(values: NDArray[np.float64]) -> bool:
    """Return whether all values are finite or minus infinity, which means missing."""
    return bool(np.all(values < np.inf))


def in_preorder(tree: PlainTree | ScoredTree) -> bool:
    """Return whether the nodes are in preorder, with none left over."""
    waiting: list[int] = []
    left, right, inner = tree.left.tolist(), tree.right.tolist(), (tree.feature >= 0).tolist()
    last = len(inner) - 1
    for node, splits in enumerate(inner):
        if splits:
            if left[node] != node + 1 or not node + 1 < right[node] <= last:
                return False
            waiting.append(right[node])
            continue
        if left[node] != -1 or right[node] != -1:
            return False
        follows = node == last or (bool(waiting) and waiting.pop() == node + 1)
        if not follows:
            return False
    return not waiting


def _leaves_list(ensemble: Ensemble, tree: PlainTree, held: NDArray[np.int64]) -> bool:
    """Return whether each leaf lists exactly the rows that fall into it, ascending."""
    leaf = np.flatnonzero(tree.feature < 0)
    expected = np.zeros(len(ensemble.names), np.int64)
    sizes = tree.counts[leaf].sum(axis=1)
    if sizes.sum() != len(held):
        return False
    expected[tree.rows] = np.repeat(leaf, sizes)
    node = np.zeros(len(expected), np.int64)
    while True:
        moving = held[tree.feature[node[held]] >= 0]
        if not len(moving):
            break
        at = node[moving]
        right = ensemble.X[moving, tree.feature[at]] > tree.threshold[at]
        node[moving] = np.where(right, tree.right[at], tree.left[at])
    inside = np.repeat(np.arange(len(leaf)), sizes)
    ascending = np.array_equal(np.lexsort((tree.rows, inside)), np.arange(len(inside)))
    labels = len(ensemble.classes)
    found = np.bincount(inside * labels + ensemble.y[tree.rows], minlength=len(leaf) * labels)
    counted = np.array_equal(found.reshape(len(leaf), labels), tree.counts[leaf])
    return ascending and counted and np.array_equal(node, expected)


def _cache_problems(ensemble: Ensemble, tree: PlainTree) -> Iterator[str]:
    nodes, attributes = tree.cached_node, tree.cached_attribute
    settings = ensemble.settings
    wanted = np.flatnonzero((tree.feature >= 0) & (tree.counts.sum(axis=1) > SMALL))
    if not np.array_equal(np.unique(nodes), wanted) or np.any(np.diff(nodes) < 0):
        yield "the nodes that cache statistics are not those that should"
        return
    if np.any(attributes < 0) or np.any(attributes >= ensemble.X.shape[1]):
        yield "a statistic is of an attribute there is not"
        return
    if np.any(tree.cached_counts < 0):
        yield "a statistic counts fewer rows than none"
        return
    for attribute in np.unique(attributes):
        mine = tree.cached_values[attributes == attribute]
        values = np.unique(internal(ensemble.X[:, attribute]))
        if not np.all(np.isin(mine, values)) or np.any(mine[:, 0] >= mine[:, 1]):
            yield f"a statistic of attribute {attribute} is of values that no two rows have"
            return
    at_random = tree.depths[nodes] < settings.random_depth
    if np.any(attributes[at_random] != tree.feature[nodes[at_random]]):
        yield "a random node caches another attribute than its own"
    if len(np.unique(nodes[at_random])) != int(at_random.sum()):
        yield "a random node caches more than one range"
    new = np.concatenate(([True], (np.diff(nodes) != 0) | (np.diff(attributes) != 0)))
    if np.any(~new[1:] & (tree.cached_values[1:, 0] <= tree.cached_values[:-1, 0])):
        yield "a node's thresholds of an attribute do not ascend"
    runs = np.flatnonzero(new)
    lengths = np.diff(np.concatenate((runs, [len(nodes)])))
    pairs = (
        np.unique(np.stack((nodes[runs], attributes[runs])), axis=1).shape[1] if len(nodes) else 0
    )
    if len(nodes) and (pairs != len(runs) or lengths.max() > settings.thresholds):
        yield "a node caches more thresholds of an attribute than it may"
    if len(nodes) and np.bincount(nodes[runs]).max() > settings.attributes:
        yield "a node caches more attributes than it may"
