"""The set of inputs that a guarantee covers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.arrays import Floats
from leaveout.errors import SpecError
from leaveout.models.matrices import Matrix, scale_columns, take_rows
from leaveout.written import first_few

Columns = NDArray[np.int64]

MOST = 1_000_000
"""Most numbers (rows times columns) in one table."""

_AT_ONCE = 2**20  # most numbers of one comparison of points with rows in memory

WIDE = 8
"""Tables with more columns, each with at most this many distinct values, are compared by value."""


@dataclass(frozen=True, eq=False)
class Choices:
    """Coordinates that together take one of the listed rows.

    A one-hot group has the rows of an identity matrix; independent coordinates are separate
    choices, so that no product of their values is formed.
    """

    columns: Columns  # shape (g,)
    values: Floats  # shape (v, g)
    exact: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        columns = _columns(self.columns)
        values = _values(self.values, len(columns), self.exact)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "values", values)

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def hull(self) -> tuple[Floats, Floats]:
        """Return the least and greatest value of each column, shape (g,) each."""
        return self.values.min(axis=0), self.values.max(axis=0)

    @cached_property
    def _orders(self) -> tuple[NDArray[np.intp], ...]:
        """Return for each column the rows in the order of its values."""
        return tuple(np.argsort(column, kind="stable") for column in self.values.T)

    @cached_property
    def _is_wide(self) -> bool:
        """Return whether there are many columns of few distinct values, as in one-hot groups."""
        width = len(self.columns)
        return width > WIDE and all(len(np.unique(column)) <= WIDE for column in self.values.T)

    @cached_property
    def _distinct(self) -> tuple[Floats, Columns, Columns, NDArray[np.float32]]:
        """Return the distinct values of all columns, and which of them each row has."""
        found = [np.unique(column, return_inverse=True) for column in self.values.T]
        sizes = np.asarray([len(known) for known, _ in found])
        starts = np.cumsum(sizes) - sizes
        uses = np.zeros((len(self), int(sizes.sum())), np.float32)
        for start, (_, place) in zip(starts, found, strict=True):
            uses[np.arange(len(self)), start + place] = 1.0
        known = np.concatenate([known for known, _ in found])
        return known, np.repeat(np.arange(len(sizes)), sizes), starts, uses

    def within(self, lower: Floats, upper: Floats) -> Choices:
        """Return the rows that lie in a box."""
        if self.columns.max() >= len(lower):
            raise SpecError(
                f"box: feature {self.columns.max()} is out of range: there are {len(lower)} "
                f"features, numbered 0 to {len(lower) - 1}"
            )
        low, high = lower[self.columns], upper[self.columns]
        if not self.exact:
            # Bounds round like values: 0.1 is in [0, 0.1], whatever its float32 value is.
            low = np.minimum(low, low.astype(np.float32))
            high = np.maximum(high, high.astype(np.float32))
        inside = ((self.values >= low) & (self.values <= high)).all(axis=1)
        if inside.all():
            return self
        if not inside.any():
            sides = first_few((f"[{a:g}, {b:g}]" for a, b in zip(low, high, strict=True)), 4)
            raise SpecError(
                f"box: none of the {len(self):,} listed values of {self} is in the box, {sides}"
            )
        return Choices(self.columns, self.values[inside], exact=self.exact)

    def scale_by(self, factors: Floats) -> Choices:
        """Divide each feature by a power of two, exactly, shape (d,)."""
        return Choices(self.columns, self.values / factors[self.columns], exact=True)

    def greatest(self, slopes: Floats) -> Floats:
        """Return the greatest value of linear functions over the rows.

        Parameters
        ----------
        slopes : ndarray of float64, shape (r, g)
            One linear function per row.

        Returns
        -------
        ndarray of float64, shape (r,)
        """
        found = np.empty(len(slopes))
        for part in self._parts(np.arange(len(slopes))):
            found[part] = (slopes[part] @ self.values.T).max(axis=1)
        return found

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        """Draw rows uniformly, shape (count, g)."""
        return self.values[rng.integers(len(self), size=count)]

    def nearest(self, points: Floats) -> Floats:
        """Return the row nearest to each point, shape (p, g) both."""
        if len(self.columns) == 1:
            known = self.values[:, 0]
            above = np.searchsorted(known, points[:, 0]).clip(0, len(known) - 1)
            below = np.maximum(above - 1, 0)
            nearer = points[:, 0] - known[below] <= known[above] - points[:, 0]
            return self.values[np.where(nearer, below, above)]
        found = np.empty_like(points)
        for part in self._parts(np.arange(len(points))):
            away = np.zeros((len(part), len(self)))
            for column, known in enumerate(self.values.T):
                away += np.square(points[part, column, None] - known)
            found[part] = self.values[away.argmin(axis=1)]
        return found

    def snap(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Shrink sub-boxes of these columns to the hull of the rows in them."""
        if len(self.columns) == 1:
            return self._snap_one(lower, upper)
        low, high = self.hull
        shrunk, grown = np.empty_like(lower), np.empty_like(upper)
        shrunk[:], grown[:] = low, high
        empty = np.zeros(len(lower), bool)
        # Most sub-boxes of a search contain most tables completely.
        cut = ((lower > low) | (upper < high)).any(axis=1)
        for part in self._parts(np.flatnonzero(cut)):
            left = self._remaining_rows_wide if self._is_wide else self._remaining_rows
            within, first, last = left(lower[part], upper[part])
            empty[part] = ~within
            shrunk[part] = np.where(within[:, None], first, lower[part])
            grown[part] = np.where(within[:, None], last, upper[part])
        return shrunk, grown, empty

    def _remaining_rows(
        self, lower: Floats, upper: Floats
    ) -> tuple[NDArray[np.bool_], Floats, Floats]:
        """Return which rows are inside each sub-box, and the hull of those rows."""
        low, high = self.hull
        inside = np.ones((len(lower), len(self)), bool)
        for column, known in enumerate(self.values.T):
            if (lower[:, column] > low[column]).any():
                inside &= known >= lower[:, column, None]
            if (upper[:, column] < high[column]).any():
                inside &= known <= upper[:, column, None]
        first, last = np.empty_like(lower), np.empty_like(upper)
        for column, order in enumerate(self._orders):
            ranked, known = inside[:, order], self.values[order, column]
            first[:, column] = known[ranked.argmax(axis=1)]
            last[:, column] = known[len(known) - 1 - ranked[:, ::-1].argmax(axis=1)]
        return np.asarray(inside.any(axis=1)), first, last

    def _remaining_rows_wide(
        self, lower: Floats, upper: Floats
    ) -> tuple[NDArray[np.bool_], Floats, Floats]:
        """Do as `_remaining_rows` by matrix products, for many columns of few distinct values."""
        known, owner, starts, uses = self._distinct
        outside = (known < lower[:, owner]) | (known > upper[:, owner])
        inside = outside.astype(np.float32) @ uses.T == 0
        left = inside.astype(np.float32) @ uses > 0
        first = np.minimum.reduceat(np.where(left, known, np.inf), starts, axis=1)
        last = np.maximum.reduceat(np.where(left, known, -np.inf), starts, axis=1)
        return np.asarray(inside.any(axis=1)), first, last

    def _snap_one(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        known = self.values[:, 0]
        first = np.searchsorted(known, lower[:, 0])
        last = np.searchsorted(known, upper[:, 0], side="right") - 1
        empty = first > last
        low = np.where(empty, lower[:, 0], known[np.minimum(first, len(known) - 1)])
        high = np.where(empty, upper[:, 0], known[np.maximum(last, 0)])
        return low[:, None], high[:, None], empty

    def _parts(self, indices: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
        """Yield parts of indices small enough to compare with all rows in memory."""
        size = max(1, _AT_ONCE // len(self))
        for start in range(0, len(indices), size):
            yield indices[start : start + size]

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.columns[:4]))
        more = f" and {len(self.columns) - 4} more" if len(self.columns) > 4 else ""
        return f"feature{'s' * (len(self.columns) > 1)} {shown}{more}"


def _columns(given: ArrayLike) -> Columns:
    columns = np.asarray(given)
    if columns.ndim != 1 or not columns.size:
        raise SpecError("box: listed values need features: pass at least one, in a flat list")
    if columns.dtype.kind not in "iu" or columns.min() < 0:
        raise SpecError("box: a feature must be a whole number from 0")
    if len(np.unique(columns)) < len(columns):
        raise SpecError("box: a feature is named twice among those that take values jointly")
    return columns.astype(np.int64)


def _values(given: ArrayLike, width: int, exact: bool) -> Floats:
    values = np.asarray(given, np.float64)
    values = values[:, None] if values.ndim == 1 and width == 1 else values
    if not values.size:
        raise SpecError("box: no values are listed; pass at least one")
    if values.ndim != 2 or values.shape[1] != width:
        raise SpecError(
            f"box: the listed values have the shape {values.shape}; expected {width} numbers per "
            "row, one per feature"
        )
    if values.size > MOST:
        raise SpecError(
            f"box: {values.size:,} listed values, but at most {MOST:,} are supported: leave the "
            "feature continuous"
        )
    if not exact:
        with np.errstate(over="ignore"):
            values = values.astype(np.float32).astype(np.float64)
    if not np.isfinite(values).all():
        raise SpecError("box: every listed value must be a finite number within float32's range")
    # Adding 0 turns -0 into 0; otherwise a sort would separate the two.
    return np.unique(values + 0.0, axis=0)


@dataclass(frozen=True, eq=False)
class Box:
    """All x with ``lower <= x <= upper`` whose discrete features take listed values."""

    lower: Floats  # shape (d,)
    upper: Floats  # shape (d,)
    choices: tuple[Choices, ...] = ()  # each with only rows between the bounds

    def __post_init__(self) -> None:
        if self.lower.shape != self.upper.shape or self.lower.ndim != 1:
            raise SpecError(
                f"box: {self.lower.size} lower and {self.upper.size} upper bounds; pass the same "
                "number of each"
            )
        largest = float(np.finfo(np.float32).max)
        if not (np.abs(self.lower) <= largest).all() or not (np.abs(self.upper) <= largest).all():
            raise SpecError("box: every bound must be within float32's range, -3.4e38 to 3.4e38")
        crossed = np.flatnonzero(self.lower > self.upper)
        if crossed.size:
            i = int(crossed[0])
            raise SpecError(
                f"box: the lower bound {self.lower[i]:g} of feature {i} exceeds its upper bound "
                f"{self.upper[i]:g}"
            )
        # 0 and -0 are equal.
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
                    f"box: feature {min(twice)} already takes listed values; list the values of "
                    "a feature once"
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
        """Return bounds of points, shape (..., d), with discrete features unchanged."""
        lower, upper = self.lower.astype(points.dtype), self.upper.astype(points.dtype)
        fixed = self.discrete
        if len(fixed):
            lower = np.broadcast_to(lower, points.shape).copy()
            upper = np.broadcast_to(upper, points.shape).copy()
            lower[..., fixed] = upper[..., fixed] = points[..., fixed]
        return lower, upper

    def greatest(self, slopes: Matrix) -> Floats:
        """Return the greatest value of linear functions over the set, shape (r, d) to (r,).

        Computed as sums of products in float64, not padded for their rounding.
        """
        together = [each for each in self.choices if len(each.columns) > 1]
        if not together:
            return np.asarray(scale_columns(slopes, self.upper, self.lower).sum(axis=1))
        slopes = take_rows(slopes, np.arange(slopes.shape[0]))
        ends = scale_columns(slopes, self.upper, self.lower)
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
        """Return which points, shape (p, d), are in the set; listed values must match exactly."""
        inside: NDArray[np.bool_] = np.all((points >= self.lower) & (points <= self.upper), axis=-1)
        if self.choices:
            inside = inside & np.all(self.nearest(points) == points, axis=-1)
        return inside
