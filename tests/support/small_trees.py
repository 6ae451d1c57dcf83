"""Small random ensembles, copies of them with a flaw, and all cells that two of them have."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from leaveout.kernel.trees import Ensemble, Nodes

FEATURES = 3
CATEGORY = 2
"""The feature that has categories, in some ensembles."""


def random_ensemble(rng, *, scores=1, trees=3, depth=3, categories=False, labels=()):
    """Return an ensemble over three features, with few thresholds so that cells are few."""
    cuts = rng.normal(size=(FEATURES, 3)).astype(np.float32).astype(np.float64)
    cuts += rng.integers(0, 2, cuts.shape) * 2.0**-40  # some are between two float32 numbers
    feature, threshold, missing, sets, left, right = [], [], [], [], [], []
    values, members, roots = [], [], [0]

    def grow(level):
        at = len(feature)
        for each in (feature, threshold, missing, sets, left, right):
            each.append(0)
        if level == 0 or rng.random() < 0.25:
            feature[at], sets[at], left[at] = -1, -1, len(values)
            missing[at], threshold[at] = False, 0.0
            values.append(rng.normal(size=scores))
            return
        feature[at] = int(rng.integers(FEATURES))
        missing[at], sets[at] = bool(rng.integers(2)), -1
        threshold[at] = float(rng.choice(cuts[feature[at]]))
        if categories and feature[at] == CATEGORY:
            if rng.random() < 0.6:
                sets[at], threshold[at] = len(members), 0.0
                members.append(rng.random(5) < 0.5)
            else:
                threshold[at] = float(rng.integers(-1, 6)) + 0.5
        left[at] = len(feature)
        grow(level - 1)
        right[at] = len(feature)
        grow(level - 1)

    for _ in range(trees):
        grow(depth)
        roots.append(len(feature))
    nodes = Nodes(
        np.array(roots), np.array(feature, np.int32), np.array(threshold, float),
        np.array(missing, bool), np.array(sets, np.int32), np.array(left), np.array(right),
        np.array(members, bool).reshape(-1, 5), np.array(values).reshape(-1, scores),
    )  # fmt: skip
    nodes.check(FEATURES)
    return Ensemble(nodes, rng.normal(size=scores), labels, FEATURES, ordered=False)


FLAWS = (
    "none",
    "float32",
    "up",
    "down",
    "leaf",
    "tiny leaf",
    "missing",
    "category",
    "base",
    "swap",
)


def spoil(rng, ensemble, flaw):
    """Return a copy with a flaw, which may show nowhere."""
    nodes = ensemble.nodes
    inner = np.flatnonzero((nodes.feature >= 0) & (nodes.set < 0))
    threshold, values = nodes.threshold.copy(), nodes.values.copy()
    missing, sets = nodes.missing_left.copy(), nodes.sets.copy()
    at = int(rng.choice(inner)) if len(inner) else 0
    if flaw == "float32":
        threshold[inner] = threshold[inner].astype(np.float32)
    elif flaw in ("up", "down") and len(inner):
        towards = np.float32(np.inf if flaw == "up" else -np.inf)
        threshold[at] = np.nextafter(np.float32(threshold[at]), towards)
    elif flaw == "leaf":
        values[rng.integers(len(values))] += 0.25
    elif flaw == "tiny leaf":
        values = values.astype(np.float32).astype(np.float64)
    elif flaw == "missing" and len(inner):
        missing[at] = not missing[at]
    elif flaw == "category" and len(sets):
        row = rng.integers(len(sets)), rng.integers(5)
        sets[row] = not sets[row]
    changed = replace(nodes, threshold=threshold, values=values, missing_left=missing, sets=sets)
    other = replace(ensemble, nodes=changed)
    if flaw == "base":
        other = replace(other, base=other.base + 0.125)
    if flaw == "swap":
        other = reorder(other, rng.permutation(ensemble.trees))
    return other


def reorder(ensemble, order):
    """Return the same trees in another order."""
    nodes, parts = ensemble.nodes, {name: [] for name in Nodes.__dataclass_fields__}
    roots, leaves = [0], 0
    for tree in order:
        first, last = nodes.roots[tree : tree + 2]
        inner = nodes.feature[first:last] >= 0
        own = nodes.left[first:last][~inner]
        for name in ("feature", "threshold", "missing_left", "set"):
            parts[name].append(getattr(nodes, name)[first:last])
        moved = np.where(inner, nodes.left[first:last] - first + roots[-1], 0)
        moved[~inner] = leaves + np.arange(len(own))
        parts["left"].append(moved)
        parts["right"].append(np.where(inner, nodes.right[first:last] - first + roots[-1], 0))
        parts["values"].append(nodes.values[own])
        roots.append(roots[-1] + int(last - first))
        leaves += len(own)
    joined = {name: np.concatenate(each) for name, each in parts.items() if each}
    return replace(ensemble, nodes=Nodes(np.array(roots), sets=nodes.sets, **joined))


def all_cells(one, other, *, single, missing=True):
    """Return an input of every cell that the questions of both make, gaps included."""
    columns = []
    for feature in range(FEATURES):
        near = [np.zeros(1)]
        has_categories = False
        for ensemble in (one, other):
            nodes = ensemble.nodes
            at = nodes.feature == feature
            has_categories |= bool((nodes.set[at] >= 0).any())
            near.append(nodes.threshold[at & (nodes.set < 0)])
        values = np.concatenate(near)
        if has_categories:
            found = np.arange(9.0)
        elif single:
            short = values.astype(np.float32)
            ends = np.array([-9e9, 9e9], np.float32)
            beside = [np.nextafter(short, np.float32(each)) for each in (np.inf, -np.inf)]
            found = np.concatenate((short, *beside, ends))
        else:
            found = np.concatenate((
                values, np.nextafter(values, np.inf), np.nextafter(values, -np.inf), [-9e9, 9e9]
            ))  # fmt: skip
        found = np.unique(found.astype(np.float64))
        columns.append(np.append(found, np.nan) if missing else found)
    return np.array(list(product(*columns)))


def exact_gap(one, other, X):
    """Return how far exact sums are apart at inputs, shape (rows,), tree by tree."""
    sums = []
    for ensemble in (one, other):
        picked = ensemble.nodes.values[ensemble.nodes.leaves(X)]
        sums.append((picked.sum(axis=1) + ensemble.base) / ensemble.divisor)
    return np.abs(sums[0] - sums[1]).max(axis=1)
