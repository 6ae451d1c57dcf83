"""A vote over ballots: what it answers, what that survives, and what changes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.votes.attack import Attack
from leaveout.models.votes import Ballots
from leaveout.verifier.values.votes.radii import Radii

__all__ = ["Vote"]


class Vote(ABC):
    """How the members' votes become one answer, and what poisoning that survives.

    Parameters
    ----------
    ballots : Ballots

    Attributes
    ----------
    name : str
        As in a specification.
    predictions : ndarray of int32, shape (points,)
    """

    name: ClassVar[str]

    def __init__(self, ballots: Ballots) -> None:
        self.ballots = ballots

    @property
    @abstractmethod
    def predictions(self) -> NDArray[np.int32]:
        """What is answered at each test point, shape (points,)."""

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether the true label is answered, shape (points,)."""
        right: NDArray[np.bool_] = self.predictions == self.ballots.truth
        return right

    @abstractmethod
    def radii(
        self,
        need: int | None = None,
        seconds: float | None = None,
        points: NDArray[np.int64] | None = None,
    ) -> Radii:
        """Return how many edits each answer survives.

        Parameters
        ----------
        need : int, optional
            Of each point it need only be known whether it survives so many.
        seconds : float, optional
            Time limit of what needs a search; the bounds then known are returned.
        points : ndarray of int64, optional
            Only these need be closed.
        """

    @abstractmethod
    def attack(self, point: int, seconds: float | None = None) -> Attack | None:
        """Return an attack that changes the answer at a point, counted again; None if none is.

        It has one edit more than the point survives where there is time to find it.
        """
