"""Piecewise numbers: max-min of linear forms in features, scores and one unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

MOST = 4096
"""Most linear forms that one number may be made of, and cases one claim."""

Place = tuple[str, int, int]
"""``("feature", point, feature)`` or ``("score", application, label)``."""


Varying = tuple[frozenset[tuple[Place, Fraction]], Fraction]
"""Coefficients, and that of the unknown."""

_ZERO, _ONE = Fraction(0), Fraction(1)


class TooManyError(Exception):
    """A number with too many pieces, or a claim with too many cases."""


@dataclass(frozen=True)
class Lin:
    """``sum of terms + unknown * b + constant``, where b is what a find seeks.

    Exact: in float64 a number beside a much larger one would be lost.
    """

    terms: Mapping[Place, Fraction] = field(default_factory=dict)  # without zeros
    unknown: Fraction = _ZERO
    constant: Fraction = _ZERO

    @cached_property
    def variable_part(self) -> Varying:
        """Return the variable part: all but the constant."""
        return frozenset(self.terms.items()), self.unknown

    @cached_property
    def opposite(self) -> Varying:
        """Return the negated variable part."""
        return frozenset((place, -c) for place, c in self.terms.items()), -self.unknown

    @cached_property
    def _hash(self) -> int:
        return hash((self.variable_part, self.constant))

    def __hash__(self) -> int:
        return self._hash

    def plus(self, other: Lin, times: Fraction = _ONE) -> Lin:
        """Return ``self + times * other``."""
        terms = dict(self.terms)
        for place, coefficient in other.terms.items():
            total = terms.get(place, _ZERO) + times * coefficient
            if total:
                terms[place] = total
            else:
                terms.pop(place, None)
        unknown = self.unknown + times * other.unknown
        return Lin(terms, unknown, self.constant + times * other.constant)

    def times(self, factor: Fraction) -> Lin:
        """Return ``factor * self``."""
        return Lin().plus(self, factor)

    @property
    def is_constant(self) -> bool:
        """Whether there is no variable part."""
        return not self.terms and not self.unknown


Pieces = tuple[tuple[Lin, ...], ...]
"""``max over rows of min over a row``."""


def plain(lin: Lin) -> Pieces:
    """Return a linear form as a number."""
    return ((lin,),)


def greatest(*numbers: Pieces) -> Pieces:
    """Return the maximum of some numbers."""
    return _distinct(tuple(row for number in numbers for row in number))


def least(*numbers: Pieces) -> Pieces:
    """Return the minimum of some numbers."""
    rows: Pieces = ((),)
    for number in numbers:
        if len(rows) * len(number) > MOST:
            raise TooManyError(f"more than {MOST:,} linear pieces")
        rows = tuple((*row, *other) for row in rows for other in number)
    return _distinct(rows)


def _distinct(pieces: Pieces) -> Pieces:
    kept = dict.fromkeys(tuple(dict.fromkeys(row)) for row in pieces)
    if sum(len(row) for row in kept) > MOST:
        raise TooManyError(f"more than {MOST:,} linear pieces")
    return tuple(kept)


def add_pieces(first: Pieces, second: Pieces) -> Pieces:
    """Return the sum of two numbers."""
    if len(first) * len(second) > MOST:
        raise TooManyError(f"more than {MOST:,} linear pieces")
    return _distinct(
        tuple(tuple(a.plus(b) for a in row for b in other) for row in first for other in second)
    )


def scale_pieces(number: Pieces, factor: Fraction) -> Pieces:
    """Return a multiple of a number; a negative factor swaps max and min."""
    if factor >= 0:
        return _distinct(tuple(tuple(lin.times(factor) for lin in row) for row in number))
    # -max min = min max: one form of each row, in every way, and the greatest of their leasts.
    turned = [tuple((lin.times(factor),) for lin in row) for row in number]
    return least(*turned)
