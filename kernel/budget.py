"""Models whose training rows differ in up to a number of rows: left out, relabelled, or one added.

All such changes move the minimum by about the sum of what each moves it alone; how far they are
from that sum is bounded for every choice of rows at once. See `leaveout.kernel.linear`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from .design import Region
from .family import Family, Part, Score
from .linear import Curvature, Problem, members, weakest
from .numbers import Floats, gamma, lengths, need, no_less, no_more

Kind = Literal["leave_out", "relabel", "add_one"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, eq=False)
class Change:
    """How training rows may differ: up to ``count`` units out or relabelled, or one row more."""

    kind: Kind
    count: int
    within: Region | None = None  # the inputs of an added row, which may have any label

    def __post_init__(self) -> None:
        need(self.kind in KINDS and self.count >= 1, "a change")
        need((self.kind == "add_one") == (self.within is not None), "inputs of an added row")
        need(self.kind != "add_one" or self.count == 1, "one row is added")


@dataclass(frozen=True, eq=False)
class Budget:
    """What up to ``count`` units can change in one fit.

    For any choice of units the minimum lies within ``radius`` of the fit plus K times the sum of
    b_j x_j over the rows of the chosen units.
    """

    count: int
    b: Floats  # shape (rows, outputs)
    step: Floats  # shape (units,): at least what a unit alone moves
    radius: float


def _most(values: Floats, count: int) -> float:
    """Bound the sum of the largest values."""
    count = min(count, len(values))
    total = np.partition(values, len(values) - count)[len(values) - count :].sum()
    return float(no_less(total * (1.0 + gamma(count + 2))))


def leave_out(problem: Problem, at: Curvature, count: int, tolerance: float = 0.0) -> Budget:
    """Bound the minima without any choice of up to ``count`` units."""
    need(count >= 1, "a number of units is at least 1")
    alone = members(problem, at, tolerance)
    leaving = no_less(np.maximum(no_more(at.floor) - alone.floor, 0.0) + 4.0 * gamma(4))
    moved, left = _most(alone.step, count), _most(leaving, count)
    # Units interact by what one's curvature does to the others' steps.
    cross = 0.0 if count == 1 else left * moved
    own = _most(no_less(alone.wrong), count)
    return Budget(
        count, alone.b, alone.step, _radius(problem, at, moved, left, cross + own, tolerance)
    )


def relabel(problem: Problem, at: Curvature, count: int, tolerance: float = 0.0) -> Budget:
    """Bound the minima after any up to ``count`` labels of two were flipped.

    A flip adds a linear function to the logistic loss, and to the squared one of targets -1 and 1,
    so the curvature stays as it is.
    """
    need(problem.kind in ("logistic", "squared"), "labels of this kind cannot be flipped")
    need(problem.single, "labels of rows are flipped, not of groups")
    if problem.kind == "squared":
        need(np.abs(problem.target) == 1, "only targets -1 and 1 can be flipped")
        sign, size = problem.target, 2.0
    else:
        sign, size = 2.0 * problem.target - 1.0, 1.0
    b = -size * sign * problem.weights
    step = no_less(np.abs(b) * at.norms[:, 0])
    radius = _radius(problem, at, _most(step, count), 0.0, 0.0, tolerance)
    return Budget(count, b[:, None], step, radius)


def add_one(
    problem: Problem, at: Curvature, reach: float, steepest: float, tolerance: float = 0.0
) -> float:
    """Bound how far one more row moves the minimum.

    Parameters
    ----------
    reach : float
        At least |R'x| of the row, of softmax of any difference of outputs.
    steepest : float
        At least the absolute slope of its loss at the fit, times its weight.

    Notes
    -----
    The added loss is convex: along any line from the fit its slope is at least what it is there.
    """
    pull = np.array([at.residue + reach * steepest + tolerance * float(lengths(lengths(at.R)))])
    floor = np.array([no_more(at.floor)])
    return float(weakest(problem, at, no_less(pull), floor, np.zeros(1))[0])


def _radius(
    problem: Problem, at: Curvature, moved: float, left: float, wrong: float, tolerance: float
) -> float:
    floor = np.array([no_more(max(float(no_more(at.floor)) - left, 0.0))])
    pull = at.residue + wrong + at.eta * moved + tolerance * float(lengths(lengths(at.R)))
    return float(weakest(problem, at, np.array([no_less(pull)]), floor, np.array([moved]))[0])


def budgets_of(family: Family, change: Change) -> tuple[Budget, ...]:
    """Bound what a change does to each fit; see `largest_fall`."""
    found = []
    for part in family.parts:
        problem, at, tolerance = part.problem, part.at, family.model.tolerance
        if change.within is not None:
            radius = _addition_radius(family, part, change.within)
            units = len(problem.starts) - 1
            found.append(Budget(1, np.zeros_like(at.slope), np.zeros(units), radius))
            continue
        if change.kind == "relabel":
            # Of more outputs a flip changes some and not others.
            need(len(family.model.labels) == 2 == len(family.parts) + 1, "two labels, one output")
        bound = leave_out if change.kind == "leave_out" else relabel
        found.append(bound(problem, at, change.count, tolerance))
    return tuple(found)


def _addition_radius(family: Family, part: Part, within: Region) -> float:
    """Bound how far a row of a region with any label moves a fit; its weight is 1."""
    problem, at = part.problem, part.at
    outputs, columns = at.theta.shape
    R = at.R.reshape(outputs, columns, -1)
    need(len(family.model.labels) > 0, "an added row may have any label, but there are none")
    if problem.kind == "softmax":
        pairs = ((c, r) for c in range(outputs) for r in range(c))
        reach, steepest = max(within.reach(R[c] - R[r]) for c, r in pairs), 1.0
    else:
        reach, steepest = within.reach(R[0]), 1.0
        if problem.kind != "logistic":
            size = within.error(np.abs(at.theta))
            most = np.abs(within.largest(np.concatenate([at.theta, -at.theta]))).max()
            # Of targets -1 and 1, and twice what is short of 1.
            steepest = float(no_less(1.0 + most + size[0])) * (
                2.0 if problem.kind == "hinge" else 1.0
            )
    return add_one(problem, at, reach * (1.0 + gamma(8)), steepest, family.model.tolerance)


def largest_fall(
    family: Family, budgets: tuple[Budget, ...], region: Region, score: Score
) -> tuple[float, Floats]:
    """Bound how far any choice of units lowers a score anywhere in a region.

    It is the sum, over the ``count`` units that lower it most, of the most that each lowers it; the
    second value is what each lowers it by.
    """
    alone, slack = np.zeros(len(family)), 0.0
    for part, budget, factor, folded in _parts(family, budgets, score):
        slack += budget.radius * region.reach(folded) + _rounding(part, budget, region, factor)
    for begin, end in family.blocks():
        apart = np.zeros((end - begin, family.model.design.width))
        for part, budget, _, folded in _parts(family, budgets, score):
            apart += part.moves(begin, end, budget.b) @ folded.T
        found = region.largest(-apart) + region.error(np.abs(apart))
        alone[begin:end] = np.maximum(found + gamma(8) * np.abs(found), 0.0)
    served = family.served_error(score, region.sizes, region.roundings)
    total = _most(alone, budgets[0].count) + slack * (1.0 + gamma(4096)) + 3.0 * served
    return (float(no_less(total)) if np.isfinite(total) else np.inf), alone


def _parts(
    family: Family, budgets: tuple[Budget, ...], score: Score
) -> Iterator[tuple[Part, Budget, Floats, Floats]]:
    """Yield the fits that have a say, with their budgets, factors and folded R."""
    own = [each for each, f in zip(budgets, score.factors, strict=True) if f is not None]
    for budget, (part, factor, folded) in zip(own, family.folds(score), strict=True):
        yield part, budget, factor, folded


def check_change(
    family: Family, region: Region, change: Change, label: int | None, upper: float
) -> None:
    """Check that a change alters no answer of a label above a bound, or no score by more.

    Parameters
    ----------
    label : int or None
        None: all outputs' scores, in either direction.

    Raises
    ------
    Rejected
        If it is not proved.
    """
    need(np.isfinite(upper), "the claim")
    budgets = budgets_of(family, change)
    for score in scores_of(family, label):
        need(largest_fall(family, budgets, region, score)[0] <= upper, f"not bounded by {upper}")


def scores_of(family: Family, label: int | None) -> list[Score]:
    """Return what must not be lowered: a label's margins, or each output and its negative."""
    if label is None:
        outputs = [family.output(k) for k in range(family.model.outputs)]
        return [sign for each in outputs for sign in (each, -each)]
    labels = len(family.model.labels)
    need(0 <= label < labels, "the label")
    return [family.margin(label, rival) for rival in range(labels) if rival != label]


def _rounding(part: Part, budget: Budget, region: Region, factor: Floats) -> float:
    lost = _most(part.sum_errors(budget.b), budget.count)
    drift = budget.radius + _most(budget.step, budget.count)
    wide = part.width(factor, region.sizes)
    return float(no_less((lost + gamma(region.roundings) * drift) * wide))
