"""Input given to a guard, as the numbers that its model reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.arrays import Integers
from leaveout.encoders import Box
from leaveout.errors import GuardError, TrainingError
from leaveout.models.table import frame_table, is_frame, number
from leaveout.names import hint
from leaveout.verifier.guard.packing import FAULTLESS, NOT_FINITE, screen

Numbers = type[np.float32] | type[np.float64]
"""What a network reads, and what a forest reads."""


def read_numbers(given: ArrayLike, what: str, kind: Numbers) -> NDArray[Any]:
    """Return numbers of a dtype in any shape; what does not fit becomes infinite."""
    if np.ma.isMaskedArray(given):
        raise GuardError(f"{what} must be numbers, got a masked array; fill it first")
    try:
        array = np.asarray(given)
    except ValueError:
        raise GuardError(
            f"{what} must be numbers, with the same number of features in every row"
        ) from None
    if array.dtype.kind not in "fiu":
        raise GuardError(f"{what} must be numbers, got {array.dtype}")
    with np.errstate(over="ignore"):  # what does not fit is found to be infinite
        # Compiled loops would be compiled once more for arrays that cannot be written.
        return np.require(array, kind, ["C", "W"])


def encode_inputs(rows: Any, encode: Callable[[list[Any]], NDArray[Any]]) -> NDArray[Any]:
    """Encode rows in the table's own units, shape (rows, inputs)."""
    table = _row_list(rows)
    if not all(isinstance(row, Mapping) for row in table):
        raise GuardError("rows must be a list of mappings from column name to value")
    try:
        return encode(table)
    except TrainingError as error:
        raise GuardError(str(error)) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise GuardError(
            f"a row contains a value that is neither a number nor a string: {error}"
        ) from None


def _row_list(rows: Any) -> list[Any]:
    """Return rows as a list; rows of a data frame as mappings."""
    if not is_frame(rows):
        return list(rows) if isinstance(rows, Iterable) else [rows]
    try:
        table = frame_table(rows, "the data frame")
    except TrainingError as error:
        raise GuardError(str(error)) from None
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


def plain_rows(
    rows: Sequence[Mapping[str, str | float]], features: Sequence[str], kind: Numbers
) -> NDArray[Any]:
    """Read features by name, shape (rows, features)."""
    encoded = np.empty((len(rows), len(features)))
    for at, row in enumerate(rows):
        for column, name in enumerate(features):
            if name not in row:
                raise GuardError(f"row {at}: column {name!r} is missing{hint(name, row)}")
            value = _number(row[name])
            if value is None or not np.isfinite(value):
                raise GuardError(f"row {at}, column {name!r}: {row[name]!r} is not a finite number")
            encoded[at, column] = value
    return read_numbers(encoded, "inputs", kind)


def key_of(point: NDArray[Any]) -> bytes:
    """Return the memory key of an input, in which -0.0 equals 0.0."""
    key: bytes = (point + point.dtype.type(0)).tobytes()
    return key


def _number(cell: object) -> float | None:
    try:
        return number(cell) if isinstance(cell, str) else float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


Point = NDArray[Any]
"""An input, shape (features,), of the numbers that the model reads: float32 or float64."""


class Finding(NamedTuple):
    """What is known of one input; only the label of a non-leak may be revealed."""

    label: int  # that the model answers
    leak: bool  # whether some member answers otherwise; of networks a tie counts
    tier: int  # 1: the model's own confidence tells; 2: members had to be looked at


class Glance(NamedTuple):
    """What the model alone says of one input."""

    label: int
    confidence: float
    is_clear: bool  # whether that alone shows that all members answer alike


class LeakFinder(ABC):
    """Distinguishes leaks from other inputs exactly; safe to share among threads."""

    @abstractmethod
    def label(self, x: Point) -> int:
        """Return the model's answer: the first label with the highest score."""

    @abstractmethod
    def glance(self, x: Point) -> Glance:
        """Evaluate the model alone."""

    @abstractmethod
    def leaks(self, x: Point, seen: Glance) -> bool:
        """Return whether an input leaks, asking the members a glance leaves."""

    @abstractmethod
    def dissenters(self, points: NDArray[Any], labels: Integers) -> list[Integers]:
        """Return for each input all members that do not surely answer its label, ascending.

        Of networks also those that tie; of linear models those that are not proved to agree.
        """

    @abstractmethod
    def ask_all(self, x: Point) -> None:
        """Do at least the most work any input needs, whatever is known of it."""

    def glances(self, points: NDArray[Any]) -> list[Glance]:
        """Evaluate the model alone at inputs, shape (n, features), as `glance`."""
        return [self.glance(x) for x in points]

    def leaks_at(self, points: NDArray[Any], seen: Sequence[Glance]) -> NDArray[np.bool_]:
        """Return which inputs leak, shape (n,), each as `leaks` would."""
        found = [self.leaks(x, each) for x, each in zip(points, seen, strict=True)]
        return np.asarray(found, bool)

    def find(self, x: Point) -> Finding:
        """Decide one input."""
        seen = self.glance(x)
        if seen.is_clear:
            return Finding(seen.label, leak=False, tier=1)
        return Finding(seen.label, leak=self.leaks(x, seen), tier=2)

    def find_all(self, points: NDArray[Any]) -> list[Finding]:
        """Decide inputs, shape (n, features)."""
        seen = self.glances(points)
        asked = [at for at, each in enumerate(seen) if not each.is_clear]
        leaks = np.zeros(len(points), bool)
        leaks[asked] = self.leaks_at(points[asked], [seen[at] for at in asked])
        return [
            Finding(each.label, leak=leak, tier=1 if each.is_clear else 2)
            for each, leak in zip(seen, leaks.tolist(), strict=True)
        ]


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
                f"inputs have shape {points.shape}, expected (n, {count}): one row each, {count} "
                "features"
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
        fault, at = screen(point, self.box.lower, self.box.upper)
        if fault == NOT_FINITE:
            raise self._not_finite(point, at)
        if fault != FAULTLESS:
            return False
        if not self.box.choices:
            return True
        return bool(self.box.contains(point.astype(np.float64)[None])[0])

    def refusal(self, point: Point) -> str:
        _, at = screen(point, self.box.lower, self.box.upper)
        if at < 0:
            unlisted = (
                f"feature {self._feature(int(each.columns[0]))} takes listed values only, such as "
                "whole numbers: round it"
                for each in self.box.choices
                if len(each.columns) == 1 and point[each.columns[0]] not in each.values
            )
            why = next(unlisted, "its features take unlisted values")
            return f"{why}; nothing is proved about it, so it is refused"
        # Not its value: of a table's row it would tell the range its column was scaled by.
        low, high = self.box.lower[at], self.box.upper[at]
        return (
            f"feature {self._feature(at)} is outside the verified range [{low:.9g}, {high:.9g}]; "
            "nothing is proved there, so it is refused"
        )

    @property
    def words(self) -> str:
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
        finite = np.isfinite(point)
        if not finite.all():
            raise self._not_finite(point, int(np.argmin(finite)))
        return True

    def refusal(self, point: Point) -> str:
        raise AssertionError("every finite input is answered")

    @property
    def words(self) -> str:
        return f"all finite numbers of {self.dimension} features"
