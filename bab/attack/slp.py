"""Sequential linear programming: raise goals in trust regions, from many points.

Networks are linear near a point, so a step is a linear program: raise the least goal, less a price
on what limits miss, within a box about the point. There are two ways to solve it. With one goal
and at most one limit it is a continuous knapsack, solved for hundreds of points together; with
several, which tie where an ascent ends, a solver weighs them, point by point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.attack.confidences import Nets, Sloped
from leaveout.deadline import NEVER, Deadline

Floats = NDArray[np.floating[Any]]

_STEPS = 60
_FARTHEST = 0.25
_PENALTY = 100.0
"""Worth, in units of the goals, of what limits miss: above any multiplier seen of the leaks'."""


@dataclass(frozen=True, eq=False)
class Model:
    """Goals and limits near some points, each with a value and a slope."""

    goals: tuple[Sloped, ...]  # the least counts
    limits: tuple[Sloped, ...]  # met where they are at most 0

    @property
    def value(self) -> Floats:
        """The least goal, shape (m, p)."""
        return reduce(np.minimum, [goal.value for goal in self.goals])

    @property
    def limits_met(self) -> NDArray[np.bool_]:
        """Whether all limits are met, shape (m, p)."""
        met = np.ones(self.goals[0].value.shape, np.bool_)
        for limit in self.limits:
            met &= limit.value <= 0
        return met


class Problem(Protocol):
    """The interface of ascent problems."""

    @property
    def lower(self) -> Floats: ...
    @property
    def upper(self) -> Floats: ...
    @property
    def slacks(self) -> tuple[float | Floats, ...]: ...

    def at(self, points: Floats, widths: tuple[float, ...] | None) -> Model:
        """Return the goals and limits near points, shape (m, p, d); see `evaluate`."""


@dataclass(frozen=True)
class Step:
    """How linear programs are solved, and how trust regions change."""

    solve: Callable[[Model, Floats, Floats, list[Floats], float], Floats]
    growth: float
    shrinkage: float
    nearest: float  # smallest trust region of use, in sides of the box


@dataclass(frozen=True, eq=False)
class Ascent:
    """The end points of ascents."""

    points: Floats  # shape (m, p, d)
    value: Floats  # shape (m, p): the least goal there, ``-inf`` where none met the limits
    worth: (
        Floats  # shape (m, p): the least goal of the last points, less the price on what they miss
    )
    last: Floats  # shape (m, p, d): the last points, to go on from


def ascend(
    problem: Problem,
    points: Floats,  # shape (m, p, d)
    step: Step | None = None,
    *,
    steps: int = _STEPS,
    radius: float = _FARTHEST,
    penalty: float = _PENALTY,
    widths: tuple[float, ...] | None = None,
    deadline: Deadline = NEVER,
) -> Ascent:
    """Ascend from many points at once; a step that does not pay shrinks its region."""
    step = step or KNAPSACK
    lower, upper = problem.lower, problem.upper
    sides = upper - lower
    nearest = max(step.nearest, 2.0 * float(np.finfo(points.dtype).eps))
    model = problem.at(points, widths)
    # A little more than asked, so that rounding leaves the point on the right side.
    clearances = [
        np.asarray(1.01 * slack + 1e-13 * (1 + float(np.abs(limit.value).max(initial=0))))
        for slack, limit in zip(problem.slacks, model.limits, strict=True)
    ]
    # In the type of the points, or all that follows would be in float64.
    clearances = [clearance.astype(points.dtype) for clearance in clearances]
    worth = _worth(model, clearances, penalty)
    met = model.limits_met
    best, best_worth = points, np.where(met, worth, -np.inf)
    value = np.where(met, model.value, -np.inf)
    reach = np.full(worth.shape, radius, points.dtype)
    for _ in range(steps):
        if (reach < nearest).all() or deadline.over:
            break
        move = reach[..., None] * sides
        below = np.maximum(lower - points, -move)
        above = np.minimum(upper - points, move)
        trial = points + step.solve(model, below, above, clearances, penalty)
        trial = np.minimum(np.maximum(trial, lower), upper)
        there = problem.at(trial, widths)
        reached = _worth(there, clearances, penalty)
        met = there.limits_met & (reached > best_worth)
        best, best_worth = _choose(met, trial, best), np.where(met, reached, best_worth)
        value = np.where(met, there.value, value)
        # Gains below what rounding makes of them would keep a region wide for nothing.
        pays = reached > worth + 1e-12 * np.maximum(1, np.abs(worth))
        worth = np.where(pays, reached, worth)
        points = _choose(pays, trial, points)
        model = Model(
            _merge(pays, there.goals, model.goals), _merge(pays, there.limits, model.limits)
        )
        reach = np.where(pays, np.minimum(step.growth * reach, 1), step.shrinkage * reach)
    return Ascent(_choose(value > -np.inf, best, points), value, worth, points)


