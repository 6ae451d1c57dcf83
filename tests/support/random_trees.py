"""Random small ensembles of trees, and every point at which their answers can change."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.encoders.box import Box
from leaveout.kernel.trees import Ensemble, Nodes

CUTS = np.array([0.5, 1.0, 1.5, 2.0])
"""The thresholds of all trees."""

VALUES = (-1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
"""A number of every cell between them, and every threshold."""


def random_ensemble(
    rng: np.random.Generator, features: int, trees: int, depth: int, scores: int,
    *, categories: Sequence[int] = (), labels: tuple[str, ...] = (), single: bool = False,
    divisor: int = 1, ordered: bool = True,
) -> Ensemble:  # fmt: skip
    """Return trees that split at `CUTS`; some features are asked for categories 0 to 2."""
    rows: list[tuple[int, float, bool, int]] = []
    left, right, roots, leaves = list[int](), list[int](), [0], 0

    def grow(levels: int) -> int:
        nonlocal leaves
        at = len(rows)
        rows.append((-1, 0.0, False, -1))
        left.append(leaves)
        right.append(-1)
        if levels == 0 or rng.random() < 0.15:
            leaves += 1
            return at
        feature = int(rng.integers(features))
        which = int(rng.integers(4)) if feature in categories else -1
        cut = -np.inf if which >= 0 else float(rng.choice(CUTS))
        rows[at] = (feature, cut, bool(rng.integers(2)), which)
        left[at], right[at] = grow(levels - 1), grow(levels - 1)
        return at

    for _ in range(trees):
        grow(depth)
        roots.append(len(rows))
    feature, threshold, missing, sets = (np.array(each) for each in zip(*rows, strict=True))
    threshold = np.where(sets >= 0, np.finfo(np.float64).max, threshold)
    values = rng.choice([-1.0, -0.5, 0.25, 0.5, 1.0, 2.0], (leaves, scores))
    values = values * rng.choice([1.0, 0.1])
    base = np.round(rng.normal(size=scores), 1)
    if single:
        values, base = (each.astype(np.float32).astype(np.float64) for each in (values, base))
    nodes = Nodes(
        np.array(roots), feature.astype(np.int32), threshold, missing, sets.astype(np.int32),
        np.array(left), np.array(right), rng.integers(0, 2, (4, 4)).astype(bool), values,
    )  # fmt: skip
    nodes.check(features)
    return Ensemble(
        nodes, base, labels, features, divisor=divisor, single=single, ordered=ordered
    )  # fmt: skip


def every_point(
    boxes: Sequence[Box], missing: Sequence[NDArray[np.bool_]], most: int
) -> tuple[Floats, ...] | None:  # fmt: skip
    """Return points, one of every cell of each box with all of the others; None if too many."""
    axes: list[list[float]] = []
    for box, flags in zip(boxes, missing, strict=True):
        for i in range(box.dimension):
            known = [v for v in VALUES if box.lower[i] <= v <= box.upper[i]]
            for each in box.choices:
                for k in np.flatnonzero(each.columns == i):
                    known = np.unique(each.values[:, k]).tolist()
            axes.append(known + [np.nan] * bool(flags[i]))
    if math.prod(map(len, axes)) > most:
        return None
    grid = np.stack([each.ravel() for each in np.meshgrid(*axes, indexing="ij")], 1)
    ends = np.cumsum([0, *(box.dimension for box in boxes)])
    found = tuple(grid[:, a:b] for a, b in itertools.pairwise(ends))
    inside = np.ones(len(grid), np.bool_)
    for x, box in zip(found, boxes, strict=True):
        # A missing value is in the set whatever the box says of its feature.
        filled = np.where(np.isnan(x), box.lower, x)
        for each in box.choices:
            absent = np.isnan(x[:, each.columns]).any(axis=1)
            filled[np.ix_(absent, each.columns)] = each.values[0]
        inside &= box.contains(filled)
    return tuple(x[inside] for x in found)
