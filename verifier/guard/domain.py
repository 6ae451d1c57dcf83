"""The inputs a guard's promise covers, and the refusal of others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.encoders import Box
from leaveout.errors import GuardError
from leaveout.verifier.guard.findings import Point
from leaveout.verifier.guard.inputs import Numbers, read_numbers
from leaveout.verifier.guard.kernels import FAULTLESS, NOT_FINITE, screen


@dataclass(frozen=True, eq=False)
class Domain(ABC):
    """The inputs that something is known of, with feature names."""

    features: tuple[str, ...]  # their numbers where no names are known
    kind: ClassVar[Numbers]  # of the numbers that are read

    @property
    def dimension(self) -> int:
        """The number of features of an input."""
        return len(self.features)

    def point(self, x: ArrayLike) -> Point:
        """Read one input, shape (inputs,)."""
        point, count = read_numbers(x, "an input", self.kind), self.dimension
        if point.shape != (count,):
            raise GuardError(
                f"an input has shape {point.shape}, expected ({count},): {count} features"
            )
        return point

    def points(self, X: ArrayLike) -> NDArray[Any]:
        """Read inputs, shape (n, inputs)."""
        points, count = read_numbers(X, "inputs", self.kind), self.dimension
        if points.ndim != 2 or points.shape[1] != count:
            raise GuardError(
                f"inputs have shape {points.shape}, expected (n, {count}): a row each, "
                f"{count} features"
            )
        return points

    @abstractmethod
    def contains(self, point: Point) -> bool:
        """Return whether an input is covered."""

    @abstractmethod
    def refusal(self, point: Point) -> str:
        """Return why an input outside is refused."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The inputs in words."""

    def _not_finite(self, point: Point, at: int) -> GuardError:
        return GuardError(
            f"feature {self._feature(at)} is {point[at]}, expected a finite number in "
            f"{np.dtype(self.kind)}"
        )

    def _feature(self, at: int) -> str:
        name = self.features[at]
        return str(at) if name == str(at) else f"{at} ({name})"


@dataclass(frozen=True, eq=False)
class BoxDomain(Domain):
    """The inputs of a proved box."""

    kind = np.float32
    box: Box

    def contains(self, point: Point) -> bool:
        """See `Domain.contains`."""
        fault, at = screen(point, self.box.lower, self.box.upper)
        if fault == NOT_FINITE:
            raise self._not_finite(point, at)
        if fault != FAULTLESS:
            return False
        if not self.box.choices:
            return True
        return bool(self.box.contains(point.astype(np.float64)[None])[0])

    def refusal(self, point: Point) -> str:
        """See `Domain.refusal`."""
        _, at = screen(point, self.box.lower, self.box.upper)
        if at < 0:
            return "its features take no listed values; nothing is proved of it, so it is refused"
        # Not its value: of a table's row it would tell the range its column was scaled by.
        low, high = self.box.lower[at], self.box.upper[at]
        return (
            f"feature {self._feature(at)} is outside the verified range [{low:.9g}, {high:.9g}]; "
            "nothing is proved of it, so it is refused"
        )

    @property
    def words(self) -> str:
        """See `Domain.words`."""
        box = self.box
        low, high = box.lower.min(), box.upper.max()
        same = (box.lower == low).all() and (box.upper == high).all() and not box.choices
        return (
            f"[{low:g}, {high:g}]^{self.dimension}"
            if same
            else f"a box of {self.dimension} features"
        )


@dataclass(frozen=True, eq=False)
class FiniteDomain(Domain):
    """All finite numbers: with every deletion known, no input is outside."""

    kind = np.float64

    def contains(self, point: Point) -> bool:
        """See `Domain.contains`."""
        finite = np.isfinite(point)
        if not finite.all():
            raise self._not_finite(point, int(np.argmin(finite)))
        return True

    def refusal(self, point: Point) -> str:
        """See `Domain.refusal`."""
        raise AssertionError("every finite input is answered")

    @property
    def words(self) -> str:
        """See `Domain.words`."""
        return f"all finite numbers of {self.dimension} features"