def _worth(model: Model, clearances: list[Floats], penalty: float) -> Floats:
    """Return the least goal minus a price on missed limits, shape (m, p)."""
    worth = model.value
    for limit, clearance in zip(model.limits, clearances, strict=True):
        worth = worth - penalty * np.maximum(limit.value + clearance, 0)
    return worth


def _knapsack(
    model: Model, below: Floats, above: Floats, clearances: list[Floats], penalty: float
) -> Floats:
    """Solve linear programs of one goal, at most one limit, and a box.

    As the limit's multiplier t grows, coordinates turn at ``t = a / w`` (a, w: slopes of goal and
    limit); the one that meets it goes part of the way.
    """
    (goal,) = model.goals
    a = goal.slope
    start = np.where(a > 0, above, np.where(a < 0, below, 0))
    if not model.limits:
        return np.asarray(start)
    (limit,), (clearance,) = model.limits, clearances
    w = limit.slope
    end = np.where(w > 0, below, np.where(w < 0, above, start))
    with np.errstate(all="ignore"):
        turn = a / w
        turn[~((turn >= 0) & (turn <= penalty))] = np.inf
    drop = np.where(turn < np.inf, w * (start - end), 0)
    excess = (w * start).sum(axis=-1) + limit.value + clearance
    order = np.argsort(turn, axis=-1, kind="stable")
    ordered = np.take_along_axis(drop, order, axis=-1)
    left = excess[..., None] - (np.cumsum(ordered, axis=-1) - ordered)
    with np.errstate(all="ignore"):
        part = np.clip(np.where(ordered > 0, left / ordered, 0), 0, 1)
    fraction = np.empty_like(part)
    np.put_along_axis(fraction, order, part, axis=-1)
    return np.asarray(start + fraction * (end - start))


def _programs(
    model: Model, below: Floats, above: Floats, clearances: list[Floats], penalty: float
) -> Floats:
    """Solve general linear programs one after another."""
    steps = np.zeros(below.shape)
    sloped = (*model.goals, *model.limits)
    for at in np.ndindex(below.shape[:-1]):
        slopes = np.stack([each.slope[at] for each in sloped])
        values = np.array([each.value[at] for each in sloped])
        for k, clearance in enumerate(clearances, len(model.goals)):
            values[k] += np.broadcast_to(clearance, below.shape[:-1])[at]
        found = _program(slopes, values, len(model.goals), below[at], above[at], penalty)
        if found is not None:
            steps[at] = found
    return steps


def _program(
    slopes: Floats, values: Floats, goals: int, below: Floats, above: Floats, penalty: float
) -> Floats | None:
    """Solve a linear program; None if that fails.

    Variables: the step, the least goal, and each limit's miss.
    """
    from scipy.optimize import linprog

    if not (np.isfinite(slopes).all() and np.isfinite(values).all()):
        return None
    inputs, limits = slopes.shape[1], len(slopes) - goals
    rows = np.zeros((len(slopes), inputs + 1 + limits))
    rows[:goals, :inputs], rows[goals:, :inputs] = -slopes[:goals], slopes[goals:]
    rows[:goals, inputs] = 1.0
    rows[goals:, inputs + 1 :] = -np.eye(limits)
    done = linprog(
        np.concatenate([np.zeros(inputs), [-1.0], np.full(limits, penalty)]),
        A_ub=rows,
        b_ub=np.concatenate([values[:goals], -values[goals:]]),
        bounds=[*zip(below, above, strict=True), (None, None), *([(0, None)] * limits)],
        method="highs",
    )
    return None if done.status != 0 or done.x is None else np.asarray(done.x[:inputs])


