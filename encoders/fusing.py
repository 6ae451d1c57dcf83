"""Linear operators that follow each other: a runtime may multiply their constants beforehand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_GROUPINGS = 4.0
"""Operations, for each one of a chain, that may come of putting its constants together."""


@dataclass(frozen=True)
class Chain:
    """Linear operators with no activation between them, up to one of them.

    A runtime may fuse a scaling into a convolution, or two scalings around a matrix into one: it
    rounds products of constants in float32 before any input meets them. Relative to the
    product that is one more rounding; but what underflows there is lost whole, and multiplied by
    the input and by every other constant of the chain.
    """

    head: str  # the tensor that the first operator reads
    factor: float = 1.0
    constant: float = 0.0  # sum of what the operators add, in absolute values

    def reach(self, head: Floats) -> float:
        """Bound everything that may be computed on the way, in any grouping; at least 1.

        What underflows on the way moves the result by no more than ``reach`` times the smallest
        normal float32; where ``reach`` is no float32, something may overflow.
        """
        return max(1.0, float(head.sum()) + self.constant) * self.factor


def extend(
    chain: Chain | None, first: str, matrix: Floats, constant: Floats, regrouped: float
) -> Chain:
    """Return a chain with one more operator."""
    before = Chain(first) if chain is None else chain
    terms = max(1, int(np.count_nonzero(matrix, axis=0).max(initial=0)))
    largest = max(1.0, float(matrix.max(initial=0.0)))
    return Chain(
        before.head,
        before.factor * _GROUPINGS * terms * largest * regrouped,
        before.constant + float(constant.sum()),
    )
