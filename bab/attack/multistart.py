"""Multi-start attacks: score all lanes, ascend from the best, and hop onwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from leaveout.bab.attack.field import CounterExample, Exact, Field
from leaveout.bab.attack.slp import COARSE, FINE, PROGRAM, QUICK, Pass, ascend, smooth_ascent
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders import Box

Floats = NDArray[np.floating[Any]]
Points = NDArray[np.float64]
Lanes = NDArray[np.int64]

W = TypeVar("W", bound=CounterExample)

_COPIES = 8  # starts about a single candidate: a batch of them costs hardly more than one
_SPREAD = 0.1
_BACK = 12  # steps of an ascent that backs off
_TIED = 12  # steps of an ascent that weighs goals that tie
_FINISHED = 3
_HOPELESS = 0.5  # share of what is asked for that the first, rounded-off ascent must reach
_SHORT = 0.01  # share of it that finishing may make up for


def refine(
    field: Field[W],
    points: Points,  # shape (p, d)
    lanes: Lanes,  # shape (p,)
    *,
    at_least: float,
    deadline: Deadline = NEVER,
) -> W | None:
    """Ascend from many candidates at once; finish and replay the most promising."""
    if not len(points):
        return None
    starts = _starts(field, points, np.random.default_rng(0))
    problem = field.problem(field.nets(lanes), starts)
    found = smooth_ascent(
        problem, starts, QUICK, field.sizes, hopeless=_HOPELESS * at_least, deadline=deadline
    )
    values = found.value.max(axis=1)
    rows = np.argsort(-values, kind="stable")[:_FINISHED]
    enough = at_least - _SHORT * abs(at_least) if np.isfinite(at_least) else at_least
    rows = rows[(values[rows] > field.least) & (values[rows] >= enough)]
    if not len(rows):
        return None
    chosen = found.points[rows, found.value[rows].argmax(axis=1)].astype(np.float64)
    return finish(field, chosen, lanes[rows], steps=15, radius=2e-3, deadline=deadline)


def finish(
    field: Field[W],
    points: Points,  # shape (p, d)
    lanes: Lanes,  # shape (p,)
    *,
    steps: int = 40,
    radius: float = 0.02,
    deadline: Deadline = NEVER,
) -> W | None:
    """Ascend a last time in float64 and replay, best first, until none can be better."""
    exact = field.exact(lanes, points)
    found = ascend(exact.problem(), points[:, None], steps=steps, radius=radius, deadline=deadline)
    best: W | None = None
    for row in np.argsort(-found.value[:, 0], kind="stable").tolist():
        if best is not None and found.value[row, 0] <= best.value:
            break
        point = found.points[row, 0]
        whole = exact.whole(row, point)
        if whole is not None:
            ascended = ascend(
                whole, point[None, None], PROGRAM, steps=_TIED, radius=0.05, deadline=deadline
            )
            point = ascended.points[0, 0]
        best = better(best, replay_exactly(field, exact, row, point, int(lanes[row])))
    return best


def replay_exactly(field: Field[W], exact: Exact, row: int, point: Floats, lane: int) -> W | None:
    """Replay a point, backing off from its limits until float32 confirms it."""
    found = field.replay(point, lane)
    for level in range(1, exact.levels):
        if found is not None:
            break
        problem, step = exact.safer(row, point, level)
        point = ascend(problem, point[None, None], step, steps=_BACK, radius=1e-3).points[0, 0]
        found = field.replay(point, lane)
    return found


def better(first: W | None, second: W | None) -> W | None:
    """Return the counter-example with the higher value."""
    if first is None or second is None:
        return first or second
    return second if second.value > first.value else first


def _starts(field: Field[W], points: Points, rng: np.random.Generator) -> Floats:
    """Return the candidates, with points near them if there are few: (p, copies, d)."""
    box = field.box
    copies = max(1, _COPIES // len(points))
    noise = _SPREAD * rng.normal(size=(len(points), copies, box.dimension))
    noise[:, 0] = 0.0
    return field.nearest(points[:, None] + noise * (box.upper - box.lower))


SEEN = 256  # points that tell typical sizes

_STARTS = 1024
_SCORED = 2.5e9  # products that may be spent to score all lanes once
_ASCENDED = 4_000_000  # parameters that a round of ascents may touch in each step
_MOST, _LEAST = 512, 64
"""Ascents of a round."""
_SCORING = 0.3  # share of the time left that scoring lanes once may take
_LANES = 64
_HOPS = (8, 32, 1, 1, 4, 1)  # lanes about whose best points a round ascends again
_ROUNDS = 18
_PATIENCE = 4  # rounds without a gain that end the search
_ENOUGH = 6
_GAIN = 2e-4
_ROWS = 32  # rows of one group of discrete features that are tried at once
_TRIED = 3  # lanes that are finished after a round, where any value above a threshold will do


def attack(
    field: Field[W],
    rng: np.random.Generator,
    *,
    ascents: int = 12,
    deadline: Deadline = NEVER,
    enough: float = float("inf"),
) -> W | None:
    """Search all lanes for a counter-example of high value."""
    if deadline.over:
        return None
    # Thousands of small products: a second thread costs more than it gives, the more so where
    # other programs share the cores.
    with threadpool_limits(1, user_api="blas"):
        search = _Search(field, rng, deadline, enough)
        found = search.run()
        lanes, points = search.top(ascents)
        if found is not None or not len(lanes):
            return found
        return finish(field, points.astype(np.float64), lanes, deadline=deadline)


def sample_box(box: Box, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Draw points, shape (count, d), half of them mostly at the ends of ranges."""
    points = box.sample(rng, count)
    half = count // 2
    shape = (count - half, box.dimension)
    ends = np.where(rng.random(shape) < 0.5, box.lower, box.upper)
    points[half:] = np.where(rng.random(shape) < 0.6, ends, points[half:])
    return box.nearest(points)


