"""The numbers a certificate is checked with: float64, its rounding charged, or exact ones.

All that is checked is written once. Where a sum or a product is to hold, its terms go through
`Arithmetic.number`; what is kept of it goes through `up` or `down`, and what rounding may have
changed is charged as multiples of `Arithmetic.unit`. In float64 the first three do nothing; of
exact numbers nothing is charged, and they are rounded once, in the direction that is safe.
"""

from __future__ import annotations

from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.exact.numbers import Exact
from leaveout.verifier.checker.rounding import UNIT, gamma

__all__ = ["EXACT", "FLOATS", "Arithmetic"]

Floats = NDArray[np.float64]


class Arithmetic(Protocol):
    """How numbers are added, multiplied and kept."""

    @property
    def unit(self) -> float:
        """What one operation may be off by, relative to its result."""
        ...

    def gamma(self, roundings: float) -> float:
        """What so many operations may be off by, relative to the sum of absolute terms."""
        ...

    def number(self, values: Floats) -> Floats:
        """Return numbers to compute with, which stand for arrays."""
        ...

    def up(self, values: Floats) -> Floats:
        """Return float64 numbers that are no less, but for what was charged."""
        ...

    def down(self, values: Floats) -> Floats:
        """Return float64 numbers that are no more, but for what was charged."""
        ...

    def nearest(self, values: Floats) -> Floats:
        """Return float64 numbers to choose by: nothing rests on them."""
        ...


class _Floats:
    """Float64: what it rounds is charged."""

    unit = UNIT

    def gamma(self, roundings: float) -> float:
        """See `Arithmetic.gamma`."""
        return gamma(roundings)

    def number(self, values: Floats) -> Floats:
        """See `Arithmetic.number`."""
        return values

    up = down = nearest = number


class _Exact:
    """Integers times powers of two: nothing is rounded but what is kept."""

    unit = 0.0

    def gamma(self, roundings: float) -> float:
        """See `Arithmetic.gamma`."""
        return 0.0

    def number(self, values: Floats) -> Floats:
        """See `Arithmetic.number`."""
        return cast("Floats", Exact.of(values))

    def up(self, values: Floats) -> Floats:
        """See `Arithmetic.up`."""
        return Exact.of(values).up()

    def down(self, values: Floats) -> Floats:
        """See `Arithmetic.down`."""
        return Exact.of(values).down()

    def nearest(self, values: Floats) -> Floats:
        """See `Arithmetic.nearest`."""
        return Exact.of(values).nearest()


FLOATS: Arithmetic = _Floats()
EXACT: Arithmetic = _Exact()
