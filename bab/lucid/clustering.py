"""Clustering of a set of members by similar networks (LUCID, section 6.1)."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from leaveout.models import Members as Networks

Floats = NDArray[np.float64]
Members = NDArray[np.int64]

_MOST = 8
_LARGEST_SAMPLE = 2**24
_DIRECTIONS = 128
_SEED = 0


def features(networks: Networks, members: Members) -> Floats:
    """Return the features that clusters are based on, one row per member.

    All parameters, or 128 random sums of more than 2**24 (Achlioptas 2003). They steer the search;
    no bound rests on them.
    """
    if len(members) * networks.size <= _LARGEST_SAMPLE or networks.size <= _DIRECTIONS:
        return networks.take(members).flat()
    from sklearn.random_projection import SparseRandomProjection

    # The seed is fixed, so that a set is described alike whenever it is split.
    projection = SparseRandomProjection(_DIRECTIONS, dense_output=True, random_state=_SEED)
    projection.fit(np.zeros((1, networks.size)))
    return np.concatenate(
        [projection.transform(stack.flat()) for _, stack in networks.chunks(members)]
    )


def partition(parameters: Floats, members: Members, seed: int = 0) -> list[Members]:
    """Split a set by k-means over all parameters, with k at the inertia's elbow.

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
    """Return the position, at least 1, farthest below the chord of a falling curve."""
    curve = np.asarray(inertia)
    chord = np.linspace(curve[0], curve[-1], len(curve))
    below = chord - curve
    return max(1, int(np.argmax(below))) if np.any(below > 0) else 1
