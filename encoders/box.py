"""The input set a guarantee is about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import SpecError

__all__ = ["Box"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Box:
    """All x with ``lower <= x <= upper``.

    Attributes
    ----------
    lower, upper : ndarray of float64, shape (d,)
        In the units the network reads.

    Raises
    ------
    SpecError
        If a bound is not finite, or a lower bound exceeds its upper bound.
    """

    lower: Floats
    upper: Floats

    def __post_init__(self) -> None:
        if self.lower.shape != self.upper.shape or self.lower.ndim != 1:
            raise SpecError(
                f"box: {self.lower.size} lower and {self.upper.size} upper bounds; give as many"
            )
        largest = float(np.finfo(np.float32).max)
        if not (np.abs(self.lower) <= largest).all() or not (np.abs(self.upper) <= largest).all():
            raise SpecError("box: every bound must be a finite number within float32's range")
        crossed = np.flatnonzero(self.lower > self.upper)
        if crossed.size:
            i = int(crossed[0])
            raise SpecError(
                f"box: the lower bound {self.lower[i]:g} of feature {i} exceeds its upper bound "
                f"{self.upper[i]:g}"
            )

    @property
    def dimension(self) -> int:
        """Number of features."""
        return len(self.lower)

    def clip(self, points: Floats) -> Floats:
        """Return the nearest points of the box."""
        return np.clip(points, self.lower, self.upper)

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        """Draw uniform points, shape (count, d)."""
        return self.lower + rng.random((count, self.dimension)) * (self.upper - self.lower)

    def float32(self, point: Floats) -> NDArray[np.float32]:
        """Round a point to float32 without leaving the box.

        Where no float32 lies between the bounds of a feature, its value is the nearest one.
        """
        rounded = self.clip(point).astype(np.float32)
        rounded = np.where(rounded < self.lower, np.nextafter(rounded, np.float32(np.inf)), rounded)
        return np.where(
            rounded > self.upper, np.nextafter(rounded, np.float32(-np.inf)), rounded
        ).astype(np.float32)

    def contains(self, points: Floats) -> NDArray[np.bool_]:
        """Whether each point, shape (p, d), lies in the box."""
        inside: NDArray[np.bool_] = np.all((points >= self.lower) & (points <= self.upper), axis=-1)
        return inside
