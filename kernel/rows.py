"""What a counter-example meets: linear forms of the input, the scores and their change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .networks import Flags, Integers, Net
from .numbers import UNIT, Floats, gamma, need

Form = tuple[Floats, Floats, Floats, Floats]
"""Coefficients of inputs, scores and their change, and a constant, one row a node."""


@dataclass(frozen=True, eq=False)
class CaseRows:
    """Forms of one case, ``inputs u + scores z + change dz + constant``: a goal, or at least 0."""

    inputs: Floats  # shape (r, inputs): coefficients of the input before it is shifted
    scores: Floats  # shape (r, labels)
    change: Floats  # shape (r, labels)
    constant: Floats  # shape (r,)
    errors: Floats  # shape (r,): the most that float32 evaluation adds over the whole region
    goal: Flags  # shape (r,): which are goals, whose least is bounded
    sums: Integers  # shape (s, 2): pairs of rows whose sum is bounded as well
    slip: Floats  # shape (r, labels): rounding of the coefficients of scores


class Rows:
    """The rows of some cases over one region, for shifted inputs."""

    def __init__(self, cases: Sequence[CaseRows], net: Net) -> None:
        self.inputs, self.scores, self.change, fixed, self.errors, self.goal, slip = (
            np.concatenate([getattr(case, key) for case in cases])
            for key in ("inputs", "scores", "change", "constant", "errors", "goal", "slip")
        )
        self.constant = fixed + self.inputs @ net.origin
        self._terms, self._terms_d = net.terms[-1], net.terms_d[-1]
        far = np.abs(net.origin) + np.maximum(np.abs(net.lower), np.abs(net.upper))
        sizes = np.abs(fixed) + np.abs(self.inputs) @ far
        # A constant alone is exact.
        placed = np.where(self.inputs.any(1), sizes, 0.0)
        self._placed = 2 * gamma(6 * net.inputs + 64) * placed + 1.01 * (slip @ self._terms)
        sizes += np.abs(self.scores) @ self._terms + np.abs(self.change) @ self._terms_d
        self._sizes = 2 * sizes
        self._starts = np.cumsum([0, *(len(case.goal) for case in cases)])
        widest = int(np.diff(self._starts).max())
        self._unit = gamma(4 * widest + 6 * net.inputs + 4 * net.labels + 128)
        # By case: its rows, then its sums, as the positions of their one or two rows.
        self.most_asked = max(len(case.goal) + len(case.sums) for case in cases)
        self._first = np.full((len(cases), self.most_asked), -1)
        self._second = self._first.copy()
        for i, case in enumerate(cases):
            rows, sums = len(case.goal), len(case.sums)
            need((case.sums >= 0) & (case.sums < rows), "a sum of rows that do not exist")
            self._first[i, : rows + sums] = [*range(rows), *case.sums[:, 0]]
            self._second[i, rows : rows + sums] = case.sums[:, 1]
        at = self._starts[:-1, None]
        goals = np.append(self.goal, False)
        pair = np.stack([self._first, self._second])
        self._goals = goals[np.where(pair >= 0, pair + at, len(self.goal))].sum(0)

    def case(self, number: int) -> slice:
        """Return the slice of a case's rows."""
        return slice(int(self._starts[number]), int(self._starts[number + 1]))

    def errors_of(self, case: Integers) -> Floats:
        """Return the errors of each case's rows over the whole region, shape (n, rows)."""
        widest = int(np.diff(self._starts).max())
        own = [self.errors[self.case(each)] for each in case.tolist()]
        return np.stack([np.pad(each, (0, widest - len(each))) for each in own])

    def which_asked(self, case: Integers, room: int) -> Flags:
        """Return which rows and sums each case has, shape (n, room)."""
        return np.asarray(self._first[case, :room] >= 0)

    def least(self, case: Integers, upper: float, room: int) -> Floats:
        """Return what rows and sums are at least for a counter-example above ``upper``."""
        return np.asarray(self._goals[case, :room] * upper)

    def pick(self, case: Integers, k: int, errors: Floats) -> tuple[Form, Floats]:
        """Return a row of each case, or a sum of two, with their evaluation errors.

        Coefficients of scores are charged for the rounding of their sums alone.
        """
        at, one = self._starts[case], np.arange(len(case))
        first, second = np.maximum(self._first[case, k], 0), self._second[case, k]
        two = second >= 0
        i, j = at + first, at + np.maximum(second, 0)
        also = two[:, None]
        scores, slip = add_exactly(self.scores[i], np.where(also, self.scores[j], 0.0))
        change, slip_d = add_exactly(self.change[i], np.where(also, self.change[j], 0.0))
        charge = self._placed[i] + np.where(two, self._placed[j], 0.0)
        charge = charge + slip @ self._terms + slip_d @ self._terms_d
        constant = self.constant[i] + np.where(two, self.constant[j], 0.0)
        inputs = self.inputs[i] + np.where(also, self.inputs[j], 0.0)
        error = errors[one, first] + np.where(two, errors[one, np.maximum(second, 0)], 0.0)
        return (inputs, scores, change, constant + (1.0 + 8 * UNIT) * charge), error

    def combine(self, case: Integers, share: Floats) -> Form:
        """Return sums of the rows of each case, weighted by shares."""
        found = [
            np.zeros((len(case), part.shape[1])) for part in (self.inputs, self.scores, self.change)
        ]
        constant = np.zeros(len(case))
        for number in np.unique(case).tolist():
            at, own = self.case(number), case == number
            weights = share[own, : at.stop - at.start]
            for total, part in zip(found, (self.inputs, self.scores, self.change), strict=True):
                total[own] = weights @ part[at]
            charge = self._unit * (weights @ self._sizes[at])
            constant[own] = weights @ self.constant[at] + charge
        inputs, scores, change = found
        return inputs, scores, change, constant


def add_exactly(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Return a sum and the size of its rounding error (Knuth's two-sum)."""
    total = first + second
    part = total - first
    return total, np.abs((first - (total - part)) + (second - part))
