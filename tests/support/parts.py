"""Rows to divide into parts, learners that are fast on them, and the command that divides."""

from __future__ import annotations

import csv

import numpy as np
from sklearn.datasets import load_breast_cancer

from leaveout.models.votes import make_learner
from leaveout.verifier.cli.app import run

TREE = make_learner("DecisionTreeClassifier", {"max_depth": 3})
LINEAR = make_learner("LogisticRegression")


def cancer(rows=300, seed=None):
    """Return training and test rows; with a seed, the training rows in another order."""
    X, y = load_breast_cancer(return_X_y=True)
    order = np.arange(rows)
    if seed is not None:
        order = np.random.default_rng(seed).permutation(rows)
    return X[order], y[order], X[400:], y[400:]


def write_table(path, X, y, seed=None):
    """Write a CSV with two numeric columns and one of words."""
    order = np.arange(len(X))
    if seed is not None:
        order = np.random.default_rng(seed).permutation(len(X))
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["radius", "kind", "texture", "label"])
        for row in order:
            kind = "small" if X[row, 0] < 13 else "large" if X[row, 0] < 17 else "huge"
            writer.writerow([X[row, 0], kind, X[row, 1], ["bad", "good"][y[row]]])


def invoke(capsys, *words):
    """Run ``leaveout partition``; return its exit code, and what it wrote."""
    code = run(["partition", *map(str, words)])
    return code, *capsys.readouterr()
