"""Find leaks: score all members where N decides, climb from the best, and go on from the top."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from leaveout.bab.anneal import COARSE, FINE, PLAIN, Pass, anneal
from leaveout.bab.field import Field, make_field
from leaveout.bab.instance import Instance
from leaveout.bab.pairs import Nets
from leaveout.bab.polish import better, improve, improve_many, polish
from leaveout.bab.witness import Replayer, Witness
from leaveout.deadline import NEVER, Deadline

__all__ = ["better", "improve", "improve_many", "scout"]

Floats = NDArray[np.floating[Any]]
Indices = NDArray[np.int64]

_STARTS = 1024
_SEEN = 256
_FEWEST = 64
_SCORED = 2.5e9
"""Products that may be spent to score all members once."""
_CLIMBED = 4_000_000
"""Parameters that a round of climbs may touch in each step."""
_MOST, _LEAST = 512, 64
"""Climbs of a round."""
_SCORING = 0.3
"""Share of the time left that scoring members once may take."""
_MEMBERS = 64
_HOPS = (8, 32, 1, 1, 4, 1)
"""Members about whose best leaks a round climbs again."""
_ROUNDS = 18
_PATIENCE = 4
"""Rounds without a gain that end the search."""
_ENOUGH = 6
_GAIN = 2e-4
_ROWS = 32
"""Rows of one group of discrete features that are tried at once."""


def scout(
    instance: Instance,
    label: int,
    replayer: Replayer,
    *,
    seed: int = 0,
    climbs: int = 12,
    deadline: Deadline = NEVER,
) -> Witness | None:
    """Search for a leak of high confidence in ``label`` over all members.

    Parameters
    ----------
    instance : Instance
    label : int
    replayer : Replayer
    seed : int
    climbs : int
        How many members' best leaks are polished and replayed at most.
    deadline : Deadline
        Kept within about a second.

    Returns
    -------
    Witness or None
        The best leak found and replayed.
    """
    if deadline.over:
        return None
    # Thousands of small products: a second thread costs more than it gives, the more so where
    # other programs share the cores.
    with threadpool_limits(1, user_api="blas"):
        search = _Search(instance, label, np.random.default_rng(seed), deadline)
        search.run()
        members, points = search.top(climbs)
        if not len(members):
            return None
        return polish(instance, label, replayer, points.astype(np.float64), members)


@dataclass(eq=False)
class _Elite:
    """The best leak of each member met so far."""

    best: dict[int, tuple[float, Floats]] = field(default_factory=dict)

    @property
    def value(self) -> float:
        return max((value for value, _ in self.best.values()), default=0.0)

    def offer(self, members: Indices, points: Floats, values: Floats) -> None:
        """Take in leaks, shapes (m, p, d) and (m, p)."""
        for row, column in enumerate(values.argmax(axis=1).tolist()):
            member, value = int(members[row]), float(values[row, column])
            if value > self.best.get(member, (0.0, None))[0]:
                self.best[member] = (value, points[row, column].copy())

    def top(self, count: int) -> tuple[Indices, Floats]:
        """Return the members with the best leaks, and the points, shape (m, d)."""
        order = sorted(self.best, key=lambda member: (-self.best[member][0], member))[:count]
        points = [self.best[member][1] for member in order]
        return np.asarray(order, np.int64), np.asarray(points, np.float32)


class _Search:
    """One search: rounds that explore, cross members with points, and hop about the best."""

    def __init__(
        self, instance: Instance, label: int, rng: np.random.Generator, deadline: Deadline
    ) -> None:
        self.instance, self.rng, self.deadline = instance, rng, deadline
        self.box = instance.box
        self.field: Field = make_field(instance, label, self._sample(_SEEN))
        self.elite = _Elite()
        self.promise = np.full(len(instance.members), -np.inf, np.float32)
        size = self.field.parameters
        most = min(_MOST, _LEAST * self.box.dimension)
        self.climbs = int(np.clip(_CLIMBED // size, _LEAST, most))
        seen = _SCORED / (len(instance.members) * size)
        self.edge = int(np.clip(seen, _FEWEST, _SEEN))
        self.inside = int(np.clip(seen - self.edge, self.edge // 4, _STARTS))

    def top(self, count: int) -> tuple[Indices, Floats]:
        return self.elite.top(count)

    def run(self) -> None:
        hops = [partial(self._hop, count) for count in _HOPS]
        rounds: tuple[Callable[[], None], ...] = (self._explore, self._cross, *hops)
        idle = 0
        for number in range(_ROUNDS):
            before = self.elite.value
            rounds[number % len(rounds)]()
            if self.deadline.over:
                return
            if self.box.choices:
                self._swap()
            idle = 0 if self.elite.value > before * (1 + _GAIN) else idle + 1
            if number + 1 >= _ENOUGH and idle >= _PATIENCE:
                return

    def _explore(self) -> None:
        """Climb from N's decision boundary, and from points that leak already."""
        sample = self._sample(_STARTS)
        edge, inside = self.field.boundary(sample)[: self.edge], sample[: self.inside]
        # Where time runs short some members are never scored: any, not the last.
        everyone = self.rng.permutation(len(self.promise)).astype(np.int64)
        for points, schedules in ((edge, (PLAIN, COARSE)), (inside, (PLAIN, FINE))):
            own = self.field.values(points)
            other = self.field.leads(points, everyone, self._soon())
            # On the boundary N's lead over the member's tells what a climb may reach; elsewhere
            # only what leaks as it is counts.
            leak = np.isfinite(other) if points is edge else (other <= 0) & (own > 0)
            score = np.where(leak, own - other if points is edge else own, -np.inf)
            self.promise[everyone] = np.maximum(self.promise[everyone], score.max(axis=1))
            for schedule in schedules:
                self._climb(everyone, points, score, schedule)

    def _soon(self) -> Deadline:
        """When to stop scoring, so that time is left to climb."""
        return Deadline.after(_SCORING * self.deadline.left)

    def _cross(self) -> None:
        """Try the points of the best leaks on all promising members."""
        _, points = self.top(_MEMBERS)
        if not len(points):
            return
        count = max(1024, len(self.promise) // 4)
        members = np.sort(np.argsort(-self.promise, kind="stable")[:count])
        score = self.field.values(points) - self.field.leads(points, members, self._soon())
        self.promise[members] = np.maximum(self.promise[members], score.max(axis=1))
        self._climb(members, points, score, FINE)

    def _hop(self, count: int) -> None:
        """Climb again from points about the best leaks."""
        members, points = self.top(count)
        if not len(members):
            return
        each = max(1, self.climbs // len(members))
        shape = (len(members), each, points.shape[1])
        starts = np.repeat(points[:, None], each, axis=1)
        far = 10 ** self.rng.uniform(-2, 0, (*shape[:2], 1))
        some = self.rng.random(shape) < self.rng.uniform(0.1, 1, (*shape[:2], 1))
        noise = far * some * self.rng.normal(size=shape) / 2
        starts = starts + noise.astype(np.float32) * (self.field.upper - self.field.lower)
        starts = np.clip(starts, self.field.lower, self.field.upper)
        for schedule in (FINE, COARSE[2:]):
            self._anneal(members, starts, schedule)

    def _climb(
        self, members: Indices, points: Floats, score: Floats, schedule: tuple[Pass, ...]
    ) -> None:
        """Climb from a few points for each of the members with the highest scores.

        Half the points are a member's best, half are drawn from the rest: the best often lie
        close together.
        """
        top = score.max(axis=1)
        rows = np.argsort(-top, kind="stable")[: min(_MEMBERS, self.climbs)]
        rows = rows[top[rows] > -np.inf]
        if not len(rows):
            return
        each = min(max(2, self.climbs // len(rows)), score.shape[1])
        order = np.argsort(-score[rows], axis=1, kind="stable")
        usable = np.isfinite(score[rows]).sum(axis=1)[:, None]
        drawn = self.rng.random((len(rows), each - each // 2)) * usable
        columns = np.take_along_axis(
            order, np.concatenate([_first(each // 2, usable), drawn.astype(np.int64)], axis=1), 1
        )
        self._anneal(members[rows], points[columns], schedule)

    def _anneal(self, members: Indices, starts: Floats, schedule: tuple[Pass, ...]) -> None:
        """Climb, and remember what leaks."""
        nets = self.field.members(members)
        field, until = self.field, self.deadline
        if self.box.choices:
            # Once where discrete features move freely and are put right afterwards, once where
            # they stay as they are.
            free = anneal(field.relaxed(nets), starts, schedule, field.sizes, deadline=until)
            self._keep(nets, members, field.nearest(free.points), FINE)
            starts = field.nearest(starts)
        self._keep(nets, members, starts, schedule)

    def _keep(
        self, nets: Nets, members: Indices, starts: Floats, schedule: tuple[Pass, ...]
    ) -> None:
        """Climb from points of the box, and remember the best leak of each member."""
        pairs = self.field.pairs(nets, starts)
        found = anneal(pairs, starts, schedule, self.field.sizes, deadline=self.deadline)
        self.elite.offer(members, found.points, found.value)

    def _swap(self) -> None:
        """Try other rows for each group of discrete features of the best leaks."""
        members, points = self.top(4)
        for member, point in zip(members.tolist(), points, strict=True):
            starts = self._neighbours(point)
            nets = self.field.members(np.asarray([member]))
            own = self.field.values(starts)
            other = self.field.leads(starts, np.asarray([member]), self.deadline)[0]
            best = np.argsort(other - own, kind="stable")[: self.climbs]
            self._keep(nets, np.asarray([member]), starts[best][None], FINE[-1:])

    def _neighbours(self, point: Floats) -> Floats:
        """Points that differ in one group of discrete features, shape (n, d)."""
        parts = []
        for each in self.box.choices:
            rows = each.values
            if len(rows) > _ROWS:
                rows = rows[self.rng.choice(len(rows), _ROWS, replace=False)]
            part = np.repeat(point[None], len(rows), axis=0)
            part[:, each.columns] = rows
            parts.append(part)
        return np.concatenate(parts)

    def _sample(self, count: int) -> Floats:
        """Draw points, half of them with most features at an end of their range."""
        points = self.box.sample(self.rng, count)
        half = count // 2
        shape = (count - half, self.box.dimension)
        ends = np.where(self.rng.random(shape) < 0.5, self.box.lower, self.box.upper)
        points[half:] = np.where(self.rng.random(shape) < 0.6, ends, points[half:])
        return self.box.nearest(points).astype(np.float32)


def _first(count: int, usable: Indices) -> Indices:
    """Positions 0 to ``count``, over again where fewer are usable, shape (m, count)."""
    return np.asarray(np.arange(count) % usable)
