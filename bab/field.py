"""What the witness search for one label shares: N in float32, starts, and scores of all members."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.anneal import layer_sizes
from leaveout.bab.climb import Pairs
from leaveout.bab.instance import Instance
from leaveout.bab.pairs import Nets, evaluate, leads
from leaveout.deadline import Deadline

__all__ = ["Field", "make_field"]

Floats = NDArray[np.floating[Any]]
Indices = NDArray[np.int64]

_NEWTON = 6
_HELD = 2**21
"""Most parameters of members that are lowered at once."""
_CACHED = 2**18
"""Most activations of a layer that are computed at once."""
_MARGIN = 2e-6
"""Of climbs in float32, relative to the scores."""


@dataclass(frozen=True, eq=False)
class Field:
    """One label's question, laid out for the search.

    Attributes
    ----------
    instance : Instance
    label : int
    network : Nets
        N in float32.
    lower, upper : ndarray of float32, shape (d,)
    sizes : tuple of float
        Typical pre-activations of each layer.
    scale : float
        Typical score.
    """

    instance: Instance
    label: int
    network: Nets
    lower: Floats
    upper: Floats
    sizes: tuple[float, ...]
    scale: float

    @property
    def parameters(self) -> int:
        """Numbers a network."""
        layers = self.instance.network.stack.layers
        return sum(y.bias.size + sum(w.size for w in y.weights.values()) for y in layers)

    def members(self, chosen: Indices) -> Nets:
        """Return some of the members in float32."""
        return Nets.of(self.instance.members.take(chosen), np.float32)

    def values(self, points: Floats) -> Floats:
        """N's confidence at points, shape (p, d)."""
        return leads(self.network.activations(points[None])[-1][0], self.label)

    def pairs(self, members: Nets, points: Floats) -> Pairs:
        """Return what is climbed from points, shape (m, p, d): discrete features stay fixed."""
        margin = _MARGIN * self.scale
        return Pairs.of(self.instance.box, self.label, self.network, members, points, margin)

    def relaxed(self, members: Nets) -> Pairs:
        """Return what is climbed where discrete features may take any value."""
        return Pairs(
            self.network, members, self.label, self.lower, self.upper, _MARGIN * self.scale
        )

    def nearest(self, points: Floats) -> Floats:
        """Move to the nearest points of the box, shape (..., d)."""
        return self.instance.box.nearest(points.astype(np.float64)).astype(np.float32)

    def boundary(self, points: Floats) -> Floats:
        """Move by Newton steps onto, or near, N's decision boundary; the nearest come first."""
        for _ in range(_NEWTON):
            here = evaluate(self.network, points[None], self.label)
            slope = here.slope[0]
            size = np.square(slope).sum(axis=1)
            step = here.value[0] / np.where(size > 0, size, 1)
            points = np.clip(points - step[:, None] * slope, self.lower, self.upper)
        away = np.abs(self.values(points))
        return points[np.argsort(away, kind="stable")]

    def leads(self, points: Floats, members: Indices, deadline: Deadline) -> Floats:
        """Confidence of members at points they share.

        Parameters
        ----------
        points : ndarray of float32, shape (p, d)
        members : ndarray of int64, shape (m,)
        deadline : Deadline
            Members not reached by then get ``inf``: they do not leak.

        Returns
        -------
        ndarray of float32, shape (m, p)
        """
        found = np.full((len(members), len(points)), np.inf, np.float32)
        for start, nets in self._blocks(members, len(points)):
            if deadline.over:
                break
            scores = nets.activations(points[None])[-1]
            found[start : start + len(nets)] = leads(scores, self.label)
        return found

    def _blocks(self, members: Indices, points: int) -> Iterator[tuple[int, Nets]]:
        """Members in runs that fit the cache, lowered in larger ones."""
        held = max(1, _HELD // self.parameters)
        widest = max(layer.width for layer in self.instance.network.stack.layers)
        run = max(1, _CACHED // (max(points, 1) * widest))
        for start in range(0, len(members), held):
            nets = self.members(members[start : start + held])
            for first in range(0, len(nets), run):
                yield start + first, nets.part(first, first + run)


def make_field(instance: Instance, label: int, points: Floats) -> Field:
    """Lay out a question; ``points``, shape (p, d), tell typical sizes."""
    network = Nets.of(instance.network.stack, np.float32)
    sample = points.astype(np.float32)
    scores = network.activations(sample[None])[-1]
    return Field(
        instance,
        label,
        network,
        instance.box.lower.astype(np.float32),
        instance.box.upper.astype(np.float32),
        layer_sizes(network, sample),
        1.0 + float(np.abs(scores).max()),
    )
