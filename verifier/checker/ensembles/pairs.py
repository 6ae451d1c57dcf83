"""Two forests from files, as roots in one pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.compiling import cached_njit
from leaveout.verifier.checker.ensembles.choosing import PLAIN, package_stamp
from leaveout.verifier.checker.ensembles.files import Answering, Exact
from leaveout.verifier.checker.ensembles.members import Members
from leaveout.verifier.checker.ensembles.node_pool import (
    Listed,
    Pool,
    answer,
    enlarge,
    is_full,
    new_pool,
    split,
)
from leaveout.verifier.checker.errors import CertificateError, RejectedError

Longs = NDArray[np.int64]

_LEAST, _MOST = 2.0**-500, 2.0**500


def every_label(one: Exact | Answering, other: Exact | Answering) -> list[Any]:
    """Return the labels of two forests, ascending."""
    if (one.classes.dtype.kind == "U") != (other.classes.dtype.kind == "U"):
        raise RejectedError("the labels of one forest are numbers, those of the other strings")
    return sorted({*one.labels, *other.labels})


def before_rounding(threshold: Floats) -> Floats:
    """Return the greatest float64 values whose float32 is at most each threshold.

    They are half way between the last float32 up to the threshold and the next one, or just below,
    since half-way values are rounded to the even neighbour.
    """
    with np.errstate(over="ignore"):
        last = threshold.astype(np.float32)
        last = np.where(last > threshold, np.nextafter(last, np.float32(-np.inf)), last)
        following = np.nextafter(last, np.float32(np.inf))
        # Beyond float32's range, rounding works as if the range continued.
        ends = [
            np.clip(each.astype(np.float64), -(2.0**128), 2.0**128) for each in (last, following)
        ]
        half = ends[0] + (ends[1] - ends[0]) / 2
        goes_left = half.astype(np.float32).astype(np.float64) <= threshold
    return np.where(goes_left, half, np.nextafter(half, -np.inf))


def _compile_put_tree(stamp: int) -> Callable[..., int]:
    """Compile with a stamp of this package's sources, which invalidates stale kernels."""

    @cached_njit(**PLAIN)
    def put_tree(
        pool: Pool, feature: NDArray[np.int32], threshold: Floats, left: NDArray[np.int32],
        right: NDArray[np.int32], shares: Floats,
    ) -> int:  # fmt: skip
        """Put a tree whose children come after their parents into a pool; return its root."""
        _ = stamp
        ids = np.empty(len(feature), np.int64)
        for node in range(len(feature) - 1, -1, -1):
            if feature[node] < 0:
                ids[node] = answer(pool, shares[node])
            else:
                below = ids[left[node]], ids[right[node]]
                ids[node] = split(pool, feature[node], threshold[node], below[0], below[1])
        return int(ids[0])

    return cast("Callable[..., int]", put_tree)


put_tree = _compile_put_tree(package_stamp())


def pair_of(one: Exact | Answering, other: Exact | Answering, listed: Listed) -> Members:
    """Return a forest and one other; labels are in the order of `every_label`.

    The forest with fewer trees is padded with trees of zero shares.
    """
    labels = every_label(one, other)
    sides = [scored_trees(each, labels) for each in (one, other)]
    count = max(map(len, sides))
    pool = new_pool(4096, len(labels), listed)
    roots = np.empty((2, count), np.int64)
    none = np.full(1, -1, np.int32)
    empty = (none, np.zeros(1), none, none, np.zeros((1, len(labels))))
    for i, trees in enumerate(sides):
        for t in range(count):
            tree = trees[t] if t < len(trees) else empty
            while is_full(pool, len(tree[0]) + 2):
                pool = enlarge(pool)
            roots[i, t] = put_tree(pool, *tree)
    return Members(pool, roots[0], roots[1:], (len(sides[0]), len(sides[1])))


_Arrays = tuple[NDArray[np.int32], Floats, NDArray[np.int32], NDArray[np.int32], Floats]


def scored_trees(forest: Exact | Answering, labels: list[Any]) -> list[_Arrays]:
    """Return trees with shares of all labels, and thresholds for unrounded values."""
    columns = [labels.index(label) for label in forest.labels]
    found = _exact(forest) if isinstance(forest, Exact) else _answering_trees(forest)
    trees = []
    for feature, threshold, left, right, own in found:
        shares = np.zeros((len(feature), len(labels)))
        shares[:, columns] = own
        most = own[feature < 0].max(axis=1)
        if not ((own[feature < 0] >= 0).all() and ((most >= _LEAST) & (most <= _MOST)).all()):
            raise CertificateError(f"{forest.path}: a leaf has invalid shares of labels")
        trees.append(
            (
                np.ascontiguousarray(feature), np.ascontiguousarray(threshold),
                np.ascontiguousarray(left), np.ascontiguousarray(right), shares,
            )
        )  # fmt: skip
    return trees


def _exact(forest: Exact) -> list[_Arrays]:
    trees = []
    for i, tree in enumerate(forest.trees):
        inner, place = tree.feature >= 0, np.arange(len(tree.feature))
        sizes = tree.counts.astype(np.int64).sum(axis=1)
        if (
            (tree.feature >= forest.features).any()
            or any(
                (each[inner] <= place[inner]).any() or (each[inner] >= len(place)).any()
                for each in (tree.left, tree.right)
            )
            or not (tree.threshold < np.inf).all()
            or (tree.counts < 0).any()
            or ((sizes < 1).any() and len(place) > 1)
        ):
            raise CertificateError(f"{forest.path}: tree {i} is malformed")
        shares = tree.counts / np.maximum(sizes, 1)[:, None]
        shares[sizes == 0] = 1.0 / tree.counts.shape[1]
        trees.append((tree.feature, tree.threshold, tree.left, tree.right, shares))
    return trees


def _answering_trees(forest: Answering) -> list[_Arrays]:
    """Return the trees of a forest that only answers, with unrounded thresholds."""
    threshold = before_rounding(forest.threshold) if forest.rounds_inputs else forest.threshold
    ends = zip(forest.roots[:-1].tolist(), forest.roots[1:].tolist(), strict=True)
    return [
        (
            forest.feature[a:b], threshold[a:b], forest.left[a:b], forest.right[a:b],
            forest.shares[a:b],
        )
        for a, b in ends
    ]  # fmt: skip
