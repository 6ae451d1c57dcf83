"""Several networks at several points, as two networks at one joint point."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.encoders.box import Box, Choices
from leaveout.encoders.query import Case, Condition, Query
from leaveout.kernel.joint import Place
from leaveout.models.activations import beside, same
from leaveout.models.graph import Layer, Stack
from leaveout.models.matrices import (
    Sparse,
    add,
    compose,
    dense,
    same_places,
    scale,
    settle,
    without_zeros,
)

Members = NDArray[np.int64]

_CHUNK = 64  # combinations of members that are placed side by side at a time


@dataclass(frozen=True, eq=False)
class Joint:
    """A network and others of its architecture, over a joint input."""

    first: Stack  # one network
    members: JointMembers
    box: Box
    regions: tuple[tuple[Floats, Floats], ...]
    points: tuple[Sparse, ...]  # shape (1, features, joint): each point is its matrix times u
    places: tuple[Place, ...]  # one per application

    @property
    def is_pair(self) -> bool:
        """Whether there are two different networks."""
        return any(place.second for place in self.places)

    @property
    def is_near(self) -> bool:
        """Whether the joint point includes the difference of two points."""
        return any((np.diff(point.starts) > 1).any() for point in self.points[1:])


def ends_of(point: Sparse, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return the least and greatest values of a point's features over a joint region, unpadded."""
    rows, at, values = point.rows, point.columns, point.values[0]
    count = len(point.starts) - 1
    low, high = (values * end[at] for end in (lower, upper))
    least = np.bincount(rows, np.minimum(low, high), minlength=count).astype(np.float64)
    return least, np.bincount(rows, np.maximum(low, high), minlength=count).astype(np.float64)


@dataclass(frozen=True, eq=False)
class JointMembers:
    """The second network, for a few combinations of members at a time."""

    query: Query
    points: tuple[Sparse, ...]  # as in `Joint`
    chosen: tuple[int, ...]  # the applications it is made of, side by side
    beside: Stack | None = None  # of a pair, the first network

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of members of each family."""
        return tuple(len(family) for family in self.query.families)

    def __len__(self) -> int:
        return math.prod(self.sizes)

    def indices(self, members: Members) -> tuple[Members, ...]:
        """Return each family's member in some combinations."""
        return np.unravel_index(members, self.sizes) if self.sizes else ()

    def chunks(self, indices: Members) -> Iterator[tuple[Members, Stack]]:
        """Iterate over combinations, a few at a time, with their stacks."""
        for start in range(0, len(indices), _CHUNK):
            part = indices[start : start + _CHUNK]
            yield part, self.take(part)

    def take(self, members: Members) -> Stack:
        """Return the stack of some combinations."""
        own = self.indices(members)
        stacks = []
        for a in self.chosen:
            application = self.query.applications[a]
            if application.family is None:
                stack = application.network.stack
            else:
                stack = self.query.families[application.family].take(own[application.family])
            stacks.append(_on_joint(stack, self.points[application.point]))
        if len(self.query.applications) == 1 and application.family is None:
            return _without_zeros(stacks[0])
        whole = _side_by_side(stacks, self.points[0].width, len(members))
        return whole if self.beside is None else _align(whole, self.beside)


