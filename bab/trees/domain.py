"""The inputs over which two ensembles are compared, and their questions put over these alone.

Of a feature only some numbers are inputs: those that float32 (or float64) holds, or whole numbers
for a category. Two thresholds with no such number between them ask the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from leaveout.arrays import Bools, Floats
from leaveout.errors import TreesError
from leaveout.kernel.trees import Nodes

LARGEST = float(np.finfo(np.float32).max)
"""The greatest number that is an input."""
_MOST_CATEGORIES = 2**16
_MOST_WHOLE = 2**24


class Part(NamedTuple):
    """What a feature can be: numbers from ``low`` to ``high``, or categories, or missing."""

    low: float
    high: float
    missing: bool
    categories: int = 0  # bit by bit, of a feature that has them

    @property
    def is_empty(self) -> bool:
        """Whether the feature can be nothing."""
        return self.low > self.high and not self.categories and not self.missing


@dataclass(frozen=True, eq=False)
class Domain:
    """Inputs: a box, whose features may be missing.

    Attributes
    ----------
    low, high : ndarray of float64, shape (features,)
        The ends of numbers, each of which is an input.
    missing : ndarray of bool, shape (features,)
        Which features may be missing.
    single : bool
        Whether inputs are what float32 holds; else float64.
    categories : ndarray of int64, shape (features,)
        Of a feature with categories, one more than the greatest that any question names; all above
        are answered alike. 0 for numbers.
    """

    low: Floats
    high: Floats
    missing: Bools
    single: bool
    categories: np.typing.NDArray[np.int64]

    def down(self, values: Floats, features: np.typing.NDArray[np.integer]) -> Floats:
        """Return the greatest inputs of features that are at most some values."""
        found = values
        if self.single:
            with np.errstate(over="ignore", under="ignore"):
                near = values.astype(np.float32)
                below = np.nextafter(near, np.float32(-np.inf))
            found = np.where(near.astype(np.float64) > values, below, near).astype(np.float64)
        return np.where(self.categories[features] > 0, np.floor(values), found)

    def up(self, values: Floats, features: np.typing.NDArray[np.integer]) -> Floats:
        """Return the least inputs of features that are above some values of `down`."""
        with np.errstate(over="ignore", under="ignore"):
            if self.single:
                short = values.astype(np.float32)
                found = np.nextafter(short, np.float32(np.inf)).astype(np.float64)
            else:
                found = np.nextafter(values, np.inf)
            return np.where(self.categories[features] > 0, values + 1.0, found)

    def part(self, feature: int) -> Part:
        """Return what a feature can be."""
        return self._parts[feature]

    @cached_property
    def _parts(self) -> list[Part]:
        found = []
        for at, count in enumerate(self.categories.tolist()):
            low, high = float(self.low[at]), float(self.high[at])
            mask = 0
            if count:
                # The last bit stands for all categories above.
                last = int(min(high, count))
                mask = sum(1 << each for each in range(int(max(low, 0.0)), last + 1))
                low, high = 1.0, 0.0
            found.append(Part(low, high, bool(self.missing[at]), mask))
        return found

    def fill(self, point: Floats, box: dict[int, Part]) -> Floats:
        """Return the input of a box that is closest to a point, feature by feature."""
        found = point.copy()
        for feature, part in box.items():
            value = found[feature]
            if part.categories:
                wanted = -1 if np.isnan(value) else int(min(value, self.categories[feature]))
                if wanted < 0 or not part.categories >> wanted & 1:
                    found[feature] = (part.categories & -part.categories).bit_length() - 1
            elif part.low > part.high:
                found[feature] = np.nan
            elif np.isnan(value):
                found[feature] = min(max(0.0, part.low), part.high)
            else:
                found[feature] = min(max(value, part.low), part.high)
        return found

    def snap(self, points: Floats) -> Floats:
        """Return inputs near some points."""
        found = np.clip(points, self.low, self.high)
        every = np.broadcast_to(np.arange(len(self.low)), found.shape)
        found = np.maximum(self.down(found, every), self.low)
        return np.where(np.isnan(points) & ~self.missing, np.clip(0.0, self.low, self.high), found)


def make_domain(
    ensembles: tuple[Nodes, ...],
    features: int,
    *,
    single: bool,
    low: Floats | None = None,
    high: Floats | None = None,
    missing: Bools | None = None,
) -> Domain:
    """Return the inputs of a box; by default all finite ones, with missing values.

    Features of which some node asks a category are whole numbers from 0.
    """
    counts = np.zeros(features, np.int64)
    for nodes in ensembles:
        asks = nodes.set >= 0
        counts[nodes.feature[asks]] = np.maximum(counts[nodes.feature[asks]], nodes.sets.shape[1])
    for nodes in ensembles:
        inner = (nodes.feature >= 0) & (np.abs(nodes.threshold) < _MOST_WHOLE)
        of_category = inner & (counts[nodes.feature] > 0)
        at, threshold = nodes.feature[of_category], np.floor(nodes.threshold[of_category])
        np.maximum.at(counts, at, (threshold + 2).astype(np.int64))
    if counts.max(initial=0) > _MOST_CATEGORIES:
        raise TreesError(
            f"a feature has {counts.max():,} categories or more; number them 0, 1, ... and train "
            "again"
        )
    lowest = np.full(features, -LARGEST) if low is None else np.maximum(low, -LARGEST)
    highest = np.full(features, LARGEST) if high is None else np.minimum(high, LARGEST)
    lowest = np.where(counts > 0, np.maximum(np.ceil(lowest), 0.0), lowest)
    highest = np.where(counts > 0, np.minimum(highest, _MOST_WHOLE), highest)
    absent = np.ones(features, bool) if missing is None else missing
    blank = Domain(lowest, highest, absent, single, counts)
    every = np.arange(features)
    highest = blank.down(highest, every)
    rounded = blank.down(lowest, every)
    lowest = np.where(rounded < lowest, blank.up(rounded, every), rounded)
    wrong = np.flatnonzero((lowest > highest) & ~absent)
    if len(wrong):
        raise TreesError(f"no input has a feature {wrong[0]} in its range; widen it")
    return Domain(lowest, highest, absent, single, counts)


@dataclass(frozen=True, eq=False)
class Questions:
    """The questions of an ensemble's nodes over a domain.

    Attributes
    ----------
    last, next : list of float
        The greatest input that goes left, and the least that goes right.
    left : list of int
        The categories that go left, bit by bit.
    missing_left : list of bool
        Whether a missing value goes left; false where none can be.
    feature, yes, no : list of int
        The feature (-1 for a leaf), and both children; of a leaf ``yes`` is its row of values.
    """

    last: list[float]
    next: list[float]
    left: list[int]
    missing_left: list[bool]
    feature: list[int]
    yes: list[int]
    no: list[int]

    @staticmethod
    def of(nodes: Nodes, domain: Domain) -> Questions:
        """Return the questions of some nodes."""
        inner = nodes.feature >= 0
        last = np.where(inner, domain.down(nodes.threshold, nodes.feature), 0.0)
        left = [0] * len(inner)
        asks = np.flatnonzero(inner & (domain.categories[nodes.feature] > 0))
        for at in asks.tolist():
            count = int(domain.categories[nodes.feature[at]])
            goes = nodes.goes_left(np.full(count + 1, at), np.arange(count + 1.0))
            left[at] = int.from_bytes(np.packbits(goes, bitorder="little").tobytes(), "little")
        return Questions(
            last.tolist(),
            domain.up(last, nodes.feature).tolist(),
            left,
            (nodes.missing_left & domain.missing[nodes.feature] & inner).tolist(),
            nodes.feature.tolist(),
            nodes.left.tolist(),
            nodes.right.tolist(),
        )

    def same(self, at: int, other: Questions, there: int) -> bool:
        """Return whether a node asks what a node of another ensemble asks."""
        return (
            self.feature[at] == other.feature[there]
            and self.missing_left[at] == other.missing_left[there]
            and self.left[at] == other.left[there]
            and (self.left[at] > 0 or self.last[at] == other.last[there])
        )

    def split(self, at: int, part: Part) -> tuple[Part, Part]:
        """Return what of a part goes left, and what goes right."""
        goes = self.missing_left[at] and part.missing
        stays = part.missing and not self.missing_left[at]
        if part.categories or part.low > part.high:
            mask = part.categories
            left, right = mask & self.left[at], mask & ~self.left[at]
            return Part(1.0, 0.0, goes, left), Part(1.0, 0.0, stays, right)
        low, high = part.low, part.high
        return (
            Part(low, min(high, self.last[at]), goes),
            Part(max(low, self.next[at]), high, stays),
        )
