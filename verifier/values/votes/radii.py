"""Bounds on how many edits each answer survives."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Shares:
    """Bounds on a share of the test points."""

    lower: Fraction
    upper: Fraction


@dataclass(frozen=True, eq=False)
class Radii:
    """Radii of test points, in edits."""

    lower: NDArray[np.int64]  # shape (points,)
    upper: NDArray[np.int64]  # shape (points,)
    right: NDArray[np.bool_]  # shape (points,): whether the true label is answered

    def of(self, points: NDArray[np.bool_]) -> Radii:
        """Return the radii of some test points, shape (points,)."""
        return Radii(self.lower[points], self.upper[points], self.right[points])

    def accuracy(self, edits: int) -> Shares:
        """Return the share of points that stay right under some edits."""
        low, high = (
            int(np.count_nonzero(self.right & (radii >= edits)))
            for radii in (self.lower, self.upper)
        )
        return Shares(Fraction(low, len(self.right)), Fraction(high, len(self.right)))

    def median(self) -> tuple[int, int]:
        """Return the most edits at which half of all points are certified.

        The papers' attack size: at least half of all points stay right; -1 if not even at r = 0.
        """
        low, high = (self._median(radii) for radii in (self.lower, self.upper))
        return low, high

    def _median(self, radii: NDArray[np.int64]) -> int:
        half = (len(radii) + 1) // 2
        certified = np.sort(radii[self.right])[::-1]
        return int(certified[half - 1]) if len(certified) >= half else -1
