"""Bounds of the error of computed sums."""

from __future__ import annotations

UNIT = 2.0**-53
UNIT32 = 2.0**-24
TINY32 = 2.0**-126
"""Unit roundoffs of float64 and float32, and the smallest normal float32."""


def gamma(roundings: float, unit: float = UNIT) -> float:
    """Return the relative error of some roundings, rounded up (Higham, Lemma 3.1)."""
    product = roundings * unit
    if product >= 0.25:
        raise ArithmeticError(f"{roundings:g} roundings are too many")
    return product / (1.0 - product) * (1.0 + 4.0 * UNIT)
