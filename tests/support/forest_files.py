"""Forests in a folder, and a specification with every kind of statement about their answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from leaveout.models.forest import DareForestClassifier, from_sklearn

SPEC = """
let T = forest("forest.npz")
let U = forest("other.npz")
let K = forest("learnt.npz")
let F = leave_one_out(T)
let X = integers(box([0, 0, 0], [3, 1, 1]), at = 0)
find bound: least b per label such that
    forall x in X, M in F: confidence(T, x) > b => label(M, x) == label(T, x)
guarantee sure: forall x in X, M in F: confidence(T, x) > 0.95 => label(M, x) == label(T, x)
find apart: least b such that forall x in X: confidence(T, x) > b => label(U, x) == label(T, x)
find learnt: least b such that forall x in X: confidence(T, x) > b => label(K, x) == label(T, x)
guarantee alike: same_function(T, forest("copy.npz"), X)
guarantee differ: same_function(T, U, X)
"""


def rows():
    rng = np.random.default_rng(7)
    X = np.column_stack((rng.integers(0, 4, 50), rng.random((50, 2)).round(2)))
    y = (X[:, 0] + 2 * X[:, 1] + rng.normal(size=50) * 0.5 > 2.5).astype(int)
    return X, y


def write_forests(folder: Path) -> None:
    """Write the forests that `SPEC` names: one, its copy, one without two rows, a learnt one."""
    X, y = rows()
    trained = DareForestClassifier(8, k=5, max_depth=4, random_state=0).fit(X, y)
    trained.save(folder / "forest.npz")
    trained.save(folder / "copy.npz")
    trained.unlearn([3, 9]).save(folder / "other.npz")
    learnt = RandomForestClassifier(5, max_depth=3, n_jobs=1, random_state=0).fit(X, y)
    from_sklearn(learnt).save(folder / "learnt.npz")
