"""How many edits each answer survives, from below and from above."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Shares:
    """A share of the test points, from below and from above."""

    lower: Fraction
    upper: Fraction


@dataclass(frozen=True, eq=False)
class Radii:
    """Radii of test points, in edits."""

    lower: NDArray[np.int64]  # shape (points,)
    upper: NDArray[np.int64]  # shape (points,)
    right: NDArray[np.bool_]  # shape (points,): whether the true label is answered

    def of(self, points: NDArray[np.bool_]) -> Radii:
        """Return those of some test points, shape (points,), alone."""
        return Radii(self.lower[points], self.upper[points], self.right[points])

    def accuracy(self, edits: int) -> Shares:
        """Return the share of points answered right whatever so many edits change."""
        low, high = (
            int(np.count_nonzero(self.right & (radii >= edits)))
            for radii in (self.lower, self.upper)
        )
        return Shares(Fraction(low, len(self.right)), Fraction(high, len(self.right)))

    def median(self) -> tuple[int, int]:
        """Return the greatest number of edits at which half of all points are certified.

        That is the attack size the papers ask for, at which at least half of the test points are
        answered right whatever happens; -1 if no edits at all are too many (r = 0 counts as 0).
        """
        low, high = (self._median(radii) for radii in (self.lower, self.upper))
        return low, high

    def _median(self, radii: NDArray[np.int64]) -> int:
        half = (len(radii) + 1) // 2
        certified = np.sort(radii[self.right])[::-1]
        return int(certified[half - 1]) if len(certified) >= half else -1
