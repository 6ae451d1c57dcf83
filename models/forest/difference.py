"""The first difference between two forests, as a sentence."""

from __future__ import annotations

import numpy as np

from leaveout.models.forest.plain import Ensemble, PlainTree
from leaveout.models.forest.table import internal


def ensemble_difference(a: Ensemble, b: Ensemble) -> str | None:
    """Return a sentence on the first difference of two forests, or None."""
    for name in a.settings.__struct_fields__:
        first, second = getattr(a.settings, name), getattr(b.settings, name)
        if first != second:
            return f"the setting {name} is {first!r} in the one and {second!r} in the other"
    if not _equal(a.classes, b.classes):
        return (
            f"the labels are {a.classes.tolist()} in the one and {b.classes.tolist()} in the other"
        )
    if not _equal(a.names, b.names):
        row = int(np.setxor1d(a.names, b.names)[0])
        return f"row {row} is held by the {'one' if row in a.names else 'other'} only"
    for what, first, second in (("label", a.y, b.y), ("values", internal(a.X), internal(b.X))):
        if not _equal(first, second):
            unlike = first != second
            row = int(np.flatnonzero(unlike if unlike.ndim == 1 else unlike.any(axis=-1))[0])
            return f"the {what} of row {a.names[row]} differ"
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
    """Return the first difference in preorder."""
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
            return f"{where}: it counts {one} rows by label in the one and {other} in the other"
        if _split(a, first) != _split(b, first):
            return f"{where}: it {_split(a, first)} in the one and {_split(b, first)} in the other"
        return f"{where}: its children are other nodes in the one than in the other"
    if len(a.feature) != len(b.feature):
        return f"it has {len(a.feature)} nodes in the one and {len(b.feature)} in the other"
    if not _equal(a.rows, b.rows):
        place = int(np.flatnonzero(a.rows != b.rows)[0])
        ends = np.cumsum(np.where(a.feature < 0, a.counts.sum(axis=1), 0))
        leaf = int(np.searchsorted(ends, place, side="right"))
        one, other = names[a.rows[place]], names[b.rows[place]]
        return f"{path_of(a, leaf)}: the leaf lists row {one} in the one and {other} in the other"
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
        return f"{where}: {one} statistics are cached up to it in the one and {other} in the other"
    i = int(np.flatnonzero(apart)[0])
    node = min(int(a.cached_node[i]), int(b.cached_node[i]))
    return f"{path_of(a, node)}: it caches {_cached_statistic_text(a, i)} in the one and {_cached_statistic_text(b, i)} in the other"


def _cached_statistic_text(tree: PlainTree, i: int) -> str:
    """Return a description of a cached statistic."""
    low, high = tree.cached_values[i].tolist()
    counts = tree.cached_counts[i].tolist()
    return f"attribute {tree.cached_attribute[i]} between {low!r} and {high!r} with counts {counts}"
