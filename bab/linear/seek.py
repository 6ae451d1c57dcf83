"""Seek counter-examples: samples, then linear programs on the affine pieces around the best."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.linear.question import Question
from leaveout.encoders.query import Condition
from leaveout.models import Stack
from leaveout.models.replay import Runner

__all__ = ["Found", "Seeker"]

Floats = NDArray[np.float64]

_SAMPLES = 4000
_STARTS = 12
_PROGRAMS = 25
"""Linear programs a climb solves at most."""

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
    """

    value: float
    points: tuple[NDArray[np.float32], ...]
    scores: tuple[NDArray[np.float32], ...]


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
        self._runners: list[Runner] = [
            each.network.runner() for each in question.query.applications
        ]
        forms = question.forms
        self._size = np.abs(forms.constant) + np.abs(forms.inputs) @ np.maximum(
            np.abs(self.joint.box.lower), np.abs(self.joint.box.upper)
        )

    def first(self, deadline: float) -> Found | None:
        """Seek from samples of the whole box."""
        box = self.joint.box
        samples = box.sample(self.rng, _SAMPLES)
        corners = np.where(
            self.rng.random((_SAMPLES // 4, box.dimension)) < 0.5, box.lower, box.upper
        )
        points = np.concatenate([samples, box.nearest(corners), (box.lower + box.upper)[None] / 2])
        score = self._merit(points)
        order = np.argsort(-score)
        # Some of the best, not all of one place.
        starts = points[order[: 4 * _STARTS : 4]]
        best = None
        for each in points[order[:4]]:
            best = _better(best, self.replay(each))
        return _better(best, self.climb(starts, deadline))

    def climb(self, starts: Floats, deadline: float) -> Found | None:
        """Climb from some points and replay where they end."""
        best = None
        for start in starts:
            if time.perf_counter() >= deadline:
                break
            for point in self._path(start, deadline):
                best = _better(best, self.replay(point))
        return best

    def replay(self, joint: Floats) -> Found | None:
        """Round a joint point to float32 and return it if it is a counter-example."""
        query = self.question.query
        points = self._rounded(joint)
        if points is None:
            return None
        wide = [each.astype(np.float64) for each in points]
        scores = [
            runner.scores(points[each.point][None])[0]
            for runner, each in zip(self._runners, query.applications, strict=True)
        ]
        exact = [each.astype(np.float64) for each in scores]
        if query.reals:
            exact = [
                each.network.stack.scores(wide[each.point][None])[0, 0]
                for each in query.applications
            ]
        if not all(np.isfinite(each).all() for each in exact):
            return None
        if not all(each.holds(wide, exact) for each in self.question.case):
            return None
        # On the edge float64 may say so of what is not quite one.
        if not all(_holds_exactly(each, wide, exact) for each in self.question.case):
            return None
        value = min(form.value(wide, exact) for form in self.question.goals)
        return Found(value, tuple(points), tuple(scores))

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

    def _merit(self, points: Floats) -> Floats:
        """Return the least goal, less what conditions miss."""
        forms = self.question.forms
        values = forms.values(points, *self._scores(points))
        goal = values[forms.goal].min(axis=0)
        if forms.goal.all():
            return np.asarray(goal)
        missed = np.minimum(values[~forms.goal], 0.0).sum(axis=0)
        return np.asarray(goal + 1e3 * missed)

    def _scores(self, points: Floats) -> tuple[Floats, Floats]:
        first = self.joint.first.scores(points)[0]
        if not self.joint.is_pair:
            return first, np.zeros_like(first)
        return first, self.joint.second.scores(points)[0] - first

    def _path(self, start: Floats, deadline: float) -> list[Floats]:
        """Return points on the way up: a linear program on the affine piece at each."""
        box, forms = self.joint.box, self.question.forms
        width = np.maximum(box.upper - box.lower, 0.0)
        point, radius = box.clip(start), 0.25
        merit = float(self._merit(point[None])[0])
        path = [point]
        for _ in range(_PROGRAMS):
            if time.perf_counter() >= deadline or radius < 1e-6:
                break
            slopes, constants = self._piece(point)
            low = np.maximum(box.lower, point - radius * width)
            high = np.minimum(box.upper, point + radius * width)
            step = _program(slopes, constants - _MARGIN * (1 + self._size), forms.goal, low, high)
            if step is None:
                radius *= 0.4
                continue
            there = box.clip(step)
            gained = float(self._merit(there[None])[0])
            if gained > merit + 1e-12 * (1 + abs(merit)):
                point, merit = there, gained
                path.append(point)
                radius = min(0.5, 1.6 * radius)
            else:
                radius *= 0.4
        return path[-3:]

    def _piece(self, point: Floats) -> tuple[Floats, Floats]:
        """Return slopes, shape (k, inputs), and constants of every form on the piece at a point."""
        forms = self.question.forms
        jacobian = _jacobian(self.joint.first, point)
        slopes = forms.inputs + forms.scores @ jacobian
        if self.joint.is_pair:
            slopes = slopes + forms.change @ (_jacobian(self.joint.second, point) - jacobian)
        values = forms.values(point[None], *self._scores(point[None]))[:, 0]
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
