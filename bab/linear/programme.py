"""The largest confidence at which a member does not answer a label, as a linear programme.

N's confidence is the least of its margins. With several rivals no single margin bounds it well; the
programme's dual says in which mean they do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog

from leaveout.arrays import Floats, Integers
from leaveout.kernel.design import Region
from leaveout.kernel.family import Family

_MORE = 1e-11
"""By how much weights exceed a sum of 1, so that rounding does not take them below it."""


class Mean(NamedTuple):
    """The dual of a programme."""

    weights: Floats  # shape (labels,)
    t: Floats  # shape (1,): of the member's margin


@dataclass(frozen=True, eq=False)
class Programme:
    """What all members of a label's programmes share."""

    region: Region
    label: int
    labels: int
    margins: Floats  # shape (rivals, width): N's
    free: Integers  # columns that lie in an interval
    sums: Floats  # shape (lists, variables): the weights of a list's rows sum to 1

    @staticmethod
    def of(family: Family, region: Region, label: int) -> Programme:
        """Return the programmes of a label over a region."""
        labels = len(family.model.labels)
        rivals = [each for each in range(labels) if each != label]
        scores = [family.margin(label, rival).of(family.model.coefficients) for rival in rivals]
        free = np.flatnonzero(region.upper > region.lower)
        sizes = [len(each.rows) for each in region.listed]
        sums = np.zeros((len(sizes), 1 + len(free) + sum(sizes)))
        first = 1 + len(free)
        for k, size in enumerate(sizes):
            sums[k, first : first + size] = 1.0
            first += size
        return Programme(region, label, labels, np.stack(scores), free, sums)

    def mean(self, weights: Floats) -> Floats:
        """Return a mixture of N's margins, shape (width,)."""
        return np.asarray(np.delete(weights, self.label) @ self.margins)

    def solve(self, theirs: Floats, slack: float) -> Mean | None:
        """Return the best mean where a member's margin is at most a slack; None if none is told."""
        found = self._solve(theirs, slack)
        if found is None:
            return None
        dual = np.maximum(-found.ineqlin.marginals, 0.0)
        total = float(dual[:-1].sum())
        if not total > 0:
            return None
        weights = np.insert(dual[:-1] / total * (1.0 + _MORE), self.label, 0.0)
        return Mean(weights, dual[-1:] / total)

    def values(self, theirs: Floats, most: float) -> Floats | None:
        """Return column values of about the largest confidence where a margin is at most this."""
        found = self._solve(theirs, most)
        if found is None:
            return None
        values, first = self.region.lower.copy(), 1 + len(self.free)
        values[self.free] = found.x[1:first]
        for each in self.region.listed:
            values[each.at] = each.rows[np.argmax(found.x[first : first + len(each.rows)])]
            first += len(each.rows)
        return values

    def _solve(self, theirs: Floats, most: float) -> Any:
        """Solve the programme of a member; None if there is no solution."""
        if not np.isfinite(most):
            return None
        functions, fixed = self._of_variables(np.vstack([self.margins, theirs]))
        # The first variable is the confidence: at most each of N's margins.
        rows = np.hstack([np.ones((len(functions), 1)), -functions])
        rows[-1] = np.append(0.0, functions[-1])
        limits = np.append(fixed[:-1], most - fixed[-1])
        goal = np.zeros(rows.shape[1])
        goal[0] = -1.0
        region, listed = self.region, rows.shape[1] - 1 - len(self.free)
        ends = np.stack([region.lower[self.free], region.upper[self.free]], axis=1)
        bounds = np.vstack([[(-np.inf, np.inf)], ends, np.tile([0.0, 1.0], (listed, 1))])
        equal: Any = (self.sums, np.ones(len(self.sums))) if len(self.sums) else (None, None)
        solver: Any = linprog
        found = solver(goal, rows, limits, *equal, bounds=bounds, method="highs")
        return found if found.status == 0 else None

    def _of_variables(self, slopes: Floats) -> tuple[Floats, Floats]:
        """Return functions of design columns as functions of the programme's variables."""
        own, fixed = self.region.pull(slopes)
        inner = np.setdiff1d(np.arange(own.shape[1]), self.free)
        fixed = fixed + own[:, inner] @ self.region.lower[inner]
        listed = [own[:, each.at] @ each.rows.T for each in self.region.listed]
        return np.hstack([own[:, self.free], *listed]), fixed
