"""Bounds as people read them: rounded outwards, so that they stay bounds."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

__all__ = ["bound", "ends"]

_DIGITS = 6
_WHOLE = 12
"""Digits before the point up to which a number is written without an exponent."""


def bound(value: float, up: bool = False) -> str:
    """Return six digits, rounded down, or up for an upper bound."""
    digits = Context(prec=_DIGITS, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    shown = digits.create_decimal(value).normalize(digits)
    # Left to itself a decimal writes 80 as 8e+1.
    return f"{shown:f}" if 0 <= shown.adjusted() < _WHOLE else f"{shown:g}"


def ends(lower: float | None, upper: float | None, missing: str = "-") -> tuple[str, str]:
    """Return two bounds; a number that is known but for its last bit reads as one number."""
    if lower is not None and upper is not None and upper <= math.nextafter(lower, math.inf):
        return f"{upper:.{_DIGITS}g}", f"{upper:.{_DIGITS}g}"
    return (
        missing if lower is None else bound(lower),
        missing if upper is None else bound(upper, up=True),
    )
