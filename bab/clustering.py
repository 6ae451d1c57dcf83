"""Partition a set of members into clusters of close networks (LUCID, section 6.1)."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

__all__ = ["elbow", "partition"]

Floats = NDArray[np.float64]
Members = NDArray[np.int64]

_MOST = 8


def partition(parameters: Floats, members: Members, seed: int = 0) -> list[Members]:
    """Split a set by k-means over all parameters, k chosen by the elbow of the inertia.

    Parameters
    ----------
    parameters : ndarray of float64, shape (len(members), parameters)
        One row a member, in the order of ``members``.
    members : ndarray of int64
        At least two.
    seed : int

    Returns
    -------
    list of ndarray of int64
        At least two non-empty sets that partition ``members``.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    rows = parameters - parameters.mean(axis=0)
    most = min(_MOST, len(members))
    fits = []
    with warnings.catch_warnings():
        # Fewer distinct networks than clusters is answered below, not worth a warning.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for k in range(1, most + 1):
            fits.append(KMeans(k, n_init=2, random_state=seed).fit(rows))
    labels = fits[elbow([float(fit.inertia_) for fit in fits])].labels_
    groups = [members[labels == k] for k in np.unique(labels)]
    if len(groups) < 2:
        half = len(members) // 2
        groups = [members[:half], members[half:]]
    return groups


def elbow(inertia: list[float]) -> int:
    """Return the position, at least 1, farthest below the chord of a falling curve.

    Parameters
    ----------
    inertia : list of float
        Of k-means with 1, 2, ... clusters; at least two.
    """
    curve = np.asarray(inertia)
    chord = np.linspace(curve[0], curve[-1], len(curve))
    below = chord - curve
    return max(1, int(np.argmax(below))) if np.any(below > 0) else 1
