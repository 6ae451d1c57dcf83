"""Inputs on which readers of trees go wrong first: at thresholds, beside them, missing, huge."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.kernel.trees import Ensemble

PLAIN = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0**24, 1e-46, -1e-46, 1e-45, 1e-35, -1e-35, 1e-300, 1e30)
"""Numbers of which some library makes a case of its own."""


def hard_inputs(
    ensemble: Ensemble,
    rng: np.random.Generator,
    rows: int,
    *,
    missing: bool = True,
    huge: float = 3e38,
) -> NDArray[np.float64]:
    """Return inputs of which each value is random, or at a threshold or next to one.

    Parameters
    ----------
    ensemble : Ensemble
    rng : numpy.random.Generator
    rows : int
    missing : bool
        Whether a tenth of the values are missing.
    huge : float
        The largest number.
    """
    nodes = ensemble.nodes
    X = np.zeros((rows, ensemble.features))
    for feature in range(ensemble.features):
        mine = nodes.feature == feature
        column = rng.normal(size=rows) * 10.0 ** rng.integers(-6, 7, rows)
        near = rng.random(rows) < 0.7
        if (nodes.set[mine] >= 0).any():
            points = _categories(nodes.sets.shape[1])
            near[:] = True
        else:
            points = _around(np.concatenate((np.unique(nodes.threshold[mine]), PLAIN)))
            points = np.concatenate((points, (huge, -huge)))
        points = points[np.abs(points) <= huge]
        column[near] = rng.choice(points, int(near.sum()))
        X[:, feature] = column
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X


def _around(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return points, and both neighbours of each among float64 and among float32 values."""
    with np.errstate(over="ignore"):
        single = points.astype(np.float32)
        parts: list[Any] = [points, single]
        for end in (-np.inf, np.inf):
            parts += [np.nextafter(points, end), np.nextafter(single, np.float32(end))]
    return np.concatenate([each.astype(np.float64) for each in parts])


def _categories(width: int) -> NDArray[np.float64]:
    """Return categories, known and unknown, and numbers that are none."""
    whole = np.arange(width + 1.0)
    odd = (-0.0, -0.5, -1.0, -1.5, -1e-46, 1e9, 2.0**24, 2.0**31, 2.0**33, 1e30, -1e30)
    return np.concatenate((whole, whole + 0.5, np.nextafter(whole, -np.inf), odd))
