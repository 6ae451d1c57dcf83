"""Random data with ties, constants and duplicates, and random deletions and additions on it."""

from __future__ import annotations

from itertools import product

import numpy as np

from leaveout.models.forest import DareForestClassifier

SIZES = (2, 3, 8, 40, 130, 300, 700)


def random_data(rng, sizes=SIZES):
    """Rows and labels: two-valued, constant, few-valued, distinct, rounded and huge attributes.

    Some values are missing, and some rows are copies of others.
    """
    n, p = int(rng.choice(sizes)), int(rng.integers(1, 7))
    X = np.empty((n, p))
    columns = (
        lambda: rng.integers(0, 2, n),
        lambda: np.full(n, 3.0),
        lambda: rng.integers(-3, 4, n),
        lambda: rng.random(n),
        lambda: rng.normal(size=n).round(1),
        lambda: rng.integers(-n, n + 1, n) * 1e200,
        lambda: np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n).round(1)),
        lambda: np.where(rng.random(n) < 0.5, np.nan, 1.0),
    )
    for j in range(p):
        X[:, j] = columns[rng.integers(len(columns))]()
    if rng.random() < 0.3:
        X = X[rng.integers(0, n, n)]
    y = rng.integers(0, int(rng.integers(1, 5)), n)
    if rng.random() < 0.5:
        first = np.nan_to_num(X[:, 0])
        y = (first + rng.normal(size=n) * 0.3 > np.median(first)).astype(int)
    return X, y


def random_forest(rng, p, **settings):
    """An untrained forest of a few trees with random settings."""
    chosen = {
        "n_estimators": int(rng.integers(2, 5)),
        "max_depth": [None, 1, 3, 8, 20][rng.integers(5)],
        "k": int(rng.choice([1, 2, 5, 20])),
        "d_rmax": int(rng.choice([0, 0, 1, 3])),
        "max_features": int(rng.integers(1, p + 1)),
        "criterion": ["gini", "entropy"][rng.integers(2)],
        "min_samples_split": int(rng.choice([2, 2, 5])),
        "random_state": int(rng.integers(2**32)),
        "q": float(rng.choice([1.0, 1.0, 0.1, 0.3, 0.5])),
        "lazy": bool(rng.integers(2)),
    }
    return DareForestClassifier(**(chosen | settings))


def new_rows(rng, X, labels):
    """A few rows to add: copies of rows, some of them moved."""
    m = int(rng.integers(1, 4))
    rows = X[rng.integers(0, len(X), m)].copy()
    if rng.random() < 0.3:
        rows += rng.normal(size=rows.shape).round(1)
    return rows, rng.choice(labels, m)


def some_rows(rng, forest, most=8):
    """Rows to delete, at least one of which is left."""
    rows = forest.rows_
    return rng.choice(rows, min(len(rows) - 1, int(rng.integers(1, most + 1))), replace=False)


def corners(forests, lower, upper):
    """Return an input from every cell that the thresholds of some forests cut a box into."""
    sides = []
    for at in range(len(lower)):
        cuts = {
            float(threshold)
            for forest in forests
            for tree in forest.ensemble().trees
            for threshold in tree.threshold[tree.feature == at]
        }
        inside = [cut for cut in cuts if lower[at] <= cut < upper[at]]
        sides.append([*inside, float(upper[at])])
    return np.array(list(product(*sides)))
