"""Networks at points, as one or two networks at one joint input.

The joint input is (x, y, ...), or (x, y - x) if the second of two points is stored as its
difference from the first. Weights are only moved, so nothing rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .members import TOGETHER, Members
from .networks import Integers, Layer
from .numbers import Floats


@dataclass(frozen=True)
class Spot:
    """Where a point's features are in the joint input."""

    own: slice
    base: slice | None = None  # features to which they are added


@dataclass(frozen=True)
class Place:
    """Where an application is in the joint network."""

    start: int  # of its scores
    second: bool  # whether it is in the second network
    hidden: tuple[int, ...]  # start of its neurons in each of its hidden layers


@dataclass(frozen=True, eq=False)
class Others:
    """The second network: a network, or one for each member."""

    parts: tuple[tuple[Sequence[Layer] | Members, int], ...]  # side by side, each with its point
    spots: tuple[Spot, ...]
    width: int
    count: int

    def __len__(self) -> int:
        return self.count

    def chunks(self, members: Integers) -> Iterator[tuple[Integers, Sequence[Layer]]]:
        """See `leaveout.kernel.networks.Networks`."""
        for begin in range(0, len(members), TOGETHER):
            chosen = members[begin : begin + TOGETHER]
            wide = []
            for part, point in self.parts:
                own = part if isinstance(part, Sequence) else part.take(chosen).layers()
                wide.append(_widen(own, self.spots[point], self.width))
            yield chosen, _side_by_side(wide, self.width, len(chosen))


@dataclass(frozen=True, eq=False)
class Joint:
    """A network, and others of its architecture, over the joint input."""

    first: Sequence[Layer]
    others: Others  # the first one itself if none differs from it
    spots: tuple[Spot, ...]  # by point
    places: tuple[Place, ...]  # by application
    width: int

    @property
    def is_pair(self) -> bool:
        """Whether the second network may differ from the first."""
        return any(place.second for place in self.places)


def join(
    parts: Sequence[tuple[Sequence[Layer], int, Members | None]],
    widths: Sequence[int],
    *,
    near: bool,
) -> Joint:
    """Arrange networks, each at a point and perhaps any of some members, over the joint input.

    Two of one architecture, at most one of them a family's, become the first and the second
    network; others stand side by side in the first, and in the second with members in place.
    """
    ends = np.cumsum([0, *widths]).tolist()
    spots = [Spot(slice(a, b)) for a, b in pairwise(ends)]
    if near:
        spots[1] = Spot(spots[1].own, spots[0].own)
    total, at = ends[-1], tuple(spots)
    wide = [_widen(layers, spots[point], total) for layers, point, _ in parts]
    second = tuple(
        (layers if members is None else members, point) for layers, point, members in parts
    )
    count = max([1, *(len(members) for *_, members in parts if members is not None)])
    plain = [a for a, (*_, members) in enumerate(parts) if members is None]
    if len(wide) == 2 and plain and _alike(*wide):
        first = plain[0]
        others = Others((second[1 - first],), at, total, count)
        hidden = (0,) * (len(wide[first]) - 1)
        places = tuple(Place(0, a != first, hidden) for a in range(2))
        return Joint(wide[first], others, at, places, total)
    depth = max(len(layers) for layers in wide)
    sizes = np.array([[layer.bias.shape[1] for layer in _deepen(each, depth)] for each in wide])
    before = np.cumsum(sizes, axis=0) - sizes
    places = tuple(
        Place(int(own[-1]), members is not None, tuple(own[: len(layers) - 1].tolist()))
        for own, (layers, _, members) in zip(before, parts, strict=True)
    )
    return Joint(_side_by_side(wide, total, 1), Others(second, at, total, count), at, places, total)


def _alike(first: Sequence[Layer], second: Sequence[Layer]) -> bool:
    return len(first) == len(second) and all(
        one.bias.shape[1] == two.bias.shape[1]
        and one.sources == two.sources
        and np.array_equal(one.kinds, two.kinds)
        for one, two in zip(first, second, strict=True)
    )


def _widen(layers: Sequence[Layer], spot: Spot, width: int) -> list[Layer]:
    """Return networks that read their point from the joint input."""
    found = []
    for layer in layers:
        weights = list(layer.weights)
        for i, source in enumerate(layer.sources):
            if source == 0:
                wide = np.zeros((*layer.bias.shape, width))
                for at in (spot.own, spot.base):
                    if at is not None:
                        wide[:, :, at] = weights[i]
                weights[i] = wide
        found.append(Layer(layer.sources, tuple(weights), layer.bias, layer.kinds))
    return found


def _side_by_side(stacks: Sequence[Sequence[Layer]], width: int, count: int) -> list[Layer]:
    """Return networks with the neurons of all, layer by layer."""
    depth = max(len(layers) for layers in stacks)
    deep = [_deepen(layers, depth) for layers in stacks]
    found = []
    for k in range(depth):
        parts = [layers[k] for layers in deep]
        rows = np.cumsum([0, *(part.bias.shape[1] for part in parts)]).tolist()
        sources = tuple(sorted({s for part in parts for s in part.sources}))
        weights: list[Floats] = []
        for s in sources:
            # All read the same joint input.
            sizes = [width] if s == 0 else [layers[s - 1].bias.shape[1] for layers in deep]
            columns = np.cumsum([0, *sizes]).tolist()
            block = np.zeros((count, rows[-1], columns[-1]))
            for i, part in enumerate(parts):
                if s in part.sources:
                    j = 0 if s == 0 else i
                    at = slice(rows[i], rows[i + 1]), slice(columns[j], columns[j + 1])
                    block[:, at[0], at[1]] = part.weights[part.sources.index(s)]
            weights.append(block)
        bias = [np.broadcast_to(part.bias, (count, part.bias.shape[1])) for part in parts]
        kinds = np.concatenate([part.kinds for part in parts])
        found.append(Layer(sources, tuple(weights), np.concatenate(bias, axis=1), kinds))
    return found


def _deepen(layers: Sequence[Layer], depth: int) -> list[Layer]:
    """Pass scores z on through more layers unchanged: z = relu(z) - relu(-z)."""
    found = list(layers)
    while len(found) < depth:
        top = found.pop()
        signed = tuple(np.concatenate([w, -w], axis=1) for w in top.weights)
        bias, kinds = np.concatenate([top.bias, -top.bias], axis=1), top.kinds
        found.append(Layer(top.sources, signed, bias, np.concatenate([kinds, kinds])))
        unit = np.eye(top.bias.shape[1])[None]
        back = np.repeat(np.concatenate([unit, -unit], axis=2), len(top.bias), axis=0)
        found.append(Layer((len(found),), (back,), np.zeros_like(top.bias), kinds))
    return found