def join(query: Query, cases: Sequence[Case], *, apart: bool = False) -> Joint:
    """Return the joint network pair for some cases of a query.

    Two applications of one architecture become a pair to propagate differences, over ``(x, y - x)``
    if every case bounds y - x, else over ``(x, y)``; others are put side by side.
    """
    near = [_near(query, case.conditions) for case in cases]
    known = [each for each in near if each is not None]
    if len(known) < len(near):
        known = []
    hull = None
    if known:
        lows, highs = zip(*known, strict=True)
        hull = np.minimum.reduce(lows), np.maximum.reduce(highs)
    box, points = _joint_box(query, hull)
    parts: list[tuple[Floats, Floats] | None] = [*known] or [None] * len(cases)
    regions = tuple(_region(box, each, query) for each in parts)
    applications = query.applications
    stacks = [_on_joint(each.network.stack, points[each.point]) for each in applications]
    plain = [a for a, each in enumerate(applications) if each.family is None]
    if len(stacks) == 2 and plain and not apart and _alike(stacks[0], stacks[1]):
        # The second network is the member, or else the second application.
        first = plain[0]
        own = _align(stacks[first], stacks[1 - first])
        members = JointMembers(query, points, (1 - first,), own)
        hidden = (0,) * (len(own.layers) - 1)
        places = tuple(Place(0, a != first, hidden) for a in range(2))
        return Joint(own, members, box, regions, points, places)
    places_, start = [], 0
    depth = max(len(stack.layers) for stack in stacks)
    before = np.zeros(depth, np.int64)
    for stack, each in zip(stacks, applications, strict=True):
        at = tuple(before[: len(stack.layers) - 1].tolist())
        places_.append(Place(start, each.family is not None, at))
        start += stack.labels
        before += [layer.width for layer in _deepen(stack, depth).layers]
    members = JointMembers(query, points, tuple(range(len(stacks))))
    # A network alone is its own member: the numbers of both are at the same places.
    alone = len(stacks) == len(plain) == 1
    whole = (
        members.take(np.zeros(1, np.int64)) if alone else _side_by_side(stacks, box.dimension, 1)
    )
    return Joint(whole, members, box, regions, points, tuple(places_))


def _region(box: Box, near: tuple[Floats, Floats] | None, query: Query) -> tuple[Floats, Floats]:
    """Return the part of the joint box that a case covers."""
    lower, upper = box.lower, box.upper
    if near is not None:
        start = query.points[0].dimension
        lower, upper = lower.copy(), upper.copy()
        lower[start:], upper[start:] = near
    return lower, upper


def _alike(first: Stack, second: Stack) -> bool:
    return len(first.layers) == len(second.layers) and all(
        a.width == b.width and a.weights.keys() == b.weights.keys() and same(a.kinds, b.kinds)
        for a, b in zip(first.layers, second.layers, strict=True)
    )


def _align(stack: Stack, other: Stack) -> Stack:
    """Return networks with entries, if only 0, wherever another one's matrices have some.

    So their numbers can be subtracted: of two points, or networks, entries are at other places.
    """
    layers = []
    for own, layer in zip(stack.layers, other.layers, strict=True):
        weights = dict(own.weights)
        for source, known in layer.weights.items():
            if not same_places(weights[source], known):
                both = add(weights[source], scale(known, 0.0), 1)
                weights[source] = settle(both, len(stack))
        layers.append(Layer(weights, own.bias, own.kinds))
    return Stack(stack.inputs, tuple(layers))


def _near(query: Query, case: Sequence[Condition]) -> tuple[Floats, Floats] | None:
    """Return bounds of ``y - x`` stated by single conditions on two points, or None."""
    if len(query.points) != 2 or query.points[0].dimension != query.points[1].dimension:
        return None
    first, second = query.points
    # Differences are rounded, so they are widened by one float each.
    low = np.nextafter(second.lower - first.upper, -np.inf)
    high = np.nextafter(second.upper - first.lower, np.inf)
    found = False
    for condition in case:
        form = condition.form
        if form.scores or len(form.features) != 2:
            continue
        (p, i, a), (q, j, b) = sorted(form.features)
        if (p, q) != (0, 1) or i != j or a != -b or b == 0:
            continue
        # b (y - x) + constant >= 0, widened for the rounding of the division.
        bound = -form.constant / b
        room = 4 * np.finfo(float).eps * abs(bound)
        if b > 0:
            low[i] = max(low[i], bound - room)
        else:
            high[i] = min(high[i], bound + room)
        found = True
    if not found or (low > high).any():
        return None
    return low, high


