"""The members of a linear model, and the claims about them that hold for whole sets of inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .design import Region, leaks
from .linear import Curvature, Members, Problem, measure, members, survey
from .model import LinearModel
from .numbers import Floats, gamma, lengths, need, no_less

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Part:
    """One convex fit and its members."""

    problem: Problem
    at: Curvature
    members: Members

    @cached_property
    def norms(self) -> Floats:
        """At least the norms of R's rows, shape (outputs, columns)."""
        return lengths(self.at.R).reshape(self.at.theta.shape)

    def sum_errors(self, b: Floats) -> Floats:
        """Return what rounding changes in K sum b_j x_j, relative to norms times sizes, by unit."""
        starts = self.problem.starts
        near = float(no_less((self.norms * self.at.sizes).sum(axis=1)).max())
        most, longest = np.add.reduceat(np.abs(b).sum(axis=1), starts[:-1]), np.diff(starts).max()
        count = 3 * self.at.R.shape[0] + int(longest) + 8
        return np.asarray(no_less(gamma(count) * no_less(most) * near))

    @cached_property
    def centre_errors(self) -> Floats:
        """What rounding changes in a closed centre, relative to norms times sizes, by unit."""
        found = self.sum_errors(self.members.b)
        found[self.members.measured] = 0.0
        return found

    def width(self, factor: Floats, sizes: Floats) -> float:
        """Bound norms times sizes of design columns, for outputs that count by factors."""
        across = no_less((self.norms * sizes).sum(axis=1))
        return float(no_less((np.abs(factor) * across).sum()))

    @cached_property
    def distances(self) -> Floats:
        """At least how far members are from the fit; of measured ones, from their centres."""
        known = self.members
        step = known.step.copy()
        step[known.measured] = 0.0
        return step + np.where(np.isfinite(known.radius), known.radius, 0.0)

    def moves(self, first: int, last: int, b: Floats | None = None) -> Floats:
        """Return how units move the fit, in the coordinates of R, shape (units, parameters).

        By b of the members, shape (rows, outputs), unless another is given; that of measured units
        is 0.
        """
        starts = self.problem.starts[first : last + 1]
        rows = self.problem.rows(int(starts[0]), int(starts[-1]))
        b = (self.members.b if b is None else b)[starts[0] : starts[-1]]
        flat = (b[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
        if not self.problem.single:
            flat = np.add.reduceat(flat, starts[:-1] - starts[0], axis=0)
        return np.asarray(flat @ self.at.R)

    def places(self, units: Integers) -> tuple[Integers, Integers]:
        """Return which of some units are measured, and their places among those."""
        measured = self.members.measured
        place = np.searchsorted(measured, units)
        inside = place < len(measured)
        inside[inside] = measured[place[inside]] == units[inside]
        return np.flatnonzero(inside), place[inside]


class Hints(NamedTuple):
    """What is needed beside a model's file to bound its members, for each of its fits."""

    R: Floats  # see `leaveout.kernel.linear`
    measured: Integers
    centres: Floats


Mixture = tuple[int, Floats]
"""A label, and for some units how much its margin over each label counts, (units, labels).

N's confidence is the least of its margins, so any mean of them bounds it. All 0: one rival's alone.
"""


@dataclass(frozen=True, eq=False)
class Score:
    """A combination of outputs: for each fit, how much each of its outputs counts."""

    factors: tuple[Floats | None, ...]  # shape (outputs,) each; None for a fit that has no say

    def of(self, coefficients: Floats) -> Floats:
        """Combine coefficients, shape (outputs, columns) -> (columns,)."""
        found, first = np.zeros(coefficients.shape[-1]), 0
        for factor in self.factors:
            count = 1 if factor is None else len(factor)
            if factor is not None:
                found = found + factor @ coefficients[first : first + count]
            first += count
        return found

    def __neg__(self) -> Score:
        return Score(tuple(None if each is None else -each for each in self.factors))

    @property
    def sizes(self) -> Score:
        """The combination with absolute factors."""
        return Score(tuple(None if each is None else np.abs(each) for each in self.factors))


@dataclass(frozen=True, eq=False)
class Family:
    """A linear model's members: a centre for each unit, and a radius about it."""

    model: LinearModel
    parts: tuple[Part, ...]

    def __len__(self) -> int:
        return len(self.parts[0].members.radius)

    def margin(self, label: int, rival: int) -> Score:
        """Return the score of one label minus that of another."""
        outputs = self.model.outputs
        if outputs == 1:
            return Score((np.array([1.0 if label else -1.0]),))
        if len(self.parts) == 1:
            factor = np.zeros(outputs)
            factor[label], factor[rival] = 1.0, -1.0
            return Score((factor,))
        signs = {label: np.ones(1), rival: -np.ones(1)}
        return Score(tuple(signs.get(k) for k in range(outputs)))

    def output(self, output: int) -> Score:
        """Return the score of one output."""
        # The same number added to all outputs of softmax may leave the gradient as it is.
        unique = self.model.kind != "softmax" or self.model.tolerance == 0
        need(unique, "with a tolerance, only differences of softmax's scores are known")
        if len(self.parts) == 1:
            return Score((np.eye(self.model.outputs)[output],))
        parts = range(len(self.parts))
        return Score(tuple(np.ones(1) if k == output else None for k in parts))

    def folds(self, score: Score) -> Iterator[tuple[Part, Floats, Floats]]:
        """Yield each fit that has a say, its factors, and R folded to (columns, parameters)."""
        for part, factor in zip(self.parts, score.factors, strict=True):
            if factor is not None:
                outputs, columns = part.at.theta.shape
                R = part.at.R.reshape(outputs, columns, -1)
                yield part, factor, R[0] * factor[0] if outputs == 1 else np.tensordot(factor, R, 1)

    def apart(self, score: Score, first: int, last: int) -> Floats:
        """Return the centres of units minus the model, combined, shape (units, columns)."""
        found = np.zeros((last - first, self.model.design.width))
        for part, factor, folded in self.folds(score):
            known = part.members
            found += part.moves(first, last) @ folded.T
            low, high = np.searchsorted(known.measured, [first, last])
            own = known.centres[low:high] - part.at.theta
            found[known.measured[low:high] - first] += np.einsum("q,mqk->mk", factor, own)
        return found

    def slack(
        self,
        score: Score,
        sizes: Floats,
        reach: Sequence[float],
        count: int,
        units: Integers | None = None,
    ) -> Floats:
        """Bound what members, as they are served, may differ from their centres, shape (units,).

        Parameters
        ----------
        score : Score
        sizes : ndarray, shape (columns,)
            At least the absolute values of the design columns.
        reach : sequence of float
            For each fit that has a say, at least |R'x|, R folded.
        count : int
            Roundings of a served score.
        units : ndarray of int64, optional
            All, if left out.
        """
        units = np.arange(len(self)) if units is None else units
        total = np.zeros(len(units))
        served = gamma(count)
        for (part, factor, _), far in zip(self.folds(score), reach, strict=True):
            known, theta = part.members, part.at.theta
            wide = part.width(factor, sizes)
            total += known.radius[units] * far
            total += (part.centre_errors[units] + served * part.distances[units]) * wide
            measured, places = part.places(units)
            if len(places):
                centres = known.centres[places]
                own = np.abs(centres - theta).max(axis=1)
                size = np.abs(centres).max(axis=1) + np.abs(theta).max(axis=0)
                lost = gamma(8) * no_less(size @ sizes) * len(factor)
                total[measured] += lost + served * no_less(own @ sizes) * np.abs(factor).sum()
        total = total * (1.0 + gamma(4096))
        return np.asarray(no_less(total + self.served_error(score, sizes, count)))

    def served_error(self, score: Score, sizes: Floats, count: int) -> float:
        """Bound what rounding changes in a combination of the model's served scores."""
        size = score.sizes.of(np.abs(self.model.coefficients)) @ sizes
        return float(no_less(gamma(count) * no_less(size)))

    def slack_over(self, score: Score, region: Region) -> Floats:
        """Bound what members may differ from their centres over a region, shape (units,)."""
        reach = [region.reach(folded) for _, _, folded in self.folds(score)]
        return self.slack(score, region.sizes, reach, region.roundings)

    def bounds(
        self,
        region: Region,
        score: Score,
        apart: Floats,
        slack: Floats,
        t: Floats,
        level: float = 0.0,
        mixture: Mixture | None = None,
    ) -> Floats:
        """Bound N's score, or a mixture, where members told by `apart` are at most at a level."""
        own = score.of(self.model.coefficients)
        if mixture is None:
            found = leaks(region, own, apart, slack, t, level)
            return np.asarray(found + self.served_error(score, region.sizes, region.roundings))
        mixed, size = self._mix(score, mixture)
        found = leaks(region, own, apart, slack, t, level, mixed)
        lost = gamma(region.roundings + len(self.model.labels)) * (size @ region.sizes)
        return np.asarray(found + no_less(2.0 * lost))

    def _mix(self, score: Score, mixture: Mixture) -> tuple[Floats, Floats]:
        """Return N's margins mixed for each unit, and the sizes of what was added up."""
        label, weights = mixture
        labels, coefficients = len(self.model.labels), self.model.coefficients
        need(weights.shape[1:] == (labels,) and np.all(weights[:, label] == 0), "a mixture")
        need((weights >= 0) & np.isfinite(weights), "a weight is negative or no number")
        # N's confidence is positive and at most each margin: weights must sum to 1 or more.
        total = weights.sum(axis=1)
        need((total == 0) | (total >= 1.0 + 1e-12), "weights sum to less than 1")
        rivals = [each for each in range(labels) if each != label]
        margins = [self.margin(label, rival) for rival in rivals]
        own = np.stack([each.of(coefficients) for each in margins])
        sizes = np.stack([each.sizes.of(np.abs(coefficients)) for each in margins])
        none = (total == 0)[:, None]
        mixed = np.where(none, score.of(coefficients), weights[:, rivals] @ own)
        size = np.where(none, score.sizes.of(np.abs(coefficients)), weights[:, rivals] @ sizes)
        return mixed, np.asarray(no_less(size))

    def shift_bounds(
        self, region: Region, score: Score, first: int, last: int, slack: Floats
    ) -> tuple[Floats, Floats]:
        """Bound the least and the greatest change of a served score, shape (units,) each."""
        return self.shifts(region, score, self.apart(score, first, last), slack[first:last])

    def shifts(
        self, region: Region, score: Score, apart: Floats, slack: Floats
    ) -> tuple[Floats, Floats]:
        """Bound the change of a served score by members that are told by `apart`."""
        error = region.error(np.abs(apart)) + slack
        high, low = region.largest(apart) + error, -region.largest(-apart) - error
        served = self.served_error(score, region.sizes, region.roundings)
        return low - gamma(8) * np.abs(low) - served, high + gamma(8) * np.abs(high) + served

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Return ranges of units whose centres fit into memory together."""
        width = self.model.design.width * max(each.problem.outputs for each in self.parts)
        return self.parts[0].problem.unit_blocks(2 * width)


def prove_members(model: LinearModel, hints: Sequence[Hints]) -> Family:
    """Bound all members of a model.

    Raises
    ------
    Rejected
        If the hints do not fit the model; bad ones only make wide radii.
    """
    problems = model.problems
    need(len(hints) == len(problems), "one hint a fit")
    parts, first = [], 0
    for problem, hint in zip(problems, hints, strict=True):
        theta = model.coefficients[first : first + problem.outputs]
        first += problem.outputs
        at = survey(problem, theta, hint.R)
        known = members(problem, at, model.tolerance)
        if len(hint.measured):
            known = measure(problem, at, known, hint.measured, hint.centres, model.tolerance)
        parts.append(Part(problem, at, known))
    return Family(model, tuple(parts))


def check_leaks(
    family: Family,
    region: Region,
    label: int,
    upper: float,
    multipliers: Mapping[int, Floats],
    weights: Mapping[int, Floats] | None = None,
) -> None:
    """Check that where a member does not answer a label, N's confidence in it is at most a bound.

    Parameters
    ----------
    multipliers : mapping of int to ndarray of float64, shape (units,) or ()
        By rival label.
    weights : mapping of int to ndarray of float64, shape (units, labels), optional
        By rival label; see `Mixture`.

    Raises
    ------
    Rejected
        If it is not proved of every member.
    """  # fmt: skip
    labels = len(family.model.labels)
    need(labels > 0 and 0 <= label < labels and np.isfinite(upper), "the claim")
    for rival in range(labels):
        if rival == label:
            continue
        need(rival in multipliers, f"no multipliers for label {rival}")
        own = (weights or {}).get(rival)
        check_bounds(
            family, region, family.margin(label, rival), 0.0, upper, multipliers[rival],
            None if own is None else (label, own),
        )  # fmt: skip


def check_bounds(
    family: Family,
    region: Region,
    score: Score,
    level: float,
    upper: float,
    multipliers: Floats,
    mixture: Mixture | None = None,
) -> None:
    """Check that where a member's score is at most a level, N's is at most a bound.

    Parameters
    ----------
    multipliers : ndarray of float64, shape (units,) or ()

    Raises
    ------
    Rejected
        If it is not proved of every member.
    """  # fmt: skip
    need(np.isfinite([upper, level]).all(), "the claim")
    need(multipliers.shape in ((), (len(family),)), "one multiplier a unit")
    need(mixture is None or len(mixture[1]) == len(family), "one mixture a unit")
    t = np.broadcast_to(multipliers, (len(family),))
    slack = family.slack_over(score, region)
    for first, last in family.blocks():
        apart = family.apart(score, first, last)
        mixed = None if mixture is None else (mixture[0], mixture[1][first:last])
        found = family.bounds(region, score, apart, slack[first:last], t[first:last], level, mixed)
        wrong = ~(found <= upper)
        at = first + int(np.argmax(wrong))
        need(~wrong, f"unit {at} is not bounded by {upper}")


def check_shifts(family: Family, region: Region, output: int, upper: float) -> None:
    """Check that no member's score differs from N's by more than a bound; raise `Rejected`."""
    need(np.isfinite(upper), "the claim")
    score = family.output(output)
    slack = family.slack_over(score, region)
    for first, last in family.blocks():
        low, high = family.shift_bounds(region, score, first, last, slack)
        need((-low <= upper) & (high <= upper), f"output {output} is not bounded by {upper}")
