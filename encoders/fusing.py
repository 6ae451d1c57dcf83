"""Consecutive linear operators, whose constants a runtime may multiply beforehand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_GROUPINGS = 4.0
"""Operations, for each one of a chain, that may come of putting its constants together."""


@dataclass(frozen=True)
class Chain:
    """Linear operators without an activation in between, up to one of them.

    A runtime may fuse them, rounding products of constants: one more relative rounding, but
    underflow is lost whole, times the input and all other constants.
    """

    head: str  # the tensor that the first operator reads
    factor: float = 1.0
    constant: float = 0.0  # sum of what the operators add, in absolute values

    def reach(self, head: Floats) -> float:
        """Bound all intermediate results in any grouping, at least 1.

        Underflow moves the result by at most ``reach`` times the smallest normal float32.
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
