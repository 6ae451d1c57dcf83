"""Numbers as readable text; bounds are rounded outwards, so they stay bounds."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

MISSING = "–"
_DIGITS = 6
_SAME = 1e-9
_WHOLE = 12
"""Digits before the point up to which a number is written without an exponent."""


def bound(value: float | None, up: bool = False) -> str:
    """Return six digits, rounded down, or up for an upper bound; a dash for None."""
    return MISSING if value is None else _digits(Decimal(value), up)


def _digits(value: Decimal, up: bool) -> str:
    digits = Context(prec=_DIGITS, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    shown = digits.create_decimal(value).normalize(digits)
    # Left to itself a decimal writes 80 as 8e+1.
    return f"{shown:f}" if 0 <= shown.adjusted() < _WHOLE else f"{shown:g}"


def ends(lower: float | None, upper: float | None, missing: str = "-") -> tuple[str, str]:
    """Return two bounds as text, equal if they differ only by float rounding."""
    if lower is not None and upper is not None and upper <= math.nextafter(lower, math.inf):
        return f"{upper:.{_DIGITS}g}", f"{upper:.{_DIGITS}g}"
    return (
        missing if lower is None else bound(lower),
        missing if upper is None else bound(upper, up=True),
    )


def written_number(value: float, up: bool = False) -> str:
    """Return a number as someone wrote it; many digits are rounded as a bound."""
    return _digits(Decimal(repr(float(value))), up)


def plain(value: float) -> str:
    """Return a number that is not a bound."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.7g}"


def percent(value: float) -> str:
    """Return a share in per cent."""
    return f"{100 * value:.5g} %"


def share(value: float, up: bool = False) -> str:
    """Return a bound of a share in per cent with one decimal, rounded outwards.

    A value within 1e-11 of such a number counts as that number: it differs by float rounding.
    """
    exact = round(100 * Decimal(value), 9)
    digits = exact.quantize(Decimal("0.1"), ROUND_CEILING if up else ROUND_FLOOR)
    return f"{digits.normalize() + 0:f} %"


def same(lower: float, upper: float) -> bool:
    """Return whether two bounds differ by no more than float rounding."""
    return abs(upper - lower) <= _SAME * max(abs(lower), abs(upper))


def span(lower: float | None, upper: float | None) -> str:
    """Return what two bounds say of a number, as the end of a sentence."""
    if lower is None and upper is None:
        return "not known"
    if lower is None:
        return f"at most {bound(upper, up=True)}"
    if upper is None:
        return f"at least {bound(lower)}"
    low, high = bound(lower), bound(upper, up=True)
    if low == high:
        return low
    if same(lower, upper):
        return f"about {upper:.{_DIGITS}g}"
    return f"between {low} and {high}"


def duration(seconds: float) -> str:
    """Return a time in seconds."""
    return "under 0.1 s" if seconds < 0.05 else f"{seconds:,.1f} s"


def count_noun(count: int, noun: str) -> str:
    """Return a number of things in words."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
