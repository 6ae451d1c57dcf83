"""Numbers of a formula: the greatest of least linear forms in features, scores and one unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "MOST", "Lin", "Pieces", "TooManyError", "added", "greatest", "least", "plain", "scaled",
]  # fmt: skip

MOST = 4096
"""Most linear forms that one number may be made of, and cases one claim."""

Place = tuple[str, int, int]
"""``("feature", point, feature)`` or ``("score", application, label)``."""


class TooManyError(Exception):
    """A number has too many pieces, or a claim too many cases."""


@dataclass(frozen=True)
class Lin:
    """``sum of terms + unknown * b + constant``, b being what a find looks for.

    Attributes
    ----------
    terms : mapping of Place to float
        Without zeros.
    unknown, constant : float
    """

    terms: Mapping[Place, float] = field(default_factory=dict)
    unknown: float = 0.0
    constant: float = 0.0

    def plus(self, other: Lin, times: float = 1.0) -> Lin:
        """Return ``self + times * other``."""
        terms = dict(self.terms)
        for place, coefficient in other.terms.items():
            total = terms.get(place, 0.0) + times * coefficient
            if total:
                terms[place] = total
            else:
                terms.pop(place, None)
        unknown = self.unknown + times * other.unknown
        return Lin(terms, unknown, self.constant + times * other.constant)

    def times(self, factor: float) -> Lin:
        """Return a multiple."""
        return Lin().plus(self, factor)

    @property
    def is_constant(self) -> bool:
        """Whether nothing varies."""
        return not self.terms and not self.unknown


Pieces = tuple[tuple[Lin, ...], ...]
"""``max over rows of min over a row``."""


def plain(lin: Lin) -> Pieces:
    """Return one linear form as a number."""
    return ((lin,),)


def _distinct(row: tuple[Lin, ...]) -> list[Lin]:
    seen: list[Lin] = []
    for lin in row:
        if lin not in seen:
            seen.append(lin)
    return seen


def greatest(*numbers: Pieces) -> Pieces:
    """Return the greatest of some numbers."""
    return _unhashed(tuple(row for number in numbers for row in number))


def least(*numbers: Pieces) -> Pieces:
    """Return the least of some numbers."""
    rows: Pieces = ((),)
    for number in numbers:
        if len(rows) * len(number) > MOST:
            raise TooManyError(f"more than {MOST:,} linear pieces")
        rows = tuple((*row, *other) for row in rows for other in number)
    return _unhashed(rows)


def _unhashed(pieces: Pieces) -> Pieces:
    kept: list[tuple[Lin, ...]] = []
    for row in pieces:
        slim = tuple(_distinct(row))
        if slim not in kept:
            kept.append(slim)
    if sum(len(row) for row in kept) > MOST:
        raise TooManyError(f"more than {MOST:,} linear pieces")
    return tuple(kept)


def added(first: Pieces, second: Pieces) -> Pieces:
    """Return the sum of two numbers."""
    if len(first) * len(second) > MOST:
        raise TooManyError(f"more than {MOST:,} linear pieces")
    return _unhashed(
        tuple(tuple(a.plus(b) for a in row for b in other) for row in first for other in second)
    )


def scaled(number: Pieces, factor: float) -> Pieces:
    """Return a multiple; a negative one turns the greatest of leasts round."""
    if factor >= 0:
        return _unhashed(tuple(tuple(lin.times(factor) for lin in row) for row in number))
    # -max min = min max: one form of each row, in every way, and the greatest of their leasts.
    turned = [tuple((lin.times(factor),) for lin in row) for row in number]
    return least(*turned)
