"""Bound what float32 evaluation may change within a node's region, where that matters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leaveout.bab.native.nodes import Node
from leaveout.bab.native.pairs import Pairs
from leaveout.encoders import Box, Interval, confidence_error

__all__ = ["ROOM", "gauged"]

ROOM = 1.0 + 1e-6
"""Errors are taken so much larger, for a checker whose own analysis rounds in another way."""

_MATTERS = 8.0
"""Errors are bounded anew where they are more than one in so many of what keeps a node open."""

_NARROWER = 0.7
"""... and the region has shrunk this much since they last were."""


def gauged(pairs: Pairs, node: Node, target: float) -> Node:
    """Return a node with evaluation errors of its own region, where they may help.

    The running error analysis of `confidence_error` charges every sum with the magnitudes the
    activations can have, and these are smaller in a part of the box.
    """
    width = float((node.upper - node.lower).mean())
    errors = node.error + node.tie
    if (
        len(node.members) > 1
        or width > _NARROWER * node.gauged
        or node.value - target > _MATTERS * errors
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
    network = instance.network
    alone = {name: value[None] for name, value in network.parameters.items()}
    error = confidence_error(network.graph, alone, own, box)
    tie = confidence_error(network.graph, instance.family.take([int(node.members[0])]), other, box)
    return replace(
        node,
        error=min(node.error, ROOM * error),
        tie=min(node.tie, ROOM * tie),
        gauged=width,
    )
