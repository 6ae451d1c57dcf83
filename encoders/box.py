"""The set of inputs a guarantee is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.choices import Choices
from leaveout.errors import SpecError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Box:
    """All x with ``lower <= x <= upper`` whose discrete features take listed values."""

    lower: Floats  # shape (d,)
    upper: Floats  # shape (d,)
    choices: tuple[Choices, ...] = ()  # only rows between the bounds

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
        # 0 is 0, whatever its sign.
        object.__setattr__(self, "lower", self.lower + 0.0)
        object.__setattr__(self, "upper", self.upper + 0.0)
        if self.choices:
            self._shrink(self.choices)

    def _shrink(self, choices: Sequence[Choices]) -> None:
        """Keep the rows within the bounds, and shrink the bounds to their hull."""
        lower, upper = self.lower.copy(), self.upper.copy()
        kept = []
        seen: set[int] = set()
        for each in choices:
            twice = seen.intersection(each.columns.tolist())
            if twice:
                raise SpecError(
                    f"box: feature {min(twice)} takes listed values already; list the values of a "
                    "feature once"
                )
            seen.update(each.columns.tolist())
            inside = each.within(lower, upper)
            lower[each.columns], upper[each.columns] = inside.hull
            kept.append(inside)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        object.__setattr__(self, "choices", tuple(kept))

    @property
    def dimension(self) -> int:
        """Number of features."""
        return len(self.lower)

    @cached_property
    def discrete(self) -> NDArray[np.int64]:
        """Return the features restricted to listed values, in ascending order."""
        columns = [each.columns for each in self.choices]
        return np.sort(np.concatenate([np.zeros(0, np.int64), *columns]))

    def scale_by(self, factors: Floats) -> Box:
        """Divide each feature by a power of two, shape (d,), without rounding."""
        choices = tuple(each.scale_by(factors) for each in self.choices)
        return Box(self.lower / factors, self.upper / factors, choices)

    def clip(self, points: Floats) -> Floats:
        """Return the nearest points of the hull, where discrete features are relaxed."""
        return np.clip(points, self.lower, self.upper)

    def nearest(self, points: Floats) -> Floats:
        """Return the nearest points of the set itself, shape (..., d)."""
        found = self.clip(points)
        flat, given = found.reshape(-1, self.dimension), points.reshape(-1, self.dimension)
        for each in self.choices:
            flat[:, each.columns] = each.nearest(given[:, each.columns])
        return flat.reshape(points.shape)

    def around(self, points: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return bounds of points, shape (..., d), with discrete features kept."""
        lower, upper = self.lower.astype(points.dtype), self.upper.astype(points.dtype)
        fixed = self.discrete
        if len(fixed):
            lower = np.broadcast_to(lower, points.shape).copy()
            upper = np.broadcast_to(upper, points.shape).copy()
            lower[..., fixed] = upper[..., fixed] = points[..., fixed]
        return lower, upper

    def greatest(self, slopes: Floats) -> Floats:
        """Return the greatest value of linear functions over the set, shape (r, d) to (r,).

        Computed as sums of products in float64, not padded for their rounding.
        """
        ends = np.maximum(slopes, 0.0) * self.upper + np.minimum(slopes, 0.0) * self.lower
        together = [each for each in self.choices if len(each.columns) > 1]
        for each in together:
            ends[:, each.columns] = 0.0
        total = ends.sum(axis=1)
        for each in together:
            total += each.greatest(slopes[:, each.columns])
        return np.asarray(total)

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        """Draw uniform points of the set, shape (count, d)."""
        points = self.lower + rng.random((count, self.dimension)) * (self.upper - self.lower)
        for each in self.choices:
            points[:, each.columns] = each.sample(rng, count)
        return points

    def float32(self, point: Floats) -> NDArray[np.float32]:
        """Round a point to float32 inside the set, to the nearest if no float32 is inside."""
        rounded = self.nearest(point).astype(np.float32)
        rounded = np.where(rounded < self.lower, np.nextafter(rounded, np.float32(np.inf)), rounded)
        return np.where(
            rounded > self.upper, np.nextafter(rounded, np.float32(-np.inf)), rounded
        ).astype(np.float32)

    def contains(self, points: Floats) -> NDArray[np.bool_]:
        """Return which points, shape (p, d), are in the set, listed values exactly."""
        inside: NDArray[np.bool_] = np.all((points >= self.lower) & (points <= self.upper), axis=-1)
        if self.choices:
            inside = inside & np.all(self.nearest(points) == points, axis=-1)
        return inside
