"""Interval arithmetic on arrays, padded for float64 rounding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leaveout.arrays import Floats
from leaveout.models.matrices import Matrix, positive

UNIT = 2.0**-53
"""Unit roundoff of float64."""


def gamma(operations: int, unit: float = UNIT) -> float:
    """Return the relative error of a sum of products after some roundings.

    Valid for any order, fused or not: Higham, Accuracy and Stability of Numerical Algorithms, 2nd
    ed., Lemma 3.1.
    """
    product = operations * unit
    if product >= 0.5:
        raise ValueError(f"{operations} roundings are too many for the unit roundoff {unit:g}")
    return product / (1 - product)


@dataclass(frozen=True, eq=False)
class Interval:
    """An array of intervals."""

    lower: Floats
    upper: Floats

    @staticmethod
    def point(values: Floats) -> Interval:
        """Return intervals of width zero."""
        return Interval(values, values)

    @staticmethod
    def zeros(width: int) -> Interval:
        """Return ``width`` intervals [0, 0]."""
        return Interval.point(np.zeros(width))

    @property
    def width(self) -> Floats:
        """Upper minus lower."""
        return self.upper - self.lower

    @property
    def magnitude(self) -> Floats:
        """Largest absolute value in each interval."""
        return np.maximum(np.abs(self.lower), np.abs(self.upper))

    def widen(self, pad: Floats | float) -> Interval:
        """Widen both sides by ``pad``."""
        return Interval(self.lower - pad, self.upper + pad)

    def plus(self, other: Interval) -> Interval:
        """Return the padded sum."""
        pad = gamma(2) * (self.magnitude + other.magnitude)
        return Interval(self.lower + other.lower, self.upper + other.upper).widen(pad)

    def meet(self, other: Interval) -> Interval:
        """Return the intersection of two intervals that contain the true values."""
        lower = np.maximum(self.lower, other.lower)
        upper = np.minimum(self.upper, other.upper)
        if (lower - upper > 1e-9 * (self.magnitude + other.magnitude)).any():
            raise ArithmeticError("two bounds of the same values contradict each other")
        return Interval(np.minimum(lower, upper), np.maximum(lower, upper))

    def relu(self) -> Interval:
        """Return the interval of ``max(v, 0)``."""
        return Interval(np.maximum(self.lower, 0.0), np.maximum(self.upper, 0.0))

    def through(self, matrix: Matrix) -> Interval:
        """Return the padded product of a matrix, shape (outputs, n), with these."""
        up, down = positive(matrix), positive(-matrix)
        size = self.magnitude
        # Twice the roundings of the sums, since the magnitudes are rounded too.
        pad = gamma(2 * size.shape[-1] + 4) * (_times(up, size) + _times(down, size))
        lower = _times(up, self.lower) - _times(down, self.upper)
        return Interval(lower, _times(up, self.upper) - _times(down, self.lower)).widen(pad)

    def apply(self, weights: Interval) -> Interval:
        """Return the padded product of an interval matrix, shape (outputs, n), with these.

        Both may be stacks, (m, outputs, n) and (m, n).
        """
        low, high = self.lower[..., None, :], self.upper[..., None, :]
        corners = (
            weights.lower * low,
            weights.lower * high,
            weights.upper * low,
            weights.upper * high,
        )
        lower = np.minimum(np.minimum(corners[0], corners[1]), np.minimum(corners[2], corners[3]))
        upper = np.maximum(np.maximum(corners[0], corners[1]), np.maximum(corners[2], corners[3]))
        # Twice the roundings of the sum, since the magnitudes are rounded too.
        size = _times(weights.magnitude, self.magnitude)
        pad = gamma(2 * self.lower.shape[-1] + 2) * size
        return Interval(lower.sum(axis=-1), upper.sum(axis=-1)).widen(pad)


def _times(matrix: Matrix, vectors: Floats) -> Floats:
    """Return one matrix times each vector of a stack, or each matrix times its vector."""
    if matrix.ndim == 2:
        return np.asarray((matrix @ vectors.T).T)
    return np.asarray((matrix @ vectors[..., None])[..., 0])