@dataclass(eq=False)
class _Elite:
    """The best counter-example of each lane so far."""

    least: float
    best: dict[int, tuple[float, Floats]] = field(default_factory=dict)

    @property
    def value(self) -> float:
        return max((value for value, _ in self.best.values()), default=self.least)

    def offer(self, lanes: Lanes, points: Floats, values: Floats) -> None:
        """Store points with their values, shapes (m, p, d) and (m, p)."""
        for row, column in enumerate(values.argmax(axis=1).tolist()):
            lane, value = int(lanes[row]), float(values[row, column])
            if value > self.best.get(lane, (self.least, None))[0]:
                self.best[lane] = (value, points[row, column].copy())

    def top(self, count: int) -> tuple[Lanes, Floats]:
        """Return the lanes with the best values, and their points, shape (m, d)."""
        order = sorted(self.best, key=lambda lane: (-self.best[lane][0], lane))[:count]
        return np.asarray(order, np.int64), np.asarray([self.best[lane][1] for lane in order])


class _Search(Generic[W]):
    """A search in rounds: explore, cross lanes with points, and hop about the best."""

    def __init__(
        self, field: Field[W], rng: np.random.Generator, deadline: Deadline, enough: float
    ) -> None:
        self.field, self.rng = field, rng
        self.deadline, self.enough = deadline, enough
        self.elite = _Elite(field.least)
        self.promise = np.full(field.lanes, -np.inf, np.float32)
        most = min(_MOST, _LEAST * field.box.dimension)
        self.ascents = int(np.clip(_ASCENDED // field.parameters, _LEAST, most))
        self.seen = int(min(_SCORED / (field.lanes * field.parameters), 2**30))

    def top(self, count: int) -> tuple[Lanes, Floats]:
        return self.elite.top(count)

    def run(self) -> W | None:
        """Return a sufficient counter-example; None if all rounds end first."""
        hops = [partial(self._hop, count) for count in _HOPS]
        rounds: tuple[Callable[[], None], ...] = (self._explore, self._cross, *hops)
        idle = 0
        for number in range(_ROUNDS):
            before = self.elite.value
            rounds[number % len(rounds)]()
            if self.deadline.over:
                return None
            if self.field.box.choices:
                self._swap()
            if self.elite.best and self.elite.value > self.enough:
                found = finish(self.field, *_to_float64(self.top(_TRIED)))
                if found is not None and found.value > self.enough:
                    return found
            idle = 0 if _is_gain(before, self.elite.value) else idle + 1
            if number + 1 >= _ENOUGH and idle >= _PATIENCE:
                return None
        return None

    def _explore(self) -> None:
        """Ascend from the starts of the question."""
        sample = sample_box(self.field.box, self.rng, _STARTS).astype(self.field.lower.dtype)
        views = self.field.views(sample, self.seen, _STARTS)
        # Where time runs short some lanes are never scored: any, not the last.
        everyone = self.rng.permutation(len(self.promise)).astype(np.int64)
        for view in views:
            score = view.score(everyone, self._soon())
            self.promise[everyone] = np.maximum(self.promise[everyone], score.max(axis=1))
            for schedule in view.schedules:
                self._ascend(everyone, view.points, score, schedule)

    def _soon(self) -> Deadline:
        """Return the deadline of scoring that leaves time to ascend."""
        return Deadline.after(_SCORING * self.deadline.seconds_left)

    def _cross(self) -> None:
        """Try the best points on all promising lanes."""
        _, points = self.top(_LANES)
        if not len(points):
            return
        count = max(1024, len(self.promise) // 4)
        lanes = np.sort(np.argsort(-self.promise, kind="stable")[:count])
        score = self.field.score(points, lanes, self._soon())
        self.promise[lanes] = np.maximum(self.promise[lanes], score.max(axis=1))
        self._ascend(lanes, points, score, FINE)

    def _hop(self, count: int) -> None:
        """Ascend again from points near the best."""
        lanes, points = self.top(count)
        if not len(lanes):
            return
        each = max(1, self.ascents // len(lanes))
        shape = (len(lanes), each, points.shape[1])
        starts = np.repeat(points[:, None], each, axis=1)
        far = 10 ** self.rng.uniform(-2, 0, (*shape[:2], 1))
        some = self.rng.random(shape) < self.rng.uniform(0.1, 1, (*shape[:2], 1))
        noise = far * some * self.rng.normal(size=shape) / 2
        field = self.field
        starts = starts + noise.astype(points.dtype) * (field.upper - field.lower)
        starts = np.clip(starts, field.lower, field.upper)
        for schedule in (FINE, COARSE[2:]):
            self._smooth_ascent(lanes, starts, schedule)

    def _ascend(
        self, lanes: Lanes, points: Floats, score: Floats, schedule: tuple[Pass, ...]
    ) -> None:
        """Ascend from a few points for each of the lanes with the highest scores.

        Half are the lane's best, half drawn from the rest, since the best often cluster.
        """
        top = score.max(axis=1)
        rows = np.argsort(-top, kind="stable")[: min(_LANES, self.ascents)]
        rows = rows[top[rows] > -np.inf]
        if not len(rows):
            return
        each = min(max(2, self.ascents // len(rows)), score.shape[1])
        order = np.argsort(-score[rows], axis=1, kind="stable")
        usable = np.isfinite(score[rows]).sum(axis=1)[:, None]
        drawn = self.rng.random((len(rows), each - each // 2)) * usable
        columns = np.take_along_axis(
            order, np.concatenate([_first(each // 2, usable), drawn.astype(np.int64)], axis=1), 1
        )
        self._smooth_ascent(lanes[rows], points[columns], schedule)

    def _smooth_ascent(self, lanes: Lanes, starts: Floats, schedule: tuple[Pass, ...]) -> None:
        """Ascend, and store what counts."""
        field, until = self.field, self.deadline
        nets = field.nets(lanes)
        if field.box.choices:
            # Once where discrete features move freely and are put right afterwards, once where
            # they stay as they are.
            free = smooth_ascent(
                field.relaxed_problem(nets), starts, schedule, field.sizes, deadline=until
            )
            self._keep(nets, lanes, field.nearest(free.points), FINE)
            starts = field.nearest(starts)
        self._keep(nets, lanes, starts, schedule)

    def _keep(self, nets: Any, lanes: Lanes, starts: Floats, schedule: tuple[Pass, ...]) -> None:
        """Ascend from points of the box, and store the best of each lane."""
        problem = self.field.problem(nets, starts)
        found = smooth_ascent(problem, starts, schedule, self.field.sizes, deadline=self.deadline)
        self.elite.offer(lanes, found.points, found.value)

    def _swap(self) -> None:
        """Try other rows for each group of discrete features of the best."""
        lanes, points = self.top(4)
        for lane, point in zip(lanes.tolist(), points, strict=True):
            starts, own = self._neighbours(point), np.asarray([lane])
            score = self.field.score(starts, own, self.deadline)[0]
            best = np.argsort(-score, kind="stable")[: self.ascents]
            self._keep(self.field.nets(own), own, starts[best][None], FINE[-1:])

    def _neighbours(self, point: Floats) -> Floats:
        """Return points that differ in one discrete group, shape (n, d)."""
        parts = []
        for each in self.field.box.choices:
            rows = each.values
            if len(rows) > _ROWS:
                rows = rows[self.rng.choice(len(rows), _ROWS, replace=False)]
            part = np.repeat(point[None], len(rows), axis=0)
            part[:, each.columns] = rows
            parts.append(part)
        return np.concatenate(parts)


def _first(count: int, usable: Lanes) -> Lanes:
    """Return positions 0 to ``count``, repeated where fewer are usable, shape (m, count)."""
    return np.asarray(np.arange(count) % usable)


def _to_float64(top: tuple[Lanes, Floats]) -> tuple[NDArray[np.float64], Lanes]:
    """Return points in float64, and their lanes."""
    lanes, points = top
    return points.astype(np.float64), lanes


def _is_gain(before: float, after: float) -> bool:
    """Return whether a round was worth it."""
    if not np.isfinite(before):
        return after > before
    return after > before + _GAIN * abs(before)
