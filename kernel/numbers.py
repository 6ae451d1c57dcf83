"""Float64 arithmetic in which every rounding is charged (Higham 2002, section 3.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .refusal import Rejected as Rejected

Floats = NDArray[np.float64]

UNIT = 2.0**-53
"""Relative error of one rounding."""

PAD = 1.0 + 2.0**-40
"""What a formula of at most a thousand operations on non-negative numbers may lose."""

EXP = 16.0 * UNIT
"""Relative error charged for one exponential."""

TINY = 2.0**-1000
"""Far above what underflow can lose in a sum that is told."""

CROSSED = 2.0**-332
"""Bounds that cross by no more may do so by underflow, which no relative charge covers."""


def need(holds: Any, what: str) -> None:
    """Raise unless everything holds; what is no number does not."""
    if isinstance(holds, tuple | dict | set):
        raise TypeError(f"{what}: {type(holds).__name__} is not a truth value")
    if not np.all(holds):
        raise Rejected(what)


def gamma(count: int) -> float:
    """Return the relative error of a sum or product with this many roundings."""
    need(count < 2**40, f"{count} roundings are too many to charge")
    return count * UNIT / (1.0 - count * UNIT) * PAD


def no_less(values: Any) -> Any:
    """Return non-negative numbers rounded up for the few operations they came from."""
    return np.asarray(values) * PAD + TINY


def no_more(values: Any) -> Any:
    """Return non-negative numbers rounded down for the few operations they came from."""
    return np.maximum(np.asarray(values) * (2.0 - PAD) - TINY, 0.0)


def lengths(rows: Floats) -> Floats:
    """Return upper bounds of the Euclidean norms along the last axis."""
    with np.errstate(over="ignore"):
        squares = np.einsum("...i,...i->...", rows, rows)
    # Squares below the least float64 are lost: each is less than what is added for it.
    squares = squares * (1.0 + gamma(rows.shape[-1] + 2)) + rows.shape[-1] * 2.0**-1070
    bound: Floats = np.sqrt(squares) * PAD + TINY
    return bound


def spectral(matrices: Floats, squarings: int = 4) -> Floats:
    """Return upper bounds of the spectral norms of symmetric matrices, shape (..., k, k).

    The norm is that of the 2**s-th power, to the power 2**-s, and no norm exceeds Frobenius's.
    """
    power, size = matrices, np.zeros(matrices.shape[:-2])
    width = matrices.shape[-1]
    for step in range(squarings + 1):
        norm = lengths(power.reshape(*power.shape[:-2], -1))
        safe = np.where((norm > TINY) & np.isfinite(norm), norm, 1.0)
        # log2 of the bound so far; each scaling is by a power of two and therefore exact.
        scale = np.exp2(np.ceil(np.log2(safe)))
        size += np.log2(scale) / 2.0**step
        power = power / scale[..., None, None]
        if step < squarings:
            lost = gamma(width + 2) * width
            power = power @ power + lost * np.eye(width)
    last = np.log2(lengths(power.reshape(*power.shape[:-2], -1))) / 2.0**squarings
    found: Floats = np.exp2(size + last) * (1.0 + 2.0**-30) + TINY
    first = lengths(matrices.reshape(*matrices.shape[:-2], -1))
    bound: Floats = np.where(np.isfinite(first + found), np.minimum(first, found), np.inf)
    return bound
