"""Ridge classification: a weighted vote of the rows, with exact thresholds against relabels.

What rows weigh may be told by any products of points with rows, such as a kernel's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.models.ballots import UNREACHABLE, Against
from leaveout.models.votes.survival.learner import Part

_CHUNK = 2**21  # weights in memory at a time
_BITS = 30  # bits of the largest weight at a point; sums of 2**31 weights are exact in int64
_LEAST = 2.0**-16  # at least so much is the unit of weights, far above what rounding leaves of 0


@dataclass(frozen=True)
class Ridge:
    """Least squares with a penalty on every coefficient, one label against the others.

    What it predicts at a point is linear in the labels: a label's score is the sum of the weights
    of its rows, and weights depend on the rows' features alone. They are rounded to whole numbers,
    so that scores are exact. Columns are scaled to [0, 1] by the part's rows and have a constant
    beside them; a row whose label is unknown stays and votes for none; the smaller label wins ties.
    """

    penalty: int

    name: ClassVar[str] = "ridge"

    def scores(self, part: Part) -> NDArray[np.float32]:
        """Return what each label's sum lacks to the largest, negated, shape (points, labels)."""
        own = (part.y[:, None] == np.arange(part.labels)).astype(np.int64)
        sums = [weights @ own for weights in self._weights(part)]
        whole = np.concatenate(sums)
        # float32 keeps whether a difference is 0, but not all digits of the sums.
        found: NDArray[np.float32] = (whole - whole.max(axis=1, keepdims=True)).astype(np.float32)
        return found

    def thresholds(self, part: Part, against: Against, exact_to: int | None) -> NDArray[np.int32]:
        """Return the fewest relabels that force each of two votes, shape (points, 2), exactly."""
        side = np.where(part.y < 0, 0, 2 * part.y.astype(np.int64) - 1)
        found = [_fewest_relabels(weights, side) for weights in self._weights(part)]
        return np.concatenate(found)

    def _weights(self, part: Part) -> Iterator[NDArray[np.int64]]:
        """Yield the weights of the rows in batches of points, shape (points, rows)."""
        X, tests = _scale(part)
        # Of equal rows once, so that their weights are equal to the last bit.
        rows, place, times = np.unique(X, axis=0, return_inverse=True, return_counts=True)
        predict = self._predictor(rows, times)
        step = max(1, _CHUNK // max(1, len(X)))
        for first in range(0, len(tests), step):
            exact = predict(tests[first : first + step])
            largest = np.abs(exact).max(axis=1, initial=_LEAST, keepdims=True)
            whole = np.rint(exact / largest * 2.0**_BITS).astype(np.int64)
            yield whole[:, place.reshape(-1)]

    def _predictor(self, rows: Floats, times: NDArray[np.int64]) -> Callable[[Floats], Floats]:
        """Return what gives the weights of distinct rows, x' (X'X + penalty)^-1 x_j, at points."""
        if len(rows) < rows.shape[1]:
            return self._by_products(rows, times, lambda x: x @ rows.T)
        square = (rows.T * times) @ rows + self.penalty * np.eye(rows.shape[1])
        solved = np.linalg.solve(square, rows.T)
        return lambda x: x @ solved

    def _by_products(
        self, rows: Floats, times: NDArray[np.int64], products: Callable[[Floats], Floats]
    ) -> Callable[[Floats], Floats]:
        """Return the same from products of points with rows alone."""
        whole = times[:, None] * products(rows) + self.penalty * np.eye(len(rows))
        inverse = np.linalg.inv(whole)
        return lambda x: products(x) @ inverse


@dataclass(frozen=True)
class Kernel(Ridge):
    """The same in the space of the Gaussian kernel exp(-g |x - x_j|^2).

    g is ``gamma`` over the number of columns and their variance, as scikit-learn scales it.
    """

    gamma: int

    name: ClassVar[str] = "kernel"

    def _predictor(self, rows: Floats, times: NDArray[np.int64]) -> Callable[[Floats], Floats]:
        count = max(1, int(times.sum()) * (rows.shape[1] - 1))
        features = rows[:, :-1]
        mean = (times @ features).sum() / count
        variance = float((times @ (features - mean) ** 2).sum() / count)
        scale = self.gamma / (max(1, features.shape[1]) * max(variance, _LEAST))

        def products(x: Floats) -> Floats:
            squares = (x**2).sum(axis=1)[:, None] + (rows**2).sum(axis=1) - 2.0 * x @ rows.T
            return np.asarray(np.exp(-scale * np.maximum(squares, 0.0)))

        return self._by_products(rows, times, products)


def _fewest_relabels(weights: NDArray[np.int64], side: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return points' thresholds, shape (points, 2); ``side`` is 1, -1, or 0 for no label."""
    # A relabelled row of weight q on side t moves the margin at most |q| + q t down, |q| - q t up.
    margin = weights @ side
    vote = (margin > 0).astype(np.int64)
    sign = np.where(vote, 1, -1)[:, None]
    gains = np.cumsum(-np.sort(-(np.abs(weights) + sign * weights * side), axis=1), axis=1)
    # Label 0 wins from a margin of 0 on, label 1 from 1 on.
    needs = np.where(vote, margin, 1 - margin)[:, None]
    fewest = 1 + (gains < needs).sum(axis=1)
    found = np.zeros((len(weights), 2), np.int32)
    enough = fewest <= weights.shape[1]
    found[np.arange(len(found)), 1 - vote] = np.where(enough, fewest, UNREACHABLE)
    return found


def _scale(part: Part) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return rows and tests with columns scaled by the rows to [0, 1], and a constant."""
    low = part.X.min(axis=0, initial=np.inf)
    span = part.X.max(axis=0, initial=-np.inf) - low
    fine = np.isfinite(span) & (span > 0)
    low, span = np.where(fine, low, 0.0), np.where(fine, span, 1.0)
    X, tests = (
        np.column_stack([np.where(fine, (each - low) / span, 0.0), np.ones(len(each))])
        for each in (part.X, part.tests)
    )
    return X, tests
