"""Bound what float32 evaluation may change within a node's region, where that matters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leaveout.bab.instance import Instance
from leaveout.bab.native.nodes import Node
from leaveout.bab.native.pairs import Pairs
from leaveout.bab.witness import Witness
from leaveout.encoders import Box, Interval, evaluation_of, network_bounds
from leaveout.models import lower

__all__ = ["ROOM", "SMALL_REGION", "blur_at", "gauged"]

ROOM = 1.0 + 1e-6
"""Errors are taken so much larger, for a checker whose own analysis rounds in another way."""

SMALL_REGION = 0.02
"""Widest input of a region that float32 evaluation may keep open."""

_MATTERS = 8.0
"""Errors are bounded anew where they are more than one in so many of what keeps a node open."""

_NARROWER = 0.7
"""... and the region has shrunk this much since they last were."""


def gauged(pairs: Pairs, node: Node, label: int, target: float) -> Node:
    """Return a node with evaluation errors of its own region, where they may help.

    What rounding may do to a lead there is less than over the box: activations are smaller, and
    most phases above a sum are known (`leaveout.encoders.Evaluation`).
    """
    width = float((node.upper - node.lower).mean())
    # Goals have one error in common; the condition is the last form.
    known = float(node.errors[0]) + float(node.errors[-1])
    if (
        len(node.members) > 1
        or width > _NARROWER * node.gauged
        or node.value - target > _MATTERS * known
    ):
        return node
    instance = pairs.instance
    low, high = node.lower + pairs.origin, node.upper + pairs.origin
    room = 1e-9 * (np.abs(low) + np.abs(high))
    box = Box(low - room, high + room)
    lower, upper, above, below = node.state[0], node.state[1], node.state[2], node.state[3]
    starts = pairs.layout.starts
    own, other = [], []
    for k in range(pairs.layout.layers - 1):
        at = slice(starts[k], starts[k + 1])
        own.append(Interval(lower[at], upper[at]))
        # The member's difference lies in the band, whatever phases are tied.
        other.append(Interval(lower[at] - below[at], upper[at] + above[at]))
    rivals = [c for c in range(instance.labels) if c != label]
    error = pairs.evaluation(None).lead_error(own, box, label, rivals)
    tie = pairs.evaluation(int(node.members[0])).lead_error(other, box, label, [rivals[node.case]])
    errors = np.full_like(node.errors, ROOM * error)
    errors[-1] = ROOM * tie
    return replace(node, errors=np.minimum(node.errors, errors), gauged=width)


def blur_at(instance: Instance, witness: Witness) -> float:
    """Return how far float32 evaluation of N and of the member may shift a bound near a witness."""
    near = witness.x.astype(np.float64)
    box = Box(
        np.maximum(near - SMALL_REGION / 2, instance.box.lower),
        np.minimum(near + SMALL_REGION / 2, instance.box.upper),
    )
    network = instance.network
    label, rivals = witness.label, [c for c in range(instance.labels) if c != witness.label]
    leads = np.array([witness.member_scores[c] for c in rivals])
    own = {name: value[None] for name, value in network.parameters.items()}
    other = instance.family.take([witness.member])
    total = 0.0
    for parameters, over in ((own, rivals), (other, [rivals[int(np.argmax(leads))]])):
        bounds = network_bounds(lower(network.graph, parameters), box)
        total += evaluation_of(network.graph, parameters).lead_error(bounds, box, label, over)
    return total
