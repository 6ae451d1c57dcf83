"""Seek counter-examples: samples, then linear programs on the affine pieces around the best."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.native.question import Question
from leaveout.deadline import Deadline
from leaveout.encoders.query import Condition
from leaveout.models import Stack

__all__ = ["Found", "Seeker"]

Floats = NDArray[np.float64]

_SAMPLES = 4000
_STARTS = 12
_PROGRAMS = 25
"""Linear programs a climb solves at most."""

_MEMBERS = 16
"""Members that are sampled."""

_CASES = 64
"""Cases that are looked at with all samples, whatever the time."""

_SCORED = 256
"""Points by which they are chosen."""

_PRODUCTS = 2**22
"""Values of forms that are looked at together."""

_KEPT = 64
"""Networks of members that are kept at hand."""

_MARGIN = 1e-7
"""By how much a climb wants conditions to hold, relative to their terms: float32 rounds later."""


@dataclass(frozen=True, eq=False)
class Found:
    """A replayed counter-example.

    Attributes
    ----------
    value : float
        The least goal, of float32 points and scores (of exact scores for claims over the reals).
    points : tuple of ndarray of float32, shape (features,)
    scores : tuple of ndarray of float32, shape (labels,)
        Of every application, as onnxruntime gives them.
    member : int
        Which combination of members it is one of; 0 where there is no family.
    case : int
    place : ndarray of float64, shape (joint,)
        The joint point that it came of.
    """

    value: float
    points: tuple[NDArray[np.float32], ...]
    scores: tuple[NDArray[np.float32], ...]
    member: int
    case: int
    place: Floats


@dataclass(frozen=True, eq=False)
class _Start:
    """Where to climb from."""

    merit: float
    case: int
    member: int
    point: Floats


class Seeker:
    """Seeks in one question.

    Parameters
    ----------
    question : Question
    seed : int
    """

    def __init__(self, question: Question, seed: int = 0) -> None:
        self.question = question
        self.joint = question.joint
        self.rng = np.random.default_rng(seed)
        self._stacks: dict[int, Stack] = {}
        forms = question.forms
        self._size = np.abs(forms.constant) + np.abs(forms.inputs) @ np.maximum(
            np.abs(self.joint.box.lower), np.abs(self.joint.box.upper)
        )

    def first(self, deadline: Deadline) -> Found | None:
        """Seek from samples of the whole box, in every case and some members."""
        box, cases = self.joint.box, self.question.forms.cases
        samples = box.sample(self.rng, _SAMPLES)
        corners = np.where(
            self.rng.random((_SAMPLES // 4, box.dimension)) < 0.5, box.lower, box.upper
        )
        points = np.concatenate([samples, box.nearest(corners), (box.lower + box.upper)[None] / 2])
        # Of many cases each is looked at with fewer points.
        points = points[:: -(-cases // _CASES)]
        starts: list[_Start] = []
        members = self._promising(samples[:_SCORED], deadline)
        for member in members:
            scores = self._scores(points, member)
            for case in range(cases):
                if case >= _CASES and deadline.over:
                    break
                merit = self._merit(points, scores, case)
                order = np.argsort(-merit)
                # Some of the best, not all of one place.
                starts += [
                    _Start(float(merit[i]), case, member, points[i])
                    for i in order[: max(1, 4 * _STARTS // (cases * len(members))) : 4]
                ]
            if deadline.over:
                break
        starts.sort(key=lambda start: -start.merit)
        best = None
        for start in starts[: max(4, 2 * cases)]:
            best = _better(best, self.replay(start.point, start.case, start.member))
        for start in starts[:_STARTS]:
            best = _better(best, self.climb(start.point, start.case, start.member, deadline))
        return best

    def _promising(self, points: Floats, deadline: Deadline) -> list[int]:
        """Return the members whose best of some points are the best."""
        count, forms = len(self.joint.members), self.question.forms
        if count <= _MEMBERS:
            return list(range(count))
        first = self.joint.first.scores(points)[0]
        alone = forms.values(points, first, np.zeros_like(first))
        merit = np.full(count, -np.inf)
        step = max(1, _PRODUCTS // (len(alone) * len(points)))
        order = self.rng.permutation(count).astype(np.int64)
        for start in range(0, count, step):
            for chosen, stack in self.joint.members.chunks(order[start : start + step]):
                change = stack.scores(points) - first
                values = alone + np.matmul(forms.change, change.transpose(0, 2, 1))
                merit[chosen] = np.max(
                    [
                        self._least(values[:, forms.case(case)], case).max(axis=1)
                        for case in range(forms.cases)
                    ],
                    axis=0,
                )
            if deadline.over:
                break
        best: list[int] = np.argsort(-merit, kind="stable")[:_MEMBERS].tolist()
        return best

    def climb(self, start: Floats, case: int, member: int, deadline: Deadline) -> Found | None:
        """Climb from a point and replay where that ends."""
        best = None
        if not deadline.over:
            for point in self._path(start, case, member, deadline):
                best = _better(best, self.replay(point, case, member))
        return best

    def replay(self, joint: Floats, case: int, member: int) -> Found | None:
        """Round a joint point to float32 and return it if it is a counter-example of a case."""
        query, asked = self.question.query, self.question.cases[case]
        points = self._rounded(joint)
        if points is None:
            return None
        wide = [each.astype(np.float64) for each in points]
        own = [int(index[0]) for index in self.joint.members.indices(np.array([member]))]
        scores, exact = [], []
        for a, each in enumerate(query.applications):
            chosen = None if each.family is None else own[each.family]
            applied = self.question.errors.applied[a]
            scores.append(applied.runner(chosen).scores(points[each.point][None])[0])
            if not query.reals:
                exact.append(scores[-1].astype(np.float64))
                continue
            exact.append(applied.stack(chosen).scores(wide[each.point][None])[0, 0])
        if not all(np.isfinite(each).all() for each in exact):
            return None
        if not all(each.holds(wide, exact) for each in asked.conditions):
            return None
        # On the edge float64 may say so of what is not quite one.
        if not all(_holds_exactly(each, wide, exact) for each in asked.conditions):
            return None
        value = min(form.value(wide, exact) for form in asked.goals)
        return Found(value, tuple(points), tuple(scores), member, case, joint)

    def _rounded(self, joint: Floats) -> list[NDArray[np.float32]] | None:
        """Return the points as float32 numbers in their boxes; None if that cannot be."""
        points: list[NDArray[np.float32]] = []
        for box, matrix in zip(self.question.query.points, self.joint.points, strict=True):
            place = box.clip(matrix @ joint)
            if box.choices:
                place = box.nearest(place[None])[0]
            point = place.astype(np.float32)
            wide = point.astype(np.float64)
            low = np.nextafter(point, np.float32(np.inf))
            high = np.nextafter(point, np.float32(-np.inf))
            point = np.where(wide < box.lower, low, np.where(wide > box.upper, high, point))
            # A second point that agrees with the first but for a rounding does agree.
            if not box.contains(point.astype(np.float64)[None])[0]:
                return None
            points.append(point.astype(np.float32))
        return points

    def _merit(self, points: Floats, scores: tuple[Floats, Floats], case: int) -> Floats:
        """Return the least goal, less what conditions miss, shape (n,)."""
        rows = self.question.forms.case(case)
        return self._least(self.question.forms.values(points, *scores, rows), case)

    def _least(self, values: Floats, case: int) -> Floats:
        """Return the least goal of a case's forms, less what its conditions miss.

        Parameters
        ----------
        values : ndarray of float64, shape (..., rows of the case, n)
        case : int
        """
        goal = self.question.forms.goal[self.question.forms.case(case)]
        missed = np.minimum(values[..., ~goal, :], 0.0).sum(axis=-2)
        return np.asarray(values[..., goal, :].min(axis=-2) + 1e3 * missed)

    def _scores(self, points: Floats, member: int) -> tuple[Floats, Floats]:
        first = self.joint.first.scores(points)[0]
        if not self.joint.is_pair:
            return first, np.zeros_like(first)
        return first, self._second(member).scores(points)[0] - first

    def _second(self, member: int) -> Stack:
        if member not in self._stacks:
            while len(self._stacks) >= _KEPT:
                self._stacks.pop(next(iter(self._stacks)))
            self._stacks[member] = self.joint.members.take(np.array([member], np.int64))
        return self._stacks[member]

    def _path(self, start: Floats, case: int, member: int, deadline: Deadline) -> list[Floats]:
        """Return points on the way up: a linear program on the affine piece at each."""
        rows = self.question.forms.case(case)
        goal, size = self.question.forms.goal[rows], self._size[rows]
        lower, upper = self.joint.regions[case]
        width = np.maximum(upper - lower, 0.0)
        point, radius = self.joint.box.clip(np.clip(start, lower, upper)), 0.25
        merit = float(self._merit(point[None], self._scores(point[None], member), case)[0])
        path = [point]
        for _ in range(_PROGRAMS):
            if deadline.over or radius < 1e-6:
                break
            slopes, constants = self._piece(point, case, member)
            low = np.maximum(lower, point - radius * width)
            high = np.minimum(upper, point + radius * width)
            step = _program(slopes, constants - _MARGIN * (1 + size), goal, low, high)
            if step is None:
                radius *= 0.4
                continue
            there = self.joint.box.clip(step)
            gained = float(self._merit(there[None], self._scores(there[None], member), case)[0])
            if gained > merit + 1e-12 * (1 + abs(merit)):
                point, merit = there, gained
                path.append(point)
                radius = min(0.5, 1.6 * radius)
            else:
                radius *= 0.4
        return path[-3:]

    def _piece(self, point: Floats, case: int, member: int) -> tuple[Floats, Floats]:
        """Return slopes, shape (k, inputs), and constants of every form on the piece at a point."""
        forms, rows = self.question.forms, self.question.forms.case(case)
        jacobian = _jacobian(self.joint.first, point)
        slopes = forms.inputs[rows] + forms.scores[rows] @ jacobian
        if self.joint.is_pair:
            change = _jacobian(self._second(member), point) - jacobian
            slopes = slopes + forms.change[rows] @ change
        values = forms.values(point[None], *self._scores(point[None], member), rows)[:, 0]
        return slopes, values - slopes @ point


def _holds_exactly(condition: Condition, points: list[Floats], scores: list[Floats]) -> bool:
    form = condition.form
    total = Fraction(form.constant)
    total += sum(Fraction(c) * Fraction(float(points[p][i])) for p, i, c in form.features)
    total += sum(Fraction(c) * Fraction(float(scores[a][j])) for a, j, c in form.scores)
    return total > 0 if condition.strict else total >= 0


def _better(first: Found | None, second: Found | None) -> Found | None:
    if first is None or (second is not None and second.value > first.value):
        return second
    return first


def _jacobian(stack: Stack, point: Floats) -> Floats:
    """Slopes of the scores on the affine piece at a point, shape (scores, inputs)."""
    values = stack.activations(point[None])
    slopes: list[Floats] = [np.eye(stack.inputs)]
    result = slopes[0]
    for layer, value in zip(stack.layers, values, strict=True):
        result = np.zeros((layer.width, stack.inputs))
        for s, weight in layer.weights.items():
            result = result + weight[0] @ slopes[s]
        slopes.append(result * (value.reshape(-1) > 0)[:, None])
    return result


def _program(
    slopes: Floats, constants: Floats, goal: NDArray[np.bool_], low: Floats, high: Floats
) -> Floats | None:
    """Maximise the least goal plus a large price on what the other forms miss."""
    from scipy.optimize import linprog

    inputs, others = slopes.shape[1], int((~goal).sum())
    # Variables: the point, the least goal, and how much each other form misses.
    cost = np.concatenate([np.zeros(inputs), [-1.0], np.full(others, 1e3)])
    rows = np.zeros((len(slopes), inputs + 1 + others))
    rows[:, :inputs] = -slopes
    rows[goal, inputs] = 1.0
    rows[np.flatnonzero(~goal), inputs + 1 + np.arange(others)] = -1.0
    if not (np.isfinite(rows).all() and np.isfinite(constants).all()):
        return None
    bounds = [*zip(low, high, strict=True), (None, None), *([(0, None)] * others)]
    done = linprog(cost, A_ub=rows, b_ub=constants, bounds=bounds, method="highs")
    if done.status != 0 or done.x is None:
        return None
    return np.asarray(done.x[:inputs])