def _joint_box(query: Query, near: tuple[Floats, Floats] | None) -> tuple[Box, tuple[Sparse, ...]]:
    lower = np.concatenate([each.lower for each in query.points])
    upper = np.concatenate([each.upper for each in query.points])
    starts = np.concatenate([[0], np.cumsum([each.dimension for each in query.points])])
    width = len(lower)
    points = [
        Sparse.of_taps(np.arange(a, b)[:, None], np.ones((1, 1, 1)), width)
        for a, b in itertools.pairwise(starts)
    ]
    choices: list[Choices] = []
    for k, each in enumerate(query.points):
        if near is not None and k == 1:
            # Listed values of y are left to its conditions; forms keep its hull.
            continue
        choices += [
            Choices(choice.columns + int(starts[k]), choice.values) for choice in each.choices
        ]
    if near is not None:
        lower[starts[1] :], upper[starts[1] :] = near
        points[1] = cast(Sparse, add(points[0], points[1], 1))
    return Box(lower, upper, tuple(choices)), tuple(points)


def _on_joint(stack: Stack, point: Sparse) -> Stack:
    """Return a network that reads the joint input."""
    layers = []
    for layer in stack.layers:
        weights = dict(layer.weights)
        if 0 in weights:
            weights[0] = settle(compose(weights[0], point), len(stack))
        layers.append(Layer(weights, layer.bias, layer.kinds))
    return Stack(point.width, tuple(layers))


def _without_zeros(stack: Stack) -> Stack:
    layers = [
        Layer({s: without_zeros(w) for s, w in layer.weights.items()}, layer.bias, layer.kinds)
        for layer in stack.layers
    ]
    return Stack(stack.inputs, tuple(layers))


def _side_by_side(stacks: Sequence[Stack], inputs: int, count: int) -> Stack:
    """Return networks with all scores; shallow ones pass through ReLUs unchanged."""
    if len(stacks) == 1 and len(stacks[0]) == count:
        return stacks[0]
    depth = max(len(stack.layers) for stack in stacks)
    padded = [_deepen(stack, depth) for stack in stacks]
    layers = []
    for k in range(depth):
        parts = [stack.layers[k] for stack in padded]
        sources = sorted({s for part in parts for s in part.weights})
        rows = sum(part.width for part in parts)
        weights: dict[int, Floats] = {}
        for s in sources:
            widths = [inputs if s == 0 else stack.layers[s - 1].width for stack in padded]
            columns = inputs if s == 0 else sum(widths)
            matrix = np.zeros((count, rows, columns))
            row = column = 0
            for part, width in zip(parts, widths, strict=True):
                at = slice(0, inputs) if s == 0 else slice(column, column + width)
                if s in part.weights:
                    matrix[:, row : row + part.width, at] = dense(part.weights[s])
                row += part.width
                column += width
            weights[s] = matrix
        bias = [np.broadcast_to(part.bias, (count, part.width)) for part in parts]
        kinds = beside([(part.kinds, part.width) for part in parts])
        layers.append(Layer(weights, np.concatenate(bias, axis=1), kinds))
    return Stack(inputs, tuple(layers))


def _deepen(stack: Stack, depth: int) -> Stack:
    """Add layers that compute the identity, as z = relu(z) - relu(-z)."""
    layers = list(stack.layers)
    while len(layers) < depth:
        last = layers.pop()
        both = {s: np.concatenate([dense(w), -dense(w)], axis=1) for s, w in last.weights.items()}
        layers.append(Layer(both, np.concatenate([last.bias, -last.bias], axis=1)))
        one = np.eye(last.width)[None]
        apart = np.concatenate([one, -one], axis=2)
        count = len(last.bias)
        layers.append(
            Layer({len(layers): np.repeat(apart, count, axis=0)}, np.zeros((count, last.width)))
        )
    return Stack(stack.inputs, tuple(layers))
