"""Formulas of both VNN-LIB versions: linear inequalities joined by and and or."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from leaveout.specs.text.errors import Position, Slip, nearest
from leaveout.specs.vnnlib.text import Bracketed, Lines, Tree, Word

LONGEST_NUMBER = 2000  # most characters of a number: the longest float64 in full has about 1,100
LARGEST_EXPONENT = 400
_BITS = 20_000
_LARGEST32 = float(np.finfo(np.float32).max)
_BEYOND = Fraction(2**128 - 2**103)  # numbers at least this large round to infinity in float32


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
    """An error in a term and its remedy, before its position is known."""

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
        raise UnreadableError("a coefficient has too many digits")
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
                "the product of two variables is not linear",
                "only products with numbers are supported",
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
    """Round a number compared with an input as a runtime reads it."""
    if number.terms or other.constant or len(other.terms) != 1:
        return number
    ((spot, coefficient),) = other.terms.items()
    if spot.output or abs(coefficient) != 1:
        return number
    return Linear(constant=nearest_float32(number.constant))


def compare_linear(sign: str, left: Linear, right: Linear, at: Position) -> Formula:
    """Return the comparison of two linear functions.

    A number compared with an input becomes the nearest float32, which is what a runtime receives.
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


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
_SIGNS = {"<=": "<=", ">=": ">=", "<": "<", ">": ">", "=": "==", "==": "==", "!=": "!="}
_SIGNS["distinct"] = "!="
_ARITHMETIC = {"+", "-", "*", "/"}
LOGIC = {"and", "or", "not", "=>", "true", "false"}
_MOST_NAMES = 1000  # most known names compared with an unknown one


class Scope(Protocol):
    """The meanings of names in a query."""

    def find(self, name: str) -> Place | None:
        """Return the element that a name denotes; None if it is not declared."""

    def names(self) -> Collection[str]:
        """Return the declared names."""


class Assertions:
    """Reader of the formulas of a text."""

    def __init__(self, lines: Lines, scope: Scope) -> None:
        self.lines, self.scope = lines, scope

    def at(self, tree: Tree) -> Position:
        """Return the position of a word, or of a list's opening bracket."""
        length = len(tree.text) if isinstance(tree, Word) else 1
        return self.lines.place(tree.start, tree.start + length)

    def at_head(self, tree: Bracketed) -> Position:
        """Return the position of the first word of a list."""
        return self.at(tree.items[0] if tree.items else tree)

    def read_assert(self, given: Bracketed) -> Formula:
        """Read ``(assert formula)``."""
        if len(given.items) != 2:
            raise Slip(self.at(given), "'assert' takes one formula")
        return self.formula(given.items[1])

    def formula(self, tree: Tree) -> Formula:
        """Read a formula, without ``assert`` around it."""
        if isinstance(tree, Word):
            if tree.text in {"true", "false"}:
                return All() if tree.text == "true" else Any()
            raise Slip(self.at(tree), f"expected a formula, found '{tree.text[:40]}'")
        head, rest = tree.head, tree.items[1:]
        if head in {"and", "or"}:
            parts = tuple(map(self.formula, rest))
            return All(parts) if head == "and" else Any(parts)
        if head == "not" and len(rest) == 1:
            return negate_formula(self.formula(rest[0]))
        if head == "=>" and len(rest) == 2:
            return Any((negate_formula(self.formula(rest[0])), self.formula(rest[1])))
        if head not in _SIGNS:
            wrong = f"'{head[:40]}' with {len(rest)} parts" if head else "this"
            cure = nearest(head[:40], LOGIC) if head else ""
            raise Slip(self.at_head(tree), f"{wrong} is not a supported formula", cure)
        return self._comparison(_SIGNS[head], rest, tree)

    def _comparison(self, sign: str, parts: Sequence[Tree], tree: Bracketed) -> Formula:
        at = self.at(tree)
        if len(parts) < 2 or (sign == "!=" and len(parts) > 2):
            raise Slip(at, f"'{tree.head}' compares two terms, found {len(parts)}")
        sides = [self._term(part) for part in parts]
        try:
            found = [compare_linear(sign, *pair, at) for pair in itertools.pairwise(sides)]
        except UnreadableError as error:
            raise error.slip_at(at) from None
        return found[0] if len(found) == 1 else All(tuple(found))

    def _term(self, tree: Tree) -> Linear:
        parts = [] if isinstance(tree, Word) else [self._term(part) for part in self._parts(tree)]
        try:
            return self._leaf(tree) if isinstance(tree, Word) else _combine_terms(tree, parts)
        except UnreadableError as error:
            raise error.slip_at(self.at(tree)) from None

    def _parts(self, tree: Bracketed) -> list[Tree]:
        if tree.head not in _ARITHMETIC:
            what = f"'{tree.head[:40]}'" if tree.head else "this"
            raise Slip(self.at_head(tree), f"{what} is not supported arithmetic")
        if len(tree.items) < (3 if tree.head == "/" else 2):
            raise Slip(self.at(tree), f"'{tree.head}' has too few terms")
        return tree.items[1:]

    def _leaf(self, word: Word) -> Linear:
        spot = self.scope.find(word.text)
        if spot is not None:
            return Linear({spot: Fraction(1)})
        if _NUMBER.fullmatch(word.text):
            return Linear(constant=number(word.text))
        names = self.scope.names()
        cure = nearest(word.text[:40], names) if len(names) < _MOST_NAMES else ""
        raise UnreadableError(
            f"'{word.text[:40]}' is neither a number nor a declared variable", cure
        )


def _combine_terms(tree: Bracketed, parts: list[Linear]) -> Linear:
    """Return the linear function of an arithmetic operation on its parts."""
    match tree.head:
        case "+":
            return total(parts)
        case "-" if len(parts) == 1:
            return parts[0].scale_by(Fraction(-1))
        case "-":
            return total(parts[:1], parts[1:])
        case "*":
            return product(parts)
    return _quotient(parts)


def _quotient(parts: list[Linear]) -> Linear:
    for divisor in parts[1:]:
        if divisor.terms:
            raise UnreadableError("division by a variable is not linear")
        if divisor.constant == 0:
            raise UnreadableError("division by 0")
    return product([parts[0], *(Linear(constant=1 / each.constant) for each in parts[1:])])