KNAPSACK: Final = Step(_knapsack, 1.5, 0.5, 1e-9)  # for one goal and at most one limit
PROGRAM: Final = Step(_programs, 2.0, 0.25, 1e-7)  # for any, at far more a point


def _choose(where: NDArray[np.bool_], first: Floats, second: Floats) -> Floats:
    """Return slopes of the first where a condition holds, else the second."""
    return np.asarray(np.where(where[..., None], first, second))


def _merge(
    where: NDArray[np.bool_], first: tuple[Sloped, ...], second: tuple[Sloped, ...]
) -> tuple[Sloped, ...]:
    """Return values and slopes of the first where a condition holds, else the second."""
    return tuple(
        Sloped(np.where(where, a.value, b.value), _choose(where, a.slope, b.slope))
        for a, b in zip(first, second, strict=True)
    )


@dataclass(frozen=True)
class Pass:
    """One ascent of a schedule."""

    tau: float  # half-width of the rounding, in typical sizes of each layer's pre-activations
    radius: float  # first trust region, in sides of the box
    penalty: float = 5.0  # of the member's margin
    steps: int = 10


_SHARP: Final = Pass(0.0, 0.02, 100.0)

COARSE: Final = (
    Pass(1.0, 0.25),
    Pass(0.5, 0.25),
    Pass(0.25, 0.1),
    Pass(0.12, 0.1),
    Pass(0.06, 0.05),
    Pass(0.03, 0.05),
    Pass(0.01, 0.03),
    _SHARP,
)
"""From anywhere, through what rounds off most."""

FINE: Final = (
    Pass(0.07, 0.1),
    Pass(0.025, 0.05),
    Pass(0.008, 0.03),
    Pass(0.003, 0.02),
    _SHARP,
)
"""From a place that is good already."""

QUICK: Final = (
    Pass(0.05, 0.1, steps=8),
    Pass(0.01, 0.05, steps=6),
    Pass(0.0, 0.02, 100.0, steps=14),
)
"""As `FINE`, in half the steps."""

PLAIN: Final = (Pass(0.0, 0.25, steps=30), Pass(0.0, 0.05, 100.0, steps=15))
"""Without any rounding: best where the bands are wide."""


def layer_sizes(network: Nets, points: Floats) -> tuple[float, ...]:
    """Return the typical spread of every layer's pre-activations over points, (p, d)."""
    values = network.activations(points[None])
    return tuple(max(float(v.std(axis=1).mean()), 1e-30) for v in values)


def smooth_ascent(
    problem: Problem,
    points: Floats,  # shape (m, p, d)
    schedule: tuple[Pass, ...],
    sizes: tuple[float, ...],
    *,
    hopeless: float = 0.0,
    deadline: Deadline = NEVER,
) -> Ascent:
    """Run the ascents of a schedule one after another."""
    for each in schedule[:-1]:
        if deadline.over:
            break
        found = ascend(
            problem,
            points,
            steps=each.steps,
            radius=each.radius,
            penalty=each.penalty,
            widths=tuple(each.tau * size for size in sizes) if each.tau else None,
            deadline=deadline,
        )
        points = found.last
        if hopeless > 0 and not (found.worth > hopeless).any():
            return Ascent(points, np.full_like(found.worth, -np.inf), found.worth, points)
    last = schedule[-1]
    return ascend(
        problem,
        points,
        steps=last.steps,
        radius=last.radius,
        penalty=last.penalty,
        deadline=deadline,
    )
