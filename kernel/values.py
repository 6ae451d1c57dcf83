"""Numbers between bounds, and the arguments of the kernel's functions."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from .numbers import Floats, Rejected, need

if TYPE_CHECKING:
    from .onnx_file import Reader

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

Ask: TypeAlias = Callable[[str, Arrays], Arrays]
"""How the kernel asks for hints: what it wants, and what it knows; any answer may come back."""


def nothing(what: str, known: Arrays) -> Arrays:
    """Answer no question."""
    return {}


@dataclass(frozen=True, eq=False)
class Topic:
    """What questions are about: a part of a certificate."""

    kind: str  # leak tree, point tree, bounds, leaf boxes, or the name of a function
    name: str = ""  # of its arrays in the certificate
    proof: Arrays = field(default_factory=dict)  # these arrays
    facts: Mapping[str, int] = field(default_factory=dict)  # label, labels, members, hidden, short


Answers: TypeAlias = Callable[[Topic], Ask]
"""What answers the questions on a topic; it may raise any error."""


def no_answers(topic: Topic) -> Ask:
    """Answer nothing on any topic."""
    return nothing


def question(ask: Ask, what: str, known: Arrays) -> dict[str, NDArray[Any]]:
    """Ask; return copies of the plain arrays that come back, whatever else does.

    What is known is copied, too: nothing that is asked can change what the kernel holds.
    """
    answer = ask(what, {name: np.array(array) for name, array in known.items()})
    need(isinstance(answer, Mapping), f"no answer to {what!r}")
    return {
        name: np.array(found)
        for name, found in answer.items()
        if type(found) is np.ndarray and found.dtype.kind in "biuf"
    }


def hint(
    answer: Arrays, name: str, dtype: type[np.generic], shape: tuple[int | None, ...]
) -> NDArray[Any]:
    """Return an array of an answer, of this type and shape; None fits any length."""
    found = answer.get(name)
    fits = (
        found is not None
        and found.dtype == dtype
        and found.ndim == len(shape)
        and all(n in (None, m) for n, m in zip(shape, found.shape, strict=True))
    )
    if found is None or not fits:
        raise Rejected(f"a hint {name!r} is missing, or has the wrong type or shape")
    return found


def hints(ask: Ask, what: str, known: Arrays, *shape: int) -> Floats:
    """Ask for finite float64 numbers of a shape; anything else is rejected."""
    array: Floats = hint(question(ask, what, known), what, np.float64, shape)
    need(np.isfinite(array), f"a hint for {what!r} is not finite")
    return array


End: TypeAlias = Fraction | float
"""A fraction, or one of the infinities."""


_MOST_BITS = 2**13
"""Most bits of a numerator or denominator; numbers in a manifest have at most 2,000 digits."""


@dataclass(frozen=True)
class Range:
    """A number between two bounds, ends included."""

    lower: End  # floats are infinities
    upper: End  # floats are infinities

    def __post_init__(self) -> None:
        for end in (self.lower, self.upper):
            if isinstance(end, float) and not math.isinf(end):
                raise ValueError(f"{end} is not a fraction")
        if self.lower > self.upper or self.lower == math.inf or self.upper == -math.inf:
            raise ValueError(f"{self.lower} to {self.upper} is not a range")

    @classmethod
    def exactly(cls, value: int | Fraction) -> Range:
        """Return the range of a known number."""
        return cls(Fraction(value), Fraction(value))

    @property
    def exact_value(self) -> Fraction:
        """The number; raises if it is not known exactly."""
        if self.lower != self.upper or isinstance(self.lower, float):
            raise Rejected("a number must be known exactly, but is only bounded")
        return self.lower

    def short(self) -> Range:
        """Return the range itself; reject one whose ends have too many digits."""
        for end in (self.lower, self.upper):
            if isinstance(end, Fraction) and (
                max(end.numerator.bit_length(), end.denominator.bit_length()) > _MOST_BITS
            ):
                raise Rejected(f"a number needs more than {_MOST_BITS:,} bits")
        return self

    def __neg__(self) -> Range:
        return Range(-self.upper, -self.lower)

    def __abs__(self) -> Range:
        if self.lower >= 0:
            return self
        return -self if self.upper <= 0 else Range(Fraction(0), max(-self.lower, self.upper))

    def __add__(self, other: Range) -> Range:
        return Range(add_ends(self.lower, other.lower), add_ends(self.upper, other.upper))

    def __sub__(self, other: Range) -> Range:
        return self + -other

    def __mul__(self, other: Range) -> Range:
        ends = [
            multiply_ends(a, b)
            for a in (self.lower, self.upper)
            for b in (other.lower, other.upper)
        ]
        return Range(min(ends), max(ends))

    def __truediv__(self, other: Range) -> Range:
        if other.lower <= 0 <= other.upper:
            raise Rejected("it divides by a number that may be 0")
        ends = [Fraction(0) if isinstance(e, float) else 1 / e for e in (other.upper, other.lower)]
        return self * Range(ends[0], ends[1])


def compare(left: Range, operator: str, right: Range) -> bool | None:
    """Return whether a comparison holds; None if the bounds leave it open."""
    if operator in (">", ">="):
        return compare(right, operator.replace(">", "<"), left)
    if operator in ("==", "!="):
        equal: bool | None = None
        if left.upper < right.lower or right.upper < left.lower:
            equal = False
        elif left.lower == left.upper == right.lower == right.upper:
            equal = True
        return equal if equal is None or operator == "==" else not equal
    if operator == "<":
        return True if left.upper < right.lower else False if left.lower >= right.upper else None
    return True if left.upper <= right.lower else False if left.lower > right.upper else None


def number(text: str) -> Fraction:
    """Read a fraction from a manifest."""
    top, _, bottom = text.partition("/")
    fine = len(text) <= 2000 and text.isascii() and top.removeprefix("-").isdecimal()
    fine = fine and not text.endswith("/")
    fine = fine and (not bottom or (bottom.isdecimal() and int(bottom) > 0))
    need(fine, f"{text[:40]!r} is not a fraction")
    return Fraction(int(top), int(bottom or 1))


def add_ends(left: End, right: End) -> End:
    """Add two bounds."""
    # Infinity absorbs any number; a long fraction might not fit into a float.
    for end in (left, right):
        if isinstance(end, float):
            return end
    return left + right


def multiply_ends(left: End, right: End) -> End:
    """Multiply two bounds; 0 times an infinity is 0."""
    if left == 0 or right == 0:
        return Fraction(0)
    if isinstance(left, float) or isinstance(right, float):
        return math.inf if (left > 0) == (right > 0) else -math.inf
    return left * right


_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class HeldFile:
    """A file with the digest stated in the certificate."""

    path: Path
    sha256: str

    def content(self) -> bytes:
        """Return the file's bytes; raises Rejected if they are others than certified."""
        try:
            found = self.path.read_bytes()
        except OSError as error:
            raise Rejected(f"{self.path}: cannot be read: {error.strerror}") from None
        fine = hashlib.sha256(found).hexdigest() == self.sha256
        need(fine, f"{self.path}: not the file that the certificate is about")
        return found


