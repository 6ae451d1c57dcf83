"""Several networks at several points as two networks of one architecture at one joint point."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.box import Box
from leaveout.encoders.choices import Choices
from leaveout.encoders.query import Condition, Query
from leaveout.models.stack import Layer, Stack

__all__ = ["Joint", "Place", "join"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Place:
    """Where the scores of an application are.

    Attributes
    ----------
    start : int
        First of its scores among the first network's.
    second : bool
        Whether they are the second network's.
    """

    start: int
    second: bool


@dataclass(frozen=True, eq=False)
class Joint:
    """Two stacks of one network each, over a joint input.

    Attributes
    ----------
    first, second : Stack
        Of the same architecture; the same one where there are no two alike.
    box : Box
        Of the joint input u: of each point its features, or how far they are from those of an
        earlier point of the same network.
    points : tuple of ndarray, shape (features, joint)
        Each point is its matrix times u.
    places : tuple of Place
        Of each application.
    """

    first: Stack
    second: Stack
    box: Box
    points: tuple[Floats, ...]
    places: tuple[Place, ...]

    @property
    def is_pair(self) -> bool:
        """Whether the two networks differ."""
        return self.first is not self.second


def join(query: Query, case: Sequence[Condition], *, apart: bool = False) -> Joint:
    """Lay out what one case of a query is about.

    Two applications of one architecture become the two networks, so that their difference is
    propagated rather than each on its own: over ``(x, y - x)`` where the case bounds the
    difference of the two points, else over ``(x, y)``. Any others are put side by side in one
    network.

    Parameters
    ----------
    query : Query
    case : sequence of Condition
    apart : bool
        Put all side by side, as a baseline to measure against.
    """
    near = _near(query, case)
    box, points = _joint_box(query, near)
    stacks = [_on_joint(each.network.stack, points[each.point]) for each in query.applications]
    if len(stacks) == 2 and not apart and _alike(stacks[0], stacks[1]):
        return Joint(stacks[0], stacks[1], box, points, (Place(0, False), Place(0, True)))
    places, start = [], 0
    for stack in stacks:
        places.append(Place(start, False))
        start += stack.labels
    whole = _side_by_side(stacks, box.dimension)
    return Joint(whole, whole, box, points, tuple(places))


def _alike(first: Stack, second: Stack) -> bool:
    return len(first.layers) == len(second.layers) and all(
        a.width == b.width and a.weights.keys() == b.weights.keys()
        for a, b in zip(first.layers, second.layers, strict=True)
    )


def _near(query: Query, case: Sequence[Condition]) -> tuple[Floats, Floats] | None:
    """Bounds of ``y - x`` that single conditions state, for two points of one shape, if any."""
    if len(query.points) != 2 or query.points[0].dimension != query.points[1].dimension:
        return None
    first, second = query.points
    # Differences are rounded; a hair more than all of them.
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
        # b (y - x) + constant >= 0, a hair wider for the rounding of the division.
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


def _joint_box(query: Query, near: tuple[Floats, Floats] | None) -> tuple[Box, tuple[Floats, ...]]:
    lower = np.concatenate([each.lower for each in query.points])
    upper = np.concatenate([each.upper for each in query.points])
    starts = np.concatenate([[0], np.cumsum([each.dimension for each in query.points])])
    every = np.eye(len(lower))
    points = [every[a:b] for a, b in itertools.pairwise(starts)]
    choices: list[Choices] = []
    for k, each in enumerate(query.points):
        if near is not None and k == 1:
            # What y may take is left to its conditions; its hull is kept by forms.
            continue
        choices += [
            Choices(choice.columns + int(starts[k]), choice.values) for choice in each.choices
        ]
    if near is not None:
        lower[starts[1] :], upper[starts[1] :] = near
        points[1] = points[0] + points[1]
    return Box(lower, upper, tuple(choices)), tuple(points)


def _on_joint(stack: Stack, point: Floats) -> Stack:
    """Return a network that reads the joint input."""
    layers = []
    for layer in stack.layers:
        weights = {s: (w @ point if s == 0 else w) for s, w in layer.weights.items()}
        layers.append(Layer(weights, layer.bias))
    return Stack(point.shape[1], tuple(layers))


def _side_by_side(stacks: Sequence[Stack], inputs: int) -> Stack:
    """Return one network of the scores of all; shallow ones pass through ReLUs unchanged."""
    depth = max(len(stack.layers) for stack in stacks)
    padded = [_deepened(stack, depth) for stack in stacks]
    layers = []
    for k in range(depth):
        parts = [stack.layers[k] for stack in padded]
        sources = sorted({s for part in parts for s in part.weights})
        rows = sum(part.width for part in parts)
        weights: dict[int, Floats] = {}
        for s in sources:
            widths = [inputs if s == 0 else stack.layers[s - 1].width for stack in padded]
            columns = inputs if s == 0 else sum(widths)
            matrix = np.zeros((1, rows, columns))
            row = column = 0
            for part, width in zip(parts, widths, strict=True):
                at = slice(0, inputs) if s == 0 else slice(column, column + width)
                if s in part.weights:
                    matrix[:, row : row + part.width, at] = part.weights[s]
                row += part.width
                column += width
            weights[s] = matrix
        layers.append(Layer(weights, np.concatenate([part.bias for part in parts], axis=1)))
    return Stack(inputs, tuple(layers))


def _deepened(stack: Stack, depth: int) -> Stack:
    """Give a network more layers that change nothing: the scores are z = relu(z) - relu(-z)."""
    layers = list(stack.layers)
    while len(layers) < depth:
        last = layers.pop()
        both = {s: np.concatenate([w, -w], axis=1) for s, w in last.weights.items()}
        layers.append(Layer(both, np.concatenate([last.bias, -last.bias], axis=1)))
        one = np.eye(last.width)[None]
        apart = np.concatenate([one, -one], axis=2)
        layers.append(Layer({len(layers): apart}, np.zeros((1, last.width))))
    return Stack(stack.inputs, tuple(layers))
