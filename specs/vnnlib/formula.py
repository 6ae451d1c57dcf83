"""Formulas of both VNN-LIB versions: linear inequalities joined by and and or."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from leaveout.specs.text.errors import Slip
from leaveout.specs.text.source import Position

LONGEST_NUMBER = 2000
"""Characters of a number: the longest float64 written out has about 1,100."""
LARGEST_EXPONENT = 400
_BITS = 20_000
_LARGEST32 = float(np.finfo(np.float32).max)
_BEYOND = Fraction(2**128 - 2**103)
"""Numbers as large as this are nearer to infinity than to any float32."""


class Place(NamedTuple):
    """An element of an input or an output."""

    output: bool
    network: int  # position of its declaration
    element: int  # position in the flattened tensor, row-major


@dataclass
class Linear:
    """A linear function with exact non-zero coefficients."""

    terms: dict[Place, Fraction] = field(default_factory=dict)
    constant: Fraction = Fraction(0)

    def scale_by(self, factor: Fraction) -> Linear:
        """Return a multiple of the function."""
        if factor == 0:
            return Linear()
        return Linear({p: c * factor for p, c in self.terms.items()}, self.constant * factor)


@dataclass(frozen=True)
class Atom:
    """``linear >= 0``, or ``linear > 0`` where strict."""

    linear: Linear
    strict: bool
    at: Position


@dataclass(frozen=True)
class All:
    """Conjunction; true if empty."""

    parts: tuple[Formula, ...] = ()


@dataclass(frozen=True)
class Any:
    """Disjunction; false if empty."""

    parts: tuple[Formula, ...] = ()


Formula: TypeAlias = Atom | All | Any


class UnreadableError(Exception):
    """An error in a term and its cure, before its position is known."""

    def __init__(self, wrong: str, cure: str = "") -> None:
        super().__init__(wrong)
        self.wrong = wrong
        self.cure = cure

    def slip_at(self, at: Position) -> Slip:
        """Return the slip at a position."""
        return Slip(at, self.wrong, self.cure)


@lru_cache(maxsize=4096)
def number(text: str) -> Fraction:
    """Read a decimal number exactly."""
    mantissa, _, exponent = text.lower().partition("e")
    if len(text) > LONGEST_NUMBER or abs(int(exponent or "0")) > LARGEST_EXPONENT:
        raise UnreadableError(f"the number {text[:20]}... has too many digits")
    return Fraction(mantissa) * Fraction(10) ** int(exponent or "0")


def _check_digits(value: Fraction) -> Fraction:
    """Return the coefficient; refuse one with too many digits."""
    if value.numerator.bit_length() + value.denominator.bit_length() > _BITS:
        raise UnreadableError("a coefficient gets too many digits")
    return value


def total(plus: Iterable[Linear], minus: Iterable[Linear] = ()) -> Linear:
    """Return the sum of linear functions minus others."""
    terms: dict[Place, Fraction] = {}
    constant = Fraction(0)
    for sign, parts in ((1, plus), (-1, minus)):
        for part in parts:
            if part.constant:
                constant = _check_digits(constant + sign * part.constant)
            for spot, coefficient in part.terms.items():
                more = coefficient if sign > 0 else -coefficient
                known = terms.get(spot)
                terms[spot] = more if known is None else _check_digits(known + more)
    return Linear({spot: c for spot, c in terms.items() if c}, constant)


def product(factors: Iterable[Linear]) -> Linear:
    """Multiply linear functions."""
    scale = Fraction(1)
    variable: Linear | None = None
    for factor in factors:
        if not factor.terms:
            scale = _check_digits(scale * factor.constant)
        elif variable is None:
            variable = factor
        else:
            raise UnreadableError(
                "the product of two variables is not linear", "only products with numbers are read"
            )
    if variable is None:
        return Linear(constant=scale)
    for coefficient in (variable.constant, *variable.terms.values()):
        _check_digits(coefficient * scale)
    return variable.scale_by(scale)


@lru_cache(maxsize=4096)
def nearest_float32(value: Fraction) -> Fraction:
    """Return the nearest float32, ties to even; the number itself if out of range."""
    if abs(value) >= _BEYOND:
        return value
    near = np.float32(min(max(float(value), -_LARGEST32), _LARGEST32))
    ends = (np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf)))
    found = [
        (Fraction(float(each)), int(each.view(np.int32)) & 1) for each in ends if np.isfinite(each)
    ]
    return min(found, key=lambda each: (abs(each[0] - value), each[1]))[0]


def _as_read(number: Linear, other: Linear) -> Linear:
    """Return a number compared with an input as a runtime reads it."""
    if number.terms or other.constant or len(other.terms) != 1:
        return number
    ((spot, coefficient),) = other.terms.items()
    if spot.output or abs(coefficient) != 1:
        return number
    return Linear(constant=nearest_float32(number.constant))


def compare_linear(sign: str, left: Linear, right: Linear, at: Position) -> Formula:
    """Return the comparison of two linear functions.

    A number compared with an input becomes the nearest float32, as a runtime is given that one.
    """
    left, right = _as_read(left, right), _as_read(right, left)
    if sign in {">=", ">"}:
        return Atom(total([left], [right]), sign == ">", at)
    if sign in {"<=", "<"}:
        return Atom(total([right], [left]), sign == "<", at)
    more, less = total([left], [right]), total([right], [left])
    match sign:
        case "==":
            return All((Atom(more, False, at), Atom(less, False, at)))
        case _:
            return Any((Atom(more, True, at), Atom(less, True, at)))


def negate_formula(formula: Formula) -> Formula:
    """Return the negation of a formula."""
    if isinstance(formula, Atom):
        return Atom(formula.linear.scale_by(Fraction(-1)), not formula.strict, formula.at)
    parts = tuple(negate_formula(part) for part in formula.parts)
    return Any(parts) if isinstance(formula, All) else All(parts)
