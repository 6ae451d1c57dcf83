"""A leak between forests: an input and a member that disagree, with both outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ForestWitness:
    """A leak, with every number as the forests compute it in float64."""

    x: Floats  # shape (features,): in the set of inputs
    member: int  # position in the family; 0 of a single other forest
    removed: int  # name of the row that this member lacks; -1 of a single other forest
    label: int  # which of its labels the whole forest answers
    confidence: float  # of that label: its mean share less the greatest other
    scores: Floats  # shape (labels,)
    member_scores: Floats  # shape (labels,)

    @property
    def value(self) -> float:
        """The bounded value: the confidence."""
        return self.confidence
