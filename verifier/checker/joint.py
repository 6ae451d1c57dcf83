"""Networks at points as two networks, or one, at one joint input.

The joint input is (x, y, ...), or (x, y - x) where the second of two points is laid out as its
difference from the first. Nothing is rounded: weights are moved, not computed with.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from leaveout.arrays import Floats, Integers
from leaveout.models import Members
from leaveout.models.graph import Layer, Stack

_CHUNK = 64
"""Networks that are laid side by side together."""


@dataclass(frozen=True)
class Spot:
    """Position of a point's features in the joint input."""

    own: slice
    base: slice | None = None  # the features that the own ones are added to


@dataclass(frozen=True)
class Place:
    """Position of an application in the joint network."""

    start: int  # where its scores start
    second: bool  # whether it is of the second network
    hidden: tuple[int, ...]  # where its neurons start in each of its own hidden layers


@dataclass(frozen=True, eq=False)
class Part:
    """A network, or members, applied to a point."""

    stack: Stack  # of one network
    point: int
    members: Members | None = None


@dataclass(frozen=True, eq=False)
class Others:
    """The second network: a network, or as many as there are members."""

    parts: tuple[Part, ...]  # its parts, side by side
    spots: tuple[Spot, ...]  # of each point
    width: int  # of the joint input

    def chunks(self, members: Integers) -> Iterator[tuple[Integers, Stack]]:
        """Iterate over some networks, a few at a time, with their indices and stack."""
        for begin in range(0, len(members), _CHUNK):
            chosen = members[begin : begin + _CHUNK]
            wide = []
            for part in self.parts:
                own = part.stack if part.members is None else part.members.take(chosen)
                wide.append(_widen_inputs(own, self.spots[part.point], self.width))
            yield chosen, _side_by_side(wide, self.width, len(chosen))


@dataclass(frozen=True, eq=False)
class Joint:
    """A network and one or more networks of the same architecture, over the joint input."""

    first: Stack
    others: Others  # the second network; the first one if there is no other
    spots: tuple[Spot, ...]  # of each point
    places: tuple[Place, ...]  # of each application
    width: int  # of the joint input

    @property
    def is_pair(self) -> bool:
        """Whether the second network may differ from the first."""
        return any(place.second for place in self.places)


def join_parts(parts: Sequence[Part], widths: Sequence[int], *, near: bool) -> Joint:
    """Lay networks out over the joint input of their points.

    Two of one architecture, at most one of them a family's, are the first and the second network;
    any others are put side by side in one, and members take the places of theirs in the second.
    """
    ends = np.cumsum([0, *widths]).tolist()
    spots = [Spot(slice(a, b)) for a, b in itertools.pairwise(ends)]
    if near:
        spots[1] = Spot(spots[1].own, spots[0].own)
    total = ends[-1]
    wide = [_widen_inputs(part.stack, spots[part.point], total) for part in parts]
    plain = [a for a, part in enumerate(parts) if part.members is None]
    if len(wide) == 2 and plain and _alike(*wide):
        first = plain[0]
        others = Others((parts[1 - first],), tuple(spots), total)
        hidden = (0,) * (len(wide[first].layers) - 1)
        places = tuple(Place(0, a != first, hidden) for a in range(2))
        return Joint(wide[first], others, tuple(spots), places, total)
    depth = max(len(stack.layers) for stack in wide)
    sizes = np.array([[layer.width for layer in _deepen(each, depth).layers] for each in wide])
    # Where each starts, layer by layer; scores are the last one.
    before = np.cumsum(sizes, axis=0) - sizes
    places = tuple(
        Place(int(own[-1]), part.members is not None, tuple(own[: len(stack.layers) - 1].tolist()))
        for own, stack, part in zip(before, wide, parts, strict=True)
    )
    others = Others(tuple(parts), tuple(spots), total)
    return Joint(_side_by_side(wide, total, 1), others, tuple(spots), places, total)


def _alike(first: Stack, second: Stack) -> bool:
    return len(first.layers) == len(second.layers) and all(
        one.width == two.width and one.weights.keys() == two.weights.keys()
        for one, two in zip(first.layers, second.layers, strict=True)
    )


def _widen_inputs(stack: Stack, spot: Spot, width: int) -> Stack:
    """Return networks that read their point from the joint input."""
    layers = []
    for layer in stack.layers:
        weights = dict(layer.weights)
        if 0 in weights:
            wide = np.zeros((len(stack), layer.width, width))
            for at in (spot.own, spot.base):
                if at is not None:
                    wide[:, :, at] = weights[0]
            weights[0] = wide
        layers.append(Layer(weights, layer.bias))
    return Stack(width, tuple(layers))


def _side_by_side(stacks: Sequence[Stack], width: int, count: int) -> Stack:
    """Return networks that have the neurons of all, layer by layer.

    Each stack is of ``count`` networks, or of one for all.
    """
    depth = max(len(stack.layers) for stack in stacks)
    deep = [_deepen(stack, depth) for stack in stacks]
    layers = []
    for k in range(depth):
        parts = [stack.layers[k] for stack in deep]
        row_ends = np.cumsum([0, *(part.width for part in parts)])
        weights: dict[int, Floats] = {}
        for s in sorted({s for part in parts for s in part.weights}):
            columns = [width] if s == 0 else [stack.layers[s - 1].width for stack in deep]
            column_ends = np.cumsum([0, *columns])
            weights[s] = np.zeros((count, int(row_ends[-1]), int(column_ends[-1])))
            for i, part in enumerate(parts):
                if s in part.weights:
                    # All read the one joint input.
                    j = 0 if s == 0 else i
                    rows = slice(int(row_ends[i]), int(row_ends[i + 1]))
                    at = slice(int(column_ends[j]), int(column_ends[j + 1]))
                    weights[s][:, rows, at] = part.weights[s]
        bias = [np.broadcast_to(part.bias, (count, part.width)) for part in parts]
        layers.append(Layer(weights, np.concatenate(bias, axis=1)))
    return Stack(width, tuple(layers))


def _deepen(stack: Stack, depth: int) -> Stack:
    """Pass scores z on through more layers unchanged: z = relu(z) - relu(-z)."""
    layers = list(stack.layers)
    while len(layers) < depth:
        top = layers.pop()
        signed = {s: np.concatenate([w, -w], axis=1) for s, w in top.weights.items()}
        layers.append(Layer(signed, np.concatenate([top.bias, -top.bias], axis=1)))
        unit = np.eye(top.width)[None]
        back = np.repeat(np.concatenate([unit, -unit], axis=2), len(stack), axis=0)
        layers.append(Layer({len(layers): back}, np.zeros((len(stack), top.width))))
    return Stack(stack.inputs, tuple(layers))
