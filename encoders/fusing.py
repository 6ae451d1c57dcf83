"""Linear operators that follow each other: a runtime may multiply their constants beforehand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Chain", "extend"]

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

    Attributes
    ----------
    head : str
        The tensor that the first operator reads.
    factor : float
        No sum of products of the chain's constants is more, however they are put together.
    constant : float
        Sum of what the operators add, in absolute values.
    """

    head: str
    factor: float = 1.0
    constant: float = 0.0

    def reach(self, head: Floats) -> float:
        """Bound everything that may be computed on the way, in any grouping; at least 1.

        What underflows on the way moves the result by no more than ``reach`` times the smallest
        normal float32; where ``reach`` is no float32, something may overflow.

        Parameters
        ----------
        head : ndarray of float64
            Largest absolute values of the tensor that the first operator reads, or how far it
            may be above 0 and how far below.
        """
        return max(1.0, float(head.sum()) + self.constant) * self.factor


def extend(
    chain: Chain | None, first: str, matrix: Floats, constant: Floats, regrouped: float
) -> Chain:
    """Return a chain with one more operator.

    Parameters
    ----------
    chain : Chain or None
        That gives the operator's input; None where no linear operator does.
    first : str
        The operator's input.
    matrix : ndarray of float64, shape (inputs, outputs)
        Absolute values.
    constant : ndarray of float64, shape (outputs,)
        Absolute values.
    regrouped : float
        See `leaveout.models.operators.Affine.regrouped`.
    """
    before = Chain(first) if chain is None else chain
    terms = max(1, int(np.count_nonzero(matrix, axis=0).max(initial=0)))
    largest = max(1.0, float(matrix.max(initial=0.0)))
    return Chain(
        before.head,
        before.factor * _GROUPINGS * terms * largest * regrouped,
        before.constant + float(constant.sum()),
    )
