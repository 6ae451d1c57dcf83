"""The inputs a guard's proof is about: what is one, and what is said of those that are not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.encoders import Box
from leaveout.errors import GuardError
from leaveout.verifier.guard.inputs import read_numbers
from leaveout.verifier.guard.kernels import FAULTLESS, NOT_FINITE, screen

__all__ = ["Domain"]


@dataclass(frozen=True, eq=False)
class Domain:
    """The verified inputs, with the names of their features.

    Attributes
    ----------
    box : Box
    features : tuple of str
        Their numbers where no names are known.
    """

    box: Box
    features: tuple[str, ...]

    def point(self, x: ArrayLike) -> NDArray[np.float32]:
        """Read one input, shape (inputs,)."""
        point, count = read_numbers(x, "an input"), self.box.dimension
        if point.shape != (count,):
            raise GuardError(
                f"an input has shape {point.shape}, expected ({count},): {count} features"
            )
        return point

    def points(self, X: ArrayLike) -> NDArray[np.float32]:
        """Read inputs, shape (n, inputs)."""
        points, count = read_numbers(X, "inputs"), self.box.dimension
        if points.ndim != 2 or points.shape[1] != count:
            raise GuardError(
                f"inputs have shape {points.shape}, expected (n, {count}): a row each, "
                f"{count} features"
            )
        return points

    def contains(self, point: NDArray[np.float32]) -> bool:
        """Whether an input is one of those verified.

        Raises
        ------
        GuardError
            If a feature is not finite.
        """
        fault, at = screen(point, self.box.lower, self.box.upper)
        if fault == NOT_FINITE:
            raise GuardError(
                f"feature {self._feature(at)} is {point[at]}, expected a finite number in float32"
            )
        if fault != FAULTLESS:
            return False
        if not self.box.choices:
            return True
        return bool(self.box.contains(point.astype(np.float64)[None])[0])

    def refusal(self, point: NDArray[np.float32]) -> str:
        """Return why an input that is not one of those verified is refused."""
        _, at = screen(point, self.box.lower, self.box.upper)
        if at < 0:
            return "its features take no listed values; nothing is proved of it, so it is refused"
        # Not its value: of a table's row it would tell the range its column was scaled by.
        low, high = self.box.lower[at], self.box.upper[at]
        return (
            f"feature {self._feature(at)} is outside the verified range [{low:.9g}, {high:.9g}]; "
            "nothing is proved of it, so it is refused"
        )

    def _feature(self, at: int) -> str:
        name = self.features[at]
        return str(at) if name == str(at) else f"{at} ({name})"
