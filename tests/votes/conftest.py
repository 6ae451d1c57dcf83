"""Files to divide into parts, as arrays and as a table."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer


@pytest.fixture
def arrays(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    path = tmp_path / "cancer.npz"
    np.savez(path, X_train=X[:300], y_train=y[:300], X_test=X[300:], y_test=y[300:])
    return path


@pytest.fixture
def table(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    path = tmp_path / "cancer.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["radius", "texture", "answer"])
        writer.writerows([a, b, ["bad", "good"][label]] for (a, b), label in zip(X[:, :2], y))
    return path
