"""Lower bounds of means of draws in [0, 1], by betting, with rounding charged."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.estimates.file import Floats

_BETS = np.linspace(0.05, 1, 20)
_HALVINGS = 34
_FACTORS = 16
"""Multiplied before the exponent is taken out: neither end of float64's range is reached."""
_LEAST = 2.0**-40
"""Means below are not told from 0."""
_RANGE = 1000
_FAR = 2**40
"""An exponent of 0: beyond those of all products."""


def means_above(values: Floats, error: Fraction) -> Floats:
    """Return what the means of independent draws are above, but for a chance of ``error`` each.

    For a bet u in [0, 1] the product over the draws of 1 + u (x / m - 1) = (1 - u) + u x / m has
    an expectation of at most 1 where the mean is at most m, and so has the average W(m) over fixed
    bets; it reaches 1 / error with a probability of at most ``error`` (Markov). W falls in m, so
    where it does reach it, the mean is above m, or that has happened.
    """
    low, high = np.zeros(values.shape[1]), np.minimum(values.mean(axis=0), 1.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        shown = (middle > _LEAST) & _reaches(values, np.maximum(middle, _LEAST), error)
        low, high = np.where(shown, middle, low), np.where(shown, high, middle)
    return low


def _reaches(values: Floats, mean: Floats, error: Fraction) -> NDArray[np.bool_]:
    """Return whether the average over the bets provably reaches 1 / error, by column.

    Only sums, products and quotients of non-negative numbers, whose rounding is relative and
    charged.
    """
    trials, columns = values.shape
    product = np.ones((len(_BETS), columns))
    exponent = np.zeros((len(_BETS), columns), dtype=np.int64)
    first, rate = (1 - _BETS)[:, None], _BETS[:, None] / mean
    for start in range(0, trials, _FACTORS):
        for draw in values[start : start + _FACTORS]:
            product *= first + rate * draw
        product, shift = np.frexp(product)
        exponent += shift
    exponent = np.where(product > 0, exponent, -_FAR)
    most = exponent.max(axis=0)
    below = exponent - most
    total = np.where(below > -_RANGE, np.ldexp(product, np.maximum(below, -_RANGE)), 0).sum(axis=0)
    with np.errstate(over="ignore"):
        reached = np.ldexp(total, np.clip(most, -2 * _RANGE, 2 * _RANGE))
    # A factor has at most 5 roundings, a product 1 more each; sums and what follows fewer than 64.
    charged = len(_BETS) / error * (1 + Fraction(6 * trials + 64, 2**52))
    if charged >= 2**_RANGE:
        return np.zeros(columns, dtype=np.bool_)
    return np.asarray(reached >= np.nextafter(float(charged), np.inf))
