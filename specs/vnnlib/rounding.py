"""Rounding of exact numbers to float64, so that no counter-example is lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import lcm

from leaveout.specs.vnnlib.formula import Place


def _nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def below(value: Fraction) -> float:
    """Return the largest float64 not above a number."""
    near = _nearest(value)
    if near == -math.inf:
        return near
    if near == math.inf or Fraction(near) > value:
        near = math.nextafter(near, -math.inf)
    return near + 0.0


def above(value: Fraction) -> float:
    """Return the smallest float64 not below a number."""
    return -below(-value) + 0.0


def finite_below(value: Fraction) -> Fraction | None:
    """Return `below` as an exact number; None if no finite float64 is that small."""
    near = below(value)
    return None if math.isinf(near) else Fraction(near)


def finite_above(value: Fraction) -> Fraction | None:
    """Return `above` as an exact number; None if no finite float64 is that large."""
    near = above(value)
    return None if math.isinf(near) else Fraction(near)


def is_exact(value: Fraction) -> bool:
    """Return whether float64 represents a number exactly."""
    near = _nearest(value)
    return math.isfinite(near) and Fraction(near) == value


def relax_coefficients(
    terms: Mapping[Place, Fraction], constant: Fraction, largest: Callable[[Place], Fraction]
) -> tuple[dict[Place, float], float]:
    """Return float64 coefficients whose form is never below the exact one, up to scale."""
    if not all(map(is_exact, terms.values())):
        scale = lcm(*(value.denominator for value in terms.values()))
        whole = {spot: value * scale for spot, value in terms.items()}
        if all(map(is_exact, whole.values())):
            terms, constant = whole, constant * scale
    rounded = {spot: _nearest(value) for spot, value in terms.items()}
    if not all(map(math.isfinite, rounded.values())):
        return rounded, math.inf
    slack = Fraction(0)
    for spot, value in terms.items():
        missing = abs(value - Fraction(rounded[spot]))
        if missing:
            slack += missing * largest(spot)
    return rounded, above(constant + slack)
