"""The numbers a certificate is checked with: float64, its rounding charged, or exact ones.

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
    """How numbers are added, multiplied and kept."""

    @property
    def exact(self) -> bool:
        """Whether sums and products are."""
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

    exact = False

    def number(self, values: Floats) -> Floats:
        """See `Arithmetic.number`."""
        return values

    up = down = nearest = number


class _Exact:
    """Integers times powers of two: nothing is rounded but what is kept."""

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
