"""Arithmetic of the checker: float64 with charged rounding, or exact numbers.

All that is checked is written once. Where a sum or a product is to hold, its terms go through
`Arithmetic.number`, and what is kept of it through `up` or `down`. In float64 these do nothing.
Exact numbers are rounded once, where they are kept, in the direction that is safe. What is charged
for rounding in float64 is charged of them too: it only widens, and nothing rests on it.
"""

from __future__ import annotations

from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.exact.numbers import Exact

Floats = NDArray[np.float64]


class Arithmetic(Protocol):
    """Protocol of adding, multiplying and keeping numbers."""

    @property
    def exact(self) -> bool:
        """Whether sums and products are exact."""
        ...

    def number(self, values: Floats) -> Floats:
        """Return numbers to compute with, in place of arrays."""
        ...

    def up(self, values: Floats) -> Floats:
        """Return float64 numbers that are no less, apart from charged rounding."""
        ...

    def down(self, values: Floats) -> Floats:
        """Return float64 numbers that are no more, apart from charged rounding."""
        ...

    def nearest(self, values: Floats) -> Floats:
        """Return float64 numbers for choices, on which nothing rests."""
        ...


class _Floats:
    """Float64, whose rounding is charged."""

    exact = False

    def number(self, values: Floats) -> Floats:
        """See `Arithmetic.number`."""
        return values

    up = down = nearest = number


class _Exact:
    """Integers times powers of two, rounded only when kept."""

    exact = True

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