@dataclass(frozen=True)
class Text:
    """A quoted text that is not a path; never mistaken for a bare word."""

    value: str


class Compared:
    """A value that ``==`` can compare with others of its kind; numbers are separate."""


@dataclass(frozen=True, eq=False)
class Given:
    """The arguments of one call, and its part of the proof."""

    values: Mapping[str, object]
    proof: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    confidence: Fraction | None = None
    tell: Callable[[str], None] = lambda line: None
    ask: Ask = nothing
    exact: bool = False
    answers: Answers = no_answers
    reader: Reader | None = None

    def number(self, name: str) -> Fraction:
        """Return an exactly known number."""
        return self.value_of_kind(name, Range, "number").exact_value

    def whole(self, name: str) -> int:
        """Return a non-negative whole number; raises as `number` does."""
        value = self.number(name)
        whole = value.denominator == 1 and value >= 0
        need(whole, f"{name!r} is {value}, not a whole number of at least 0")
        return value.numerator

    def error(self) -> Fraction:
        """Return the probability with which what rests on trials may be wrong."""
        if self.confidence is None:
            raise Rejected("what rests on trials always needs a confidence")
        need(0 < self.confidence < 1, f"{self.confidence} is not a confidence")
        return 1 - self.confidence

    def word(self, name: str, *words: str) -> str | None:
        """Return a bare word, one of those listed; None if it is absent."""
        value = self.values.get(name)
        need(value is None or value in words, f"{name!r} is not one of {', '.join(words)}")
        return None if value is None else str(value)

    def file(self, name: str = "path") -> HeldFile:
        """Return a file; raises Rejected for anything else."""
        return self.value_of_kind(name, HeldFile, "file")

    def value_of_kind(self, name: str, kind: type[_Kind], what: str) -> _Kind:
        """Return another function's result; raises Rejected if it is of another kind."""
        value = self.values.get(name)
        if not isinstance(value, kind):
            raise Rejected(f"{name!r} is not a {what}")
        return value

    def array(self, name: str, dtype: type[np.generic], rank: int = 1) -> NDArray[Any]:
        """Return an array of the proof."""
        found = self.proof.get(name)
        if found is None:
            raise Rejected(f"its proof has no array {name!r}")
        need(
            found.dtype == dtype and found.ndim == rank,
            f"array {name!r} of its proof is {found.dtype} of rank {found.ndim}, expected "
            f"{np.dtype(dtype)} of rank {rank}",
        )
        need(
            found.dtype.kind != "f" or np.isfinite(found).all(),
            f"array {name!r} of its proof contains a number that is not finite",
        )
        return found
