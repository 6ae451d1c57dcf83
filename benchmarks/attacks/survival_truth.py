"""Members trained again on every training set a few changes away, by definitions of their own.

Rows are (point, label) with points of whole numbers or halves, so that distances are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, pairwise, product

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from leaveout.arrays import Floats

__all__ = [
    "Row",
    "changed",
    "kernel_vote",
    "logistic_vote",
    "nearest_vote",
    "ridge_vote",
    "tree_vote",
]

Point = tuple[float, ...]
Row = tuple[Point, int]


def plurality(labels: Sequence[int]) -> int:
    """Return the label there is most of, the smaller one on a tie; 0 of none."""
    return min(labels, key=lambda label: (-labels.count(label), label), default=0)


def nearest_vote(rows: Sequence[Row], x: Point, k: int) -> int:
    """Return what all rows vote that are as near as the k-th nearest."""
    near = [sum((a - b) ** 2 for a, b in zip(row, x, strict=True)) for row, _ in rows]
    reach = sorted(near)[min(k, len(rows)) - 1] if rows else 0
    return plurality(
        [label for distance, (_, label) in zip(near, rows, strict=True) if distance <= reach]
    )


def purity(labels: Sequence[int]) -> Fraction:
    """Return the size times the sum of squared shares: Gini's index is what is missing to it."""
    return _purity(tuple(sorted(labels)))


@cache
def _purity(labels: tuple[int, ...]) -> Fraction:
    return Fraction(sum(labels.count(each) for each in labels), max(1, len(labels)))


def tree_vote(rows: Sequence[Row], x: Point, depth: int, leaf: int) -> int:
    """Return what a tree of this depth votes, grown level by level as CART does."""
    labels = [label for _, label in rows]
    best, gain = None, purity(labels)
    for feature in range(len(x)) if depth else ():
        values = sorted({point[feature] for point, _ in rows})
        for low, high in pairwise(values):
            at = (low + high) / 2
            left = [label for point, label in rows if point[feature] <= at]
            right = [label for point, label in rows if point[feature] > at]
            if min(len(left), len(right)) >= leaf and purity(left) + purity(right) > gain:
                best, gain = (feature, at), purity(left) + purity(right)
    if best is None:
        return plurality(labels)
    feature, at = best
    same = [row for row in rows if (row[0][feature] <= at) == (x[feature] <= at)]
    return tree_vote(same, x, depth - 1, leaf)


def ridge_vote(rows: Sequence[Row], x: Point, penalty: int) -> int:
    """Return what least squares with a penalty vote, of labels 0 and 1; other rows count for 0."""
    weights = _ridge_weights(tuple(point for point, _ in rows), x, penalty)
    margin = sum(
        w if label else -w for w, (_, label) in zip(weights, rows, strict=True) if label in (0, 1)
    )
    return int(margin > 0)


@cache
def _ridge_weights(points: tuple[Point, ...], x: Point, penalty: int) -> list[int]:
    """Return x' (X'X + penalty)^-1 x_j for each row, in 2**-30 of the largest (or 2**-16)."""
    if not points:
        return []
    columns = [[Fraction(value) for value in column] for column in zip(*points, strict=True)]
    ends = [(min(column), max(column)) for column in columns]

    def design(point: Sequence[float]) -> list[Fraction]:
        pairs = zip(point, ends, strict=True)
        found = [
            (Fraction(v) - low) / (high - low) if high > low else 0 for v, (low, high) in pairs
        ]
        return [*map(Fraction, found), Fraction(1)]

    X, width = [design(point) for point in points], len(x) + 1
    system = [
        [sum(row[i] * row[j] for row in X) + penalty * (i == j) for j in range(width)]
        + [design(x)[i]]
        for i in range(width)
    ]
    for i in range(width):  # Gauss and Jordan; the matrix is positive definite
        system[i] = [each / system[i][i] for each in system[i]]
        for j in range(width):
            if j != i:
                factor = system[j][i]
                pairs = zip(system[j], system[i], strict=True)
                system[j] = [a - factor * b for a, b in pairs]
    exact = [sum(row[i] * system[i][width] for i in range(width)) for row in X]
    largest = max(*map(abs, exact), Fraction(1, 2**16))
    return [round(each / largest * 2**30) for each in exact]


def kernel_vote(rows: Sequence[Row], x: Point, penalty: int, gamma: int) -> int:
    """Return what least squares with a Gaussian kernel vote, of labels 0 and 1."""
    if not rows:
        return 0
    X = np.array([point for point, _ in rows], float)
    low, span = X.min(axis=0), np.ptp(X, axis=0)
    X, at = ((each - low) / np.where(span, span, 1) * (span > 0) for each in (X, np.array(x)))
    g = gamma / (X.shape[1] * max(X.var(), 2.0**-16))
    gram = np.exp(-g * ((X[:, None] - X) ** 2).sum(axis=2))
    weights = np.linalg.solve(
        gram + penalty * np.eye(len(X)), np.exp(-g * ((at - X) ** 2).sum(axis=1))
    )
    whole = np.rint(weights / max(np.abs(weights).max(), 2.0**-16) * 2**30)
    sides = {1: 1, 0: -1}
    return int(sum(w * sides.get(own, 0) for w, (_, own) in zip(whole, rows, strict=True)) > 0)


def logistic_vote(rows: Sequence[Row], x: Point, penalty: int, labels: int) -> int:
    """Return what logistic regression votes, of more than two labels one against the others."""
    design = np.array([[*point, 1.0] for point, _ in rows]).reshape(len(rows), len(x) + 1)

    def score(label: int) -> float:
        sign = np.array([1.0 if own == label else -1.0 for _, own in rows])

        def value(t: Floats) -> tuple[float, Floats]:
            margin = sign * (design @ t)
            gradient = penalty * t - design.T @ (sign * expit(-margin))
            return np.logaddexp(0.0, -margin).sum() + penalty / 2 * (t @ t), gradient

        start = np.zeros(len(x) + 1)
        found = minimize(value, start, jac=True, method="BFGS", options={"gtol": 1e-10})
        return float(np.round(found.x @ [*x, 1.0], 7))

    if labels == 2:
        return int(score(1) > 0)
    return int(np.argmax([score(label) for label in range(labels)]))


def changed(
    rows: Sequence[Row],
    changes: int,
    against: str,
    places: Sequence[Point],
    labels: int,
    kept: bool = False,
) -> Iterator[list[Row]]:
    """Yield every training set so many changes away.

    Parameters
    ----------
    rows : sequence of Row
    changes : int
    against : {"relabels", "removals", "insertions", "edits"}
        A relabelled row may get a label that no member knows, and so be left aside.
    places : sequence of Point
        Where rows are inserted.
    labels : int
    kept : bool
        Whether a row that is left aside stays, with the label -1.
    """
    if against == "relabels":
        for chosen in combinations(range(len(rows)), changes):
            for given in product([*range(labels), None], repeat=changes):
                new = dict(zip(chosen, given, strict=True))
                after = [(point, new.get(i, label)) for i, (point, label) in enumerate(rows)]
                if kept:
                    yield [(point, -1 if label is None else label) for point, label in after]
                else:
                    yield [(point, label) for point, label in after if label is not None]
        return
    added = {"removals": [0], "insertions": [changes], "edits": range(changes + 1)}[against]
    for count in added:
        for out in combinations(range(len(rows)), changes - count):
            kept = [row for i, row in enumerate(rows) if i not in out]
            every = list(product(places, range(labels)))
            for new in combinations_with_replacement(every, count):
                yield [*kept, *new]
