"""Regions of a claim's points in a node, and its bounds on each network's neurons."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.joint_claim import JointClaim
from leaveout.bab.native.nodes import Node
from leaveout.bab.native.space import Space
from leaveout.encoders import Box, Interval

Floats = NDArray[np.float64]

_ROOM = 1e-9
"""Of the terms of a sum, which may cancel."""


class PointRegions:
    """Reader of nodes of a claim."""

    def __init__(self, claim: JointClaim, space: Space) -> None:
        self._claim, self._space = claim, space

    def joint(self, node: Node) -> tuple[list[Fraction], list[Fraction]]:
        """Return the node's exact range of the joint input, shifted back, in the box."""
        origin, box = self._space.origin, self._claim.joint.box
        low, high = (
            [Fraction(v) + Fraction(o) for v, o in zip(ends.tolist(), origin.tolist(), strict=True)]
            for ends in (node.lower, node.upper)
        )
        lower = [max(v, Fraction(end)) for v, end in zip(low, box.lower.tolist(), strict=True)]
        upper = [min(v, Fraction(end)) for v, end in zip(high, box.upper.tolist(), strict=True)]
        return lower, list(map(max, lower, upper))

    def boxes(self, node: Node, *, room: bool = True) -> list[Box]:
        """Return the box of each point."""
        claim, origin = self._claim, self._space.origin
        low = np.nextafter(node.lower + origin, -np.inf)
        high = np.nextafter(node.upper + origin, np.inf)
        boxes = []
        for (matrix, copies), whole in zip(self._matrices, claim.query.points, strict=True):
            up, down = np.maximum(matrix, 0.0), np.minimum(matrix, 0.0)
            least, most = up @ low + down @ high, up @ high + down @ low
            more = _ROOM * (np.abs(matrix) @ np.maximum(np.abs(low), np.abs(high)))
            if not room:
                more[copies] = 0.0
            least = np.minimum(np.maximum(least - more, whole.lower), whole.upper)
            boxes.append(Box(least, np.maximum(np.minimum(most + more, whole.upper), least)))
        return boxes

    @cached_property
    def _matrices(self) -> list[tuple[Floats, NDArray[np.bool_]]]:
        """Return each point's matrix, and which features are single joint inputs."""
        return [
            (matrix, np.asarray((matrix != 0.0).sum(axis=1) == 1) & (matrix.max(axis=1) == 1.0))
            for matrix in self._claim.joint.points
        ]

    def hidden_bounds(self, node: Node) -> list[list[Interval]]:
        """Return a node's bounds of each application's hidden pre-activations."""
        lower, upper, above, below = node.state[:4]
        # The second network's differences lie in the band, whatever phases are tied.
        second = Interval(lower - below, upper + above)
        claim, starts = self._claim, self._space.layout.starts
        found = []
        for place, each in zip(claim.joint.places, claim.query.applications, strict=True):
            known = second if place.second else Interval(lower, upper)
            own = []
            for k, start in enumerate(place.hidden):
                first = starts[k] + start
                at = slice(first, first + each.network.stack.layers[k].width)
                own.append(Interval(known.lower[at], known.upper[at]))
            found.append(own)
        return found
