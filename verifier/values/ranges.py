"""Numbers known to lie between two bounds, in exact arithmetic."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from leaveout.kernel.values import End, add_ends, multiply_ends
from leaveout.specs.deciders import Decided, Evidence

_LONGEST = 4096  # bits of a fraction beyond which it is rounded outwards


@dataclass(frozen=True)
class Range:
    """A number between two bounds, inclusive."""

    lower: End  # a float is an infinity
    upper: End  # a float is an infinity
    reason: str = ""  # why they differ
    evidence: Callable[[], Evidence] | None = field(default=None, compare=False)

    @classmethod
    def exactly(cls, value: float | Fraction) -> Range:
        """Return the range of a written number: 0.1 is exactly a tenth."""
        number = value if isinstance(value, Fraction) else Fraction(repr(value))
        return cls(number, number)

    @classmethod
    def between(
        cls,
        lower: object,
        upper: object,
        reason: str = "",
        evidence: Callable[[], Evidence] | None = None,
    ) -> Range:
        """Return the range between two computed bounds."""
        low, high = _end(lower), _end(upper)
        if low > high:
            raise ValueError(
                f"the lower bound {_end_text(low)} exceeds the upper bound {_end_text(high)}"
            )
        if low == math.inf or high == -math.inf:
            raise ValueError("a bound is infinite on the wrong side")
        return cls(low, high, reason, evidence)

    @property
    def exact(self) -> bool:
        """Whether the number is known exactly."""
        return self.lower == self.upper

    @property
    def floats(self) -> tuple[float | None, float | None]:
        """The bounds as floats, rounded outwards; None for an infinite one."""
        low, high = _down(self.lower) + 0.0, 0.0 - _down(-self.upper)
        return low if math.isfinite(low) else None, high if math.isfinite(high) else None

    def __str__(self) -> str:
        if self.exact:
            return _end_text(self.lower)
        if self.lower == -math.inf and self.upper == math.inf:
            return "any number"
        return f"between {_end_text(self.lower)} and {_end_text(self.upper)}"

    def __neg__(self) -> Range:
        return Range(-self.upper, -self.lower, self.reason, self.evidence)

    def __abs__(self) -> Range:
        if self.lower >= 0:
            return self
        if self.upper <= 0:
            return -self
        return Range(Fraction(0), max(-self.lower, self.upper), self.reason)

    def __add__(self, other: Range) -> Range:
        low, high = add_ends(self.lower, other.lower), add_ends(self.upper, other.upper)
        return self._tidy(low, high, other)

    def __sub__(self, other: Range) -> Range:
        return self + -other

    def __mul__(self, other: Range) -> Range:
        ends = [multiply_ends(a, b) for a in self._ends for b in other._ends]
        return self._tidy(min(ends), max(ends), other)

    def __truediv__(self, other: Range) -> Range:
        """Divide."""
        if other.lower == other.upper == 0:
            raise ZeroDivisionError
        if other.lower <= 0 <= other.upper:
            reason = self.reason or other.reason or "numerical: the divisor may be 0"
            return Range(-math.inf, math.inf, reason)
        low, high = _inverse(other.upper), _inverse(other.lower)
        return self * Range(low, high, other.reason)

    @property
    def _ends(self) -> tuple[End, End]:
        return self.lower, self.upper

    def _tidy(self, low: End, high: End, other: Range) -> Range:
        reason = self.reason or other.reason
        if _long(low) or _long(high):
            reason = reason or "numerical: too many digits to compute exactly"
            low = _rational(_down(low)) if _long(low) else low
            high = _rational(-_down(-high)) if _long(high) else high
        return Range(low, high, reason, self.evidence or other.evidence)


def compare(left: Range, operator: str, right: Range) -> bool | None:
    """Return whether a comparison holds; None if the bounds do not decide it."""
    match operator:
        case "<":
            return (
                True if left.upper < right.lower else False if left.lower >= right.upper else None
            )
        case "<=":
            return (
                True if left.upper <= right.lower else False if left.lower > right.upper else None
            )
        case ">" | ">=":
            return compare(right, "<" if operator == ">" else "<=", left)
        case "==":
            if left.exact and right.exact:
                return left.lower == right.lower
            apart = left.upper < right.lower or right.upper < left.lower
            return False if apart else None
        case "!=":
            equal = compare(left, "==", right)
            return None if equal is None else not equal
        case _:
            raise ValueError(operator)


def _end(value: object) -> End:
    if isinstance(value, numbers.Rational):
        return Fraction(value)
    if not isinstance(value, numbers.Real):
        raise ValueError(f"a bound must be a number, not a {type(value).__name__}")
    number = float(value)
    if math.isnan(number):
        raise ValueError("a bound is not a number (NaN)")
    return _rational(number)


def _rational(value: float) -> End:
    return value if math.isinf(value) else Fraction(value)


def _inverse(end: End) -> End:
    return Fraction(0) if isinstance(end, float) else 1 / end


def _long(end: End) -> bool:
    return isinstance(end, Fraction) and (
        end.numerator.bit_length() > _LONGEST or end.denominator.bit_length() > _LONGEST
    )


def _down(end: End) -> float:
    """Return the greatest float that is not above a number."""
    try:
        value = float(end)
    except OverflowError:
        return math.nextafter(math.inf, 0) if end > 0 else -math.inf
    return math.nextafter(value, -math.inf) if value > end else value


def _end_text(end: End) -> str:
    """Return a bound as text."""
    try:
        return f"{float(end):.9g}"
    except OverflowError:
        return "a very large number" if end > 0 else "a very large negative number"


PROVED = Decided("proved")


class StoppedError(Exception):
    """Nothing can be said, for a reason that is not an error, such as time."""


def with_reason(reason: str, default: str = "the bounds are inconclusive") -> str:
    """Return a reason with the prefix of a known kind."""
    if reason.startswith(("time", "solver", "numerical")):
        return reason
    return f"numerical: {reason or default}"


def both(left: Decided, right: Decided) -> Decided:
    """Return the verdict of a conjunction."""
    for verdict in ("refuted", "unknown"):
        for each in (left, right):
            if each.verdict == verdict:
                return each
    return PROVED


def either(left: Decided, right: Decided) -> Decided:
    """Return the verdict of a disjunction."""
    for verdict in ("proved", "unknown"):
        for each in (left, right):
            if each.verdict == verdict:
                return each
    words = "; ".join(dict.fromkeys(each.witness for each in (left, right) if each.witness))
    facts = left.facts or right.facts
    return Decided("refuted", witness=words, facts=facts)


def negate(claim: Decided, text: str) -> Decided:
    """Return the verdict of a negation; ``text`` is the claim."""
    if claim.verdict == "unknown":
        return claim
    return PROVED if claim.verdict == "refuted" else Decided("refuted", witness=f"{text} holds")
