"""Bounds of the float32 evaluation error within a node's region, where it matters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leaveout.arrays import Floats
from leaveout.bab.instance import Instance
from leaveout.bab.native.nodes import Node
from leaveout.bab.native.space import Space
from leaveout.bab.witness import Witness
from leaveout.encoders import Box, Interval, rounding_error

_ROOM = 1.0 + 1e-3
"""Errors are taken so much larger: regions and roundings of a checker differ by a little."""

_SHARE = 1e-6
"""... and at least this share of those over everything: a checker's float64 rounds otherwise."""

_UNDERFLOW = 1e-30
"""... and larger by this: what is lost to underflow the two count in different places."""

SMALL_REGION = 0.02
"""Widest input of a region that float32 evaluation may keep open."""

_MATTERS = 8.0
"""Errors are bounded anew where they are more than one in so many of what keeps a node open."""

_NARROWER = 0.7
"""... and the region has shrunk this much since they last were."""


class LeakRounding:
    """Evaluation error bounds of leaks over a node's own region, where useful.

    They are smaller than over the box: activations are smaller, and most phases are known
    (`leaveout.encoders.RoundingError`).
    """

    def __init__(self, instance: Instance, label: int, space: Space) -> None:
        self._instance, self._label, self._space = instance, label, space

    def __call__(self, node: Node, target: float) -> Node:
        """Return the node with its own region's errors, where these may help."""
        width = float((node.upper - node.lower).mean())
        # Goals have one error in common; the condition is the last form.
        known = float(node.errors[0]) + float(node.errors[-1])
        if (
            len(node.members) > 1
            or width > _NARROWER * node.rounding_width
            or node.value - target > _MATTERS * known
        ):
            return node
        space, label = self._space, self._label
        low, high = node.lower + space.origin, node.upper + space.origin
        room = 1e-9 * (np.abs(low) + np.abs(high))
        box = Box(low - room, high + room)
        lower, upper, above, below = node.state[0], node.state[1], node.state[2], node.state[3]
        starts = space.layout.starts
        own, other = [], []
        for k in range(space.layout.layers - 1):
            at = slice(starts[k], starts[k + 1])
            own.append(Interval(lower[at], upper[at]))
            # The member's difference lies in the band, whatever phases are tied.
            other.append(Interval(lower[at] - below[at], upper[at] + above[at]))
        rivals = [c for c in range(self._instance.labels) if c != label]
        instance = self._instance
        found = rounding_error(instance.own.evaluation(), own, box)
        errors = np.full_like(node.errors, found.of_margins(label, rivals))
        found = rounding_error(instance.others.evaluation(int(node.members[0])), other, box)
        errors[-1] = found.of_margins(label, [rivals[node.case]])
        whole = np.full_like(errors, instance.network_error)
        whole[-1] = instance.member_error
        errors = with_room(errors, node.errors, whole)
        return replace(node, errors=errors, rounding_width=width)


def with_room(errors: Floats, before: Floats, whole: Floats) -> Floats:
    """Return errors with margin for the checker, where they improve on the earlier ones."""
    return np.minimum(before, np.maximum(_ROOM * errors, _SHARE * whole) + _UNDERFLOW)


def rounding_near(instance: Instance, witness: Witness) -> float:
    """Return how far float32 evaluation may shift a bound near a witness."""
    near = witness.x.astype(np.float64)
    box = Box(
        np.maximum(near - SMALL_REGION / 2, instance.box.lower),
        np.minimum(near + SMALL_REGION / 2, instance.box.upper),
    )
    label, rivals = witness.label, [c for c in range(instance.labels) if c != witness.label]
    second = max(rivals, key=lambda c: float(witness.member_scores[c]))
    return instance.own.rounding(box).of_margins(label, rivals) + instance.others.rounding(
        box, witness.member
    ).of_margins(label, [second])
