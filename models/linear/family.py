"""All models without one unit of rows each, known from one fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from leaveout.arrays import Floats, Integers
from leaveout.errors import LinearError
from leaveout.kernel.linear import (
    Curvature,
    Members,
    Problem,
    measure,
    members,
    score_error,
    survey,
)
from leaveout.kernel.model import LinearModel
from leaveout.kernel.numbers import Rejected, gamma, lengths, no_less
from leaveout.models.linear.fit import refit, whitening

Progress = Callable[[int, int], None]
"""Is told how many units were refitted, and of how many."""

_AT_FIRST = 2000
"""Most units that are refitted at once because their closed form proves nothing."""

_BLOCK = 2**22


class Part(NamedTuple):
    """One convex fit and its members."""

    problem: Problem
    at: Curvature
    members: Members


@dataclass(frozen=True, eq=False)
class Score:
    """A score of outputs: for each part, how much each of its outputs counts."""

    factors: tuple[Floats | None, ...]  # shape (outputs,) each; None for a part that has no say

    def of(self, coefficients: Floats) -> Floats:
        """Combine coefficients, shape (outputs, columns) -> (columns,)."""
        found, first = np.zeros(coefficients.shape[-1]), 0
        for factor in self.factors:
            count = 1 if factor is None else len(factor)
            if factor is not None:
                found = found + factor @ coefficients[first : first + count]
            first += count
        return found


@dataclass(frozen=True, eq=False)
class LinearFamily:
    """A linear model's members: centres, and radii about them; see `leaveout.kernel.linear`."""

    model: LinearModel
    parts: tuple[Part, ...]
    open: Integers = field(default_factory=lambda: np.zeros(0, np.int64))

    @staticmethod
    def of(model: LinearModel, progress: Progress = lambda done, of: None) -> LinearFamily:
        """Bound all members; those whose closed form tells nothing are refitted.

        Raises
        ------
        LinearError
            If the coefficients are so far from the minimum, or the rows so nearly dependent, that
            nothing can be told.
        """
        parts, first = [], 0
        for problem in model.problems:
            theta = model.coefficients[first : first + problem.outputs]
            first += problem.outputs
            try:
                at = survey(problem, theta, whitening(problem, theta))
                if not at.eta < 0.5:
                    raise Rejected(f"the curvature is known to a factor of {1 + at.eta:.3g} only")
                parts.append(Part(problem, at, members(problem, at, model.tolerance)))
            except Rejected as error:
                raise LinearError(f"the members cannot be bounded: {error}") from None
        family = LinearFamily(model, tuple(parts))
        wide = np.zeros(len(family), bool)
        for part in parts:
            wide |= ~np.isfinite(part.members.radius)
        return family.refined(np.flatnonzero(wide)[:_AT_FIRST], progress)

    def __len__(self) -> int:
        return len(self.model.unit_names)

    def refined(self, units: Integers, progress: Progress = lambda done, of: None) -> LinearFamily:
        """Return the family with some units refitted, which makes their radii tiny."""
        parts = []
        for part in self.parts:
            left = np.setdiff1d(units, part.members.measured)
            if not len(left):
                parts.append(part)
                continue
            centres = []
            for begin in range(0, len(left), 64):
                own = left[begin : begin + 64]
                start = self._closed(part, own)
                centres.append(_refit(part, own, start))
                progress(begin + len(own), len(left))
            found = measure(
                part.problem, part.at, part.members, left, np.concatenate(centres),
                self.model.tolerance,
            )  # fmt: skip
            # A closed form that is nearer stays; centres of their own must not make it worse.
            parts.append(part._replace(members=found))
        return replace(self, parts=tuple(parts))

    @staticmethod
    def _closed(part: Part, units: Integers) -> Floats:
        """Return the centres of units in closed form, shape (units, outputs, columns)."""
        problem, at = part.problem, part.at
        found = np.empty((len(units), *at.theta.shape))
        for k, unit in enumerate(units.tolist()):
            own = slice(int(problem.starts[unit]), int(problem.starts[unit + 1]))
            flat = (part.members.b[own].T @ problem.rows(own.start, own.stop)).reshape(-1)
            found[k] = at.theta + (at.R @ (flat @ at.R)).reshape(at.theta.shape)
        return found

    def margin(self, label: int, rival: int) -> Score:
        """Return the score of one label minus that of another."""
        model = self.model
        if model.outputs == 1:
            return Score((np.array([1.0 if label else -1.0]),))
        if len(self.parts) == 1:
            factor = np.zeros(model.outputs)
            factor[label], factor[rival] = 1.0, -1.0
            return Score((factor,))
        return Score(
            tuple(
                np.array([1.0 if k == label else -1.0]) if k in (label, rival) else None
                for k in range(model.outputs)
            )
        )

    def output(self, output: int) -> Score:
        """Return the score of one output."""
        if len(self.parts) == 1:
            return Score((np.eye(self.model.outputs)[output],))
        parts = range(len(self.parts))
        return Score(tuple(np.ones(1) if k == output else None for k in parts))

    def folded(self, score: Score) -> Iterator[tuple[Part, Floats]]:
        """Yield the parts that have a say, with R's rows combined, shape (columns, parameters)."""
        for part, factor in zip(self.parts, score.factors, strict=True):
            if factor is not None:
                outputs, columns = part.at.theta.shape
                yield part, np.einsum("q,qke->ke", factor, part.at.R.reshape(outputs, columns, -1))

    def apart(self, score: Score, first: int, last: int) -> Floats:
        """Return the centres of units minus the fit, combined, shape (units, columns)."""
        found = np.zeros((last - first, self.model.design.width))
        for part, folded in self.folded(score):
            problem, known = part.problem, part.members
            starts = problem.starts[first : last + 1]
            rows = problem.rows(int(starts[0]), int(starts[-1]))
            b = known.b[starts[0] : starts[-1]]
            flat = (b[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
            if not problem.single:
                flat = np.add.reduceat(flat, starts[:-1] - starts[0], axis=0)
            found += (flat @ part.at.R) @ folded.T
            self._put_measured(part, score, found, first, last)
        return found

    def _put_measured(self, part: Part, score: Score, found: Floats, first: int, last: int) -> None:
        known, theta = part.members, part.at.theta
        factor = score.factors[self.parts.index(part)]
        assert factor is not None
        low, high = np.searchsorted(known.measured, [first, last])
        own = known.centres[low:high] - theta
        found[known.measured[low:high] - first] += np.einsum("q,mqk->mk", factor, own)

    def rounding(self, score: Score, across: Sequence[float]) -> Floats:
        """Bound what `apart` lost in products with inputs, shape (units,).

        ``across`` is for each part that has a say at least |R|'|x| of those inputs, Euclidean.
        """
        found = np.zeros(len(self))
        for (part, _), far in zip(self.folded(score), across, strict=True):
            at, b = part.at, part.members.b
            near = float((lengths(at.R).reshape(*at.theta.shape) * at.sizes).sum(axis=1).max())
            total = np.abs(b).sum(axis=1)
            if not part.problem.single:
                total = np.add.reduceat(total, part.problem.starts[:-1])
            count = 3 * at.R.shape[0] + int(np.diff(part.problem.starts).max()) + 8
            found += gamma(count) * no_less(total) * near * far
        return np.asarray(no_less(found))

    def radius(self, reach: Sequence[float]) -> Callable[[Score], Floats]:
        """Return what members may add to a score, given |R' x| for each part that has a say."""

        def of(score: Score) -> Floats:
            total = np.zeros(len(self))
            for (part, _), far in zip(self.folded(score), reach, strict=True):
                total = total + part.members.radius * far
            return np.asarray(no_less(total))

        return of

    @cached_property
    def error(self) -> Callable[[Floats, Floats], float]:
        """Bound what rounding changes in a served score: of coefficients, at sizes of columns."""
        width = self.model.design.width

        def bound(coefficients: Floats, sizes: Floats) -> float:
            return score_error(sizes, coefficients, more=width + 96)

        return bound

    def centre(self, unit: int) -> Floats:
        """Return a member's centre, shape (outputs, columns)."""
        found = []
        for part in self.parts:
            place = np.searchsorted(part.members.measured, unit)
            if place < len(part.members.measured) and part.members.measured[place] == unit:
                found.append(part.members.centres[place])
            else:
                found.append(self._closed(part, np.array([unit]))[0])
        return np.concatenate(found)


def _refit(part: Part, units: Integers, start: Floats) -> Floats:
    try:
        return refit(part.problem, part.at, part.members, units, start)
    except (LinearError, Rejected):
        # One after the other, so that one without a minimum leaves the others alone.
        found = start.copy()
        for k in range(len(units)):
            try:
                one = refit(part.problem, part.at, part.members, units[k : k + 1], start[k : k + 1])
                found[k] = one[0]
            except (LinearError, Rejected):
                continue
        return found
