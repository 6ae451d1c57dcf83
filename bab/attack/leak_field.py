"""Leaks of one label laid out for attacks: N in float32, starts and member scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.attack.confidences import Nets, evaluate, margins
from leaveout.bab.attack.field import View
from leaveout.bab.attack.leak_slopes import Margins, Pairs
from leaveout.bab.attack.slp import KNAPSACK, Problem, Step
from leaveout.bab.attack.smoothing import COARSE, FINE, PLAIN, layer_sizes
from leaveout.bab.instance import Instance
from leaveout.bab.witness import Replayer, Witness
from leaveout.deadline import Deadline
from leaveout.encoders import Box
from leaveout.models import Stack

Floats = NDArray[np.floating[Any]]
Indices = NDArray[np.int64]

_NEWTON = 6
_SEEN = 256
_FEWEST = 64
"""Points of the decision boundary that are scored."""
_HELD = 2**21
"""Most parameters of members that are lowered at once."""
_CACHED = 2**18
"""Most activations of a layer that are computed at once."""
_SLACK = 2e-6
"""Of ascents in float32, relative to the scores."""
_SLACKS = (3e-7, 3e-6, 3e-5)
"""Of the member's margin, relative to the scores: what float32 rounding hides at most places."""


@dataclass(frozen=True, eq=False)
class LeakField:
    """A `Field` of one label's question, one lane per member."""

    instance: Instance
    label: int
    replayer: Replayer
    network: Nets  # N in float32
    lower: Floats  # shape (d,)
    upper: Floats  # shape (d,)
    sizes: tuple[float, ...]  # typical pre-activations of each layer
    scale: float  # typical score

    least = 0.0

    @property
    def box(self) -> Box:
        """The box of the inputs."""
        return self.instance.box

    @property
    def lanes(self) -> int:
        """The number of lanes: one per member."""
        return len(self.instance.members)

    @property
    def parameters(self) -> int:
        """The number of parameters per network."""
        layers = self.instance.network.stack.layers
        return sum(y.bias.size + sum(w.size for w in y.weights.values()) for y in layers)

    def nets(self, lanes: Indices) -> Nets:
        """Return some of the members in float32."""
        return Nets.of(self.instance.members.take(lanes), np.float32)

    def values(self, points: Floats) -> Floats:
        """Return N's confidence at points, shape (p, d)."""
        return margins(self.network.activations(points[None])[-1][0], self.label)

    def views(self, sample: Floats, seen: int, most: int) -> list[View]:
        """See `Field.views`: N's decision boundary, and points that already leak."""
        near = int(np.clip(seen, _FEWEST, _SEEN))
        inside = sample[: int(np.clip(seen - near, near // 4, most))]
        edge = self.boundary(sample)[:near]

        def ahead(lanes: Indices, until: Deadline) -> Floats:
            # On the boundary N's margin over the member's tells what an ascent may reach.
            other = self.margins(edge, lanes, until)
            return np.where(np.isfinite(other), self.values(edge) - other, -np.inf)

        def leak_values(lanes: Indices, until: Deadline) -> Floats:
            """Return N's confidence where points leak, else -inf."""
            # Elsewhere only what leaks as it is counts.
            own, other = self.values(inside), self.margins(inside, lanes, until)
            return np.where((other <= 0) & (own > 0), own, -np.inf)

        return [View(edge, ahead, (PLAIN, COARSE)), View(inside, leak_values, (PLAIN, FINE))]

    def score(self, points: Floats, lanes: Indices, until: Deadline) -> Floats:
        """See `Field.score`: N's margin and the members'."""
        return self.values(points) - self.margins(points, lanes, until)

    def problem(self, nets: Nets, points: Floats) -> Pairs:
        """See `Field.problem`."""
        slack = _SLACK * self.scale
        return Pairs.of(self.instance.box, self.label, self.network, nets, points, slack)

    def relaxed_problem(self, nets: Nets) -> Pairs:
        """See `Field.relaxed_problem`."""
        return Pairs(self.network, nets, self.label, self.lower, self.upper, _SLACK * self.scale)

    def exact(self, lanes: Indices, points: Floats) -> LeakExact:
        """See `Field.exact`."""
        taken = self.instance.members.take(lanes)
        scale = 1.0 + float(np.abs(taken.scores(points[:, None].astype(np.float64))).max())
        return LeakExact(self, taken, points[:, None], scale)

    def replay(self, point: Floats, lane: int) -> Witness | None:
        """See `Field.replay`."""
        return self.replayer.replay(np.asarray(point, np.float64), lane, self.label)

    def nearest(self, points: Floats) -> Floats:
        """Return the nearest points of the box, shape (..., d)."""
        return self.instance.box.nearest(points.astype(np.float64)).astype(np.float32)

    def boundary(self, points: Floats) -> Floats:
        """Move points by Newton steps to N's decision boundary, nearest first."""
        for _ in range(_NEWTON):
            here = evaluate(self.network, points[None], self.label)
            slope = here.slope[0]
            size = np.square(slope).sum(axis=1)
            step = here.value[0] / np.where(size > 0, size, 1)
            points = np.clip(points - step[:, None] * slope, self.lower, self.upper)
        away = np.abs(self.values(points))
        return points[np.argsort(away, kind="stable")]

    def margins(self, points: Floats, members: Indices, deadline: Deadline) -> Floats:
        """Return the confidence of members at points they share."""
        found = np.full((len(members), len(points)), np.inf, np.float32)
        for start, nets in self._blocks(members, len(points)):
            if deadline.over:
                break
            scores = nets.activations(points[None])[-1]
            found[start : start + len(nets)] = margins(scores, self.label)
        return found

    def _blocks(self, members: Indices, points: int) -> Iterator[tuple[int, Nets]]:
        """Yield members in runs that fit the cache, lowered in larger ones."""
        held = max(1, _HELD // self.parameters)
        widest = max(layer.width for layer in self.instance.network.stack.layers)
        run = max(1, _CACHED // (max(points, 1) * widest))
        for start in range(0, len(members), held):
            nets = self.nets(members[start : start + held])
            for first in range(0, len(nets), run):
                yield start + first, nets.part(first, first + run)


@dataclass(frozen=True, eq=False)
class LeakExact:
    """An `Exact` of some members."""

    field: LeakField
    members: Stack
    points: Floats  # shape (m, 1, d): where ascents start
    scale: float  # typical score

    @property
    def _slacks(self) -> tuple[float, ...]:
        return (*(slack * self.scale for slack in _SLACKS), self.field.instance.member_error)

    @property
    def levels(self) -> int:
        """See `Exact.levels`."""
        return len(self._slacks)

    def problem(self) -> Problem:
        """See `Exact.problem`."""
        return self._pairs(self.members, self.points, 0)

    def whole(self, row: int, point: Floats) -> Problem | None:
        """See `Exact.whole`: with two labels there is one rival."""
        field = self.field
        if field.instance.labels == 2:
            return None
        lower, upper = field.box.around(point)
        network, member = field.instance.network.stack, self.members.member(row)
        return Margins(network, member, field.label, lower, upper, self._slacks[0])

    def safer(self, row: int, point: Floats, level: int) -> tuple[Problem, Step]:
        """See `Exact.safer`."""
        return self._pairs(self.members.member(row), point[None, None], level), KNAPSACK

    def _pairs(self, members: Stack, points: Floats, level: int) -> Pairs:
        field, nets = self.field, (self.field.instance.network.stack, members)
        own, other = (Nets.of(each) for each in nets)
        return Pairs.of(field.box, field.label, own, other, points, self._slacks[level])


def make_field(instance: Instance, label: int, replayer: Replayer, points: Floats) -> LeakField:
    """Lay out a question, with typical sizes from ``points``, shape (p, d)."""
    network = Nets.of(instance.network.stack, np.float32)
    sample = points.astype(np.float32)
    scores = network.activations(sample[None])[-1]
    return LeakField(
        instance,
        label,
        replayer,
        network,
        instance.box.lower.astype(np.float32),
        instance.box.upper.astype(np.float32),
        layer_sizes(network, sample),
        1.0 + float(np.abs(scores).max()),
    )
