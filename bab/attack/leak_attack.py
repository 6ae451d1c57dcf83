"""Attacks that find leaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.attack.confidences import Nets, Sloped, evaluate, jacobians, margins
from leaveout.bab.attack.field import Exact, View
from leaveout.bab.attack.multistart import SEEN, attack, better, finish, refine, sample_box
from leaveout.bab.attack.slp import COARSE, FINE, KNAPSACK, PLAIN, Model, Problem, Step, layer_sizes
from leaveout.bab.instance import Instance
from leaveout.bab.witness import Replayer, Witness
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders import Box
from leaveout.models import Stack, confidence

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Pairs:
    """N's confidence as the goal, and each member's margin as the limit."""

    network: Nets  # N alone
    members: Nets  # of m members; p points belong to each
    label: int
    lower: Floats  # shape (m, p, d): where each point may go
    upper: Floats  # shape (m, p, d): where each point may go
    slack: float  # in units of the scores

    @staticmethod
    def of(
        box: Box, label: int, network: Nets, members: Nets, points: Floats, slack: float
    ) -> Pairs:
        """Return the problem of points in the box, their discrete features fixed."""
        return Pairs(network, members, label, *box.around(points), slack)

    @property
    def slacks(self) -> tuple[float]:
        """See `leaveout.bab.attack.slp.Problem`."""
        return (self.slack,)

    def at(self, points: Floats, widths: tuple[float, ...] | None) -> Model:
        """See `leaveout.bab.attack.slp.Problem`."""
        return Model(
            (evaluate(self.network, points, self.label, widths),),
            (evaluate(self.members, points, self.label, widths),),
        )


@dataclass(frozen=True, eq=False)
class Margins:
    """N's margin over each rival as its own goal, for one member.

    Where two rivals tie, the slope of one margin lowers the other.
    """

    network: Stack  # of one network each
    member: Stack  # of one network each
    label: int
    lower: Floats  # shape (d,)
    upper: Floats  # shape (d,)
    slack: float  # in units of the scores

    @property
    def slacks(self) -> tuple[float]:
        """See `leaveout.bab.attack.slp.Problem`."""
        return (self.slack,)

    def at(self, points: Floats, widths: tuple[float, ...] | None) -> Model:
        """See `leaveout.bab.attack.slp.Problem`; nothing is smoothed."""
        shape, flat = points.shape[:-1], points.reshape(-1, points.shape[-1]).astype(np.float64)
        scores, slopes = jacobians(self.network, flat)
        others, other_slopes = jacobians(self.member, flat)
        label, every = self.label, np.arange(len(flat))
        rivals = [c for c in range(scores.shape[1]) if c != label]
        strongest = np.array(rivals)[others[:, rivals].argmax(axis=1)]

        def make_sloped(value: Floats, slope: Floats) -> Sloped:
            return Sloped(value.reshape(shape), slope.reshape(points.shape))

        return Model(
            tuple(
                make_sloped(scores[:, label] - scores[:, c], slopes[:, label] - slopes[:, c])
                for c in rivals
            ),
            (
                make_sloped(
                    others[:, label] - others[every, strongest],
                    other_slopes[:, label] - other_slopes[every, strongest],
                ),
            ),
        )


Indices = NDArray[np.int64]

_NEWTON = 6
_SEEN = 256
_FEWEST = 64  # points of the decision boundary that are scored
_HELD = 2**21  # most parameters of members that are lowered at once
_CACHED = 2**18  # most activations of a layer that are computed at once
_SLACK = 2e-6  # of ascents in float32, relative to the scores
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
class LeakExact(Exact):
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
        return len(self._slacks)

    def problem(self) -> Problem:
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


Points = NDArray[np.float64]

_SAMPLE = 64

_AGAIN = 2  # candidates that are followed as they are where smoothing gives nothing better

_FEW, _NEAR = 15, 2e-3
"""Steps of that, and how far the first may go, as a share of the box."""


def find_leak(
    instance: Instance,
    label: int,
    replayer: Replayer,
    *,
    seed: int = 0,
    ascents: int = 12,
    deadline: Deadline = NEVER,
    enough: float = float("inf"),
) -> Witness | None:
    """Search for a leak of high confidence in ``label`` over all members."""
    rng = np.random.default_rng(seed)
    field = make_field(instance, label, replayer, sample_box(instance.box, rng, SEEN))
    return attack(field, rng, ascents=ascents, deadline=deadline, enough=enough)


def improve(
    instance: Instance,
    label: int,
    replayer: Replayer,
    point: Points,  # shape (d,)
    member: int,
    *,
    at_least: float = 0.0,
) -> Witness | None:
    """Ascend from a candidate, then back off from the tie until it replays in float32."""
    members = np.asarray([member], np.int64)
    return improve_many(instance, label, replayer, point[None], members, at_least=at_least)


def improve_many(
    instance: Instance,
    label: int,
    replayer: Replayer,
    points: Points,  # shape (p, d)
    members: Indices,  # shape (p,)
    *,
    at_least: float = 0.0,
) -> Witness | None:
    """Ascend from many candidates at once; see `leaveout.bab.attack.multistart.refine`."""
    if not len(points):
        return None
    sample = instance.box.sample(np.random.default_rng(0), _SAMPLE)
    field = make_field(instance, label, replayer, sample)
    found = refine(field, points, members, at_least=at_least)
    if found is not None and found.confidence > at_least:
        return found
    # Smoothing may lead away from a point that is as good as the best.
    near = instance.box.nearest(points)
    own = confidence(instance.network.stack.scores(near)[0], label)
    again = np.flatnonzero(own > at_least)[:_AGAIN]
    if not len(again):
        return found
    return better(found, finish(field, near[again], members[again], steps=_FEW, radius=_NEAR))
