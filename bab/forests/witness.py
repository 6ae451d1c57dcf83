"""A leak between forests: an input and a member that answer apart, with what both compute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["ForestWitness"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ForestWitness:
    """A leak, with every number as the forests compute it in float64.

    Attributes
    ----------
    x : ndarray of float64, shape (features,)
        In the set of inputs.
    member : int
        Position in the family; 0 of a single other forest.
    removed : int
        Name of the row that this member lacks; -1 of a single other forest.
    label : int
        Which of its labels the whole forest answers.
    confidence : float
        Of that label: its mean share less the greatest other.
    scores, member_scores : ndarray of float64, shape (labels,)
        Mean shares of the labels of either forest, by which each answers the first greatest.
    """

    x: Floats
    member: int
    removed: int
    label: int
    confidence: float
    scores: Floats
    member_scores: Floats

    @property
    def value(self) -> float:
        """What is bounded: the confidence."""
        return self.confidence
