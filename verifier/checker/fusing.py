"""Constants that a runtime may multiply together before any input.

Linear operators with nothing between them may be fused, in any grouping, in float32. A product of
their constants that underflows is lost whole, times the input and all other constants of the run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_WAYS = 4.0
"""Operations, for each one of a run, that grouping its constants in another way may add."""


@dataclass(frozen=True)
class Fused:
    """A run of linear operators up to one of them."""

    head: str  # the tensor the first one reads
    factor: float = 1.0
    added: float = 0.0  # all that the operators add, in absolute values

    def most(self, head: Floats) -> Floats:
        """Largest number, at least 1, that may appear on the way, shape (n,)."""
        return np.asarray(np.maximum(1.0, head.sum(axis=1) + self.added) * self.factor)

    def merge_with(self, other: Fused) -> Fused:
        """Return a run that bounds the runs of two networks."""
        return Fused(self.head, max(self.factor, other.factor), max(self.added, other.added))


def after(
    run: Fused | None, source: str, matrix: Floats, constant: Floats, regrouped: float
) -> Fused:
    """Return a run with one more operator."""
    known = run or Fused(source)
    terms = max(1, int(np.count_nonzero(matrix, axis=1).max(initial=0)))
    largest = max(1.0, float(np.abs(matrix).max(initial=0)))
    added = float(np.abs(constant).sum(axis=1).max(initial=0))
    return Fused(
        known.head, known.factor * _WAYS * terms * largest * regrouped, known.added + added
    )
