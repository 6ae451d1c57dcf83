"""Split sets of members into two clusters of close networks, in the same way every time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.native.layout import layout_of
from leaveout.bab.native.space import Others
from leaveout.models import Stack

__all__ = ["Clusters", "make_clusters"]

Floats = NDArray[np.float64]
Members = NDArray[np.int64]

_SKETCH = 32
_POWER = 8
_LLOYD = 6


class Clusters:
    """Two-means on a random sketch of the members' parameters.

    Parameters
    ----------
    sketch : ndarray of float64, shape (members, columns)
        Random projections keep distances between members well enough to cluster them
        (Johnson and Lindenstrauss).
    """

    def __init__(self, sketch: Floats) -> None:
        self._sketch = sketch

    def split(self, group: Members) -> tuple[Members, Members]:
        """Split a set of at least two members into two that are not empty."""
        rows = self._sketch[group]
        rows = rows - rows.mean(axis=0)
        direction = np.linspace(1.0, 2.0, rows.shape[1])
        for _ in range(_POWER):
            direction = rows.T @ (rows @ direction)
            size = float(np.linalg.norm(direction))
            if size == 0.0:
                break
            direction = direction / size
        side = rows @ direction > 0.0
        for _ in range(_LLOYD):
            if side.all() or not side.any():
                break
            one, two = rows[side].mean(axis=0), rows[~side].mean(axis=0)
            side = ((rows - one) ** 2).sum(axis=1) < ((rows - two) ** 2).sum(axis=1)
        if side.all() or not side.any():
            side = np.arange(len(group)) < len(group) // 2
        return group[side], group[~side]


def make_clusters(first: Stack, members: Others, seed: int) -> Clusters:
    """Sketch the parameters of all members, some at a time, less those of the first network."""
    layout = layout_of(first)
    rng = np.random.default_rng(seed)
    size = layout.weights + int(layout.starts[-1])
    columns = rng.standard_normal((size, min(_SKETCH, size)))
    own = np.concatenate([layout.weights_of(first), layout.biases_of(first)], axis=1)
    count = len(members)
    sketch = np.empty((count, columns.shape[1]))
    for chosen, taken in members.chunks(np.arange(count, dtype=np.int64)):
        rows = np.concatenate([layout.weights_of(taken), layout.biases_of(taken)], axis=1)
        sketch[chosen] = (rows - own) @ columns
    return Clusters(sketch)
