"""Logistic regression, with a search for the fewest changes that force each vote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from leaveout.models.ballots import UNREACHABLE, Against
from leaveout.models.votes.survival.learner import Part, changed_parts

_STEPS = 50
_HALVINGS = 30
_SETTLED = 1e-24  # Newton's decrement, squared, at which the minimum is as near as float64 comes


@dataclass(frozen=True)
class Logistic:
    """Logistic regression with a penalty on every coefficient, the constant's too.

    Of more than two labels it is one label against the others. So there is one minimum, even of a
    part with one label, or without rows; the smaller label wins ties.
    """

    penalty: int

    name: ClassVar[str] = "logistic"

    def scores(self, part: Part) -> NDArray[np.float32]:
        """Return each label's score, shape (points, labels)."""
        order = np.lexsort((part.y, *part.X.T))
        X, y = np.column_stack([part.X, np.ones(len(part.X))])[order], part.y[order]
        tests = np.column_stack([part.tests, np.ones(len(part.tests))])
        if part.labels == 2:
            one = tests @ self._minimum(X, y == 1)
            found = np.column_stack([-one, one])
        else:
            fits = [self._minimum(X, y == label) for label in range(part.labels)]
            found = tests @ np.column_stack(fits)
        with np.errstate(over="ignore"):
            return found.astype(np.float32)

    def thresholds(self, part: Part, against: Against, exact_to: int | None) -> NDArray[np.int32]:
        """Return the fewest changes to each vote (points, labels), refitted to ``exact_to``."""
        assert exact_to is not None
        points = np.arange(len(part.tests))
        found = np.full((len(points), part.labels), exact_to + 1, np.int32)
        found[points, self.scores(part).argmax(axis=1)] = 0
        for changes in range(1, exact_to + 1):
            for changed in changed_parts(part, against, changes):
                votes = self.scores(changed).argmax(axis=1)
                found[points, votes] = np.minimum(found[points, votes], changes)
        if len(part.y) <= exact_to:  # every set was tried
            found[found > exact_to] = UNREACHABLE
        return found

    def _minimum(self, X: NDArray[np.float64], hit: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the coefficients that Newton's method reaches from 0."""
        sign = np.where(hit, 1.0, -1.0)
        theta = np.zeros(X.shape[1])
        value = self._value(X, sign, theta)
        for _ in range(_STEPS):
            with np.errstate(over="ignore"):
                wrong = 1.0 / (1.0 + np.exp(sign * (X @ theta)))
            gradient = self.penalty * theta - X.T @ (sign * wrong)
            curve = wrong * (1.0 - wrong)
            bend = (X * curve[:, None]).T @ X + self.penalty * np.eye(len(theta))
            try:
                step = np.linalg.solve(bend, gradient)
            except np.linalg.LinAlgError:  # numbers beyond what float64 can tell apart
                break
            slope = float(gradient @ step)
            for halving in range(_HALVINGS):
                tried = theta - step / 2.0**halving
                lower = self._value(X, sign, tried)
                if lower < value:
                    break
            else:
                break
            theta, value = tried, lower
            if not slope > _SETTLED:
                break
        return theta

    def _value(
        self, X: NDArray[np.float64], sign: NDArray[np.float64], theta: NDArray[np.float64]
    ) -> float:
        loss = np.logaddexp(0.0, -sign * (X @ theta)).sum()
        return float(loss + self.penalty / 2.0 * (theta @ theta))
