"""What a learner tells of its members: scores, and how many changes make them vote a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.models.votes.origin import Against

__all__ = ["Part", "SurvivingLearner"]


@dataclass(frozen=True, eq=False)
class Part:
    """The rows of a part, and what is asked about.

    Attributes
    ----------
    X : ndarray of float64, shape (rows, features)
        In any order; it has no say in anything.
    y : ndarray of int32, shape (rows,)
    tests : ndarray of float64, shape (points, features)
    labels : int
        How many labels there are.
    """

    X: NDArray[np.float64]
    y: NDArray[np.int32]
    tests: NDArray[np.float64]
    labels: int


class SurvivingLearner(Protocol):
    """A function of the rows of a part, and an argument about that function.

    Attributes
    ----------
    name : str
        As in ``--learner``.
    survives : tuple of str
        Kinds of change that thresholds can be computed against.
    searched : bool
        Whether they come from a search, which ends at some number of changes.
    """

    name: ClassVar[str]
    survives: ClassVar[tuple[Against, ...]]
    searched: ClassVar[bool]

    def scores(self, part: Part) -> NDArray[np.float32]:
        """Return the member's scores, shape (points, labels); a vote is their argmax."""

    def thresholds(self, part: Part, against: Against, exact_to: int | None) -> NDArray[np.int32]:
        """Return the changes it takes to a vote, shape (points, labels), as `Ballots` has them.

        Parameters
        ----------
        part : Part
        against : str
            One of ``survives``.
        exact_to : int or None
            Where a search ends; ``exact_to + 1`` then says "at least so many".
        """

    def work(self, times: Sequence[int], labels: int, against: Against, exact_to: int) -> int:
        """Return how many sets of changes a search tries in a part.

        Parameters
        ----------
        times : sequence of int
            How often each of its different rows is there.
        labels : int
        against : str
        exact_to : int
        """
