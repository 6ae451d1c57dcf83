"""A vote over ballots: what it answers, what that survives, and what changes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective import CollectiveProblem
from leaveout.encoders.votes.attack import Attack, recount
from leaveout.models.votes import Ballots
from leaveout.verifier.values.votes.radii import Radii


class Vote(ABC):
    """How the members' votes become one answer, and what poisoning that survives."""

    name: ClassVar[str]  # as in a specification
    unit: ClassVar[str] = "part"

    def __init__(self, ballots: Ballots) -> None:
        self.ballots = ballots
        self.learnt: dict[int, object] = {}

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
        """Return how many edits each answer survives."""

    @abstractmethod
    def attack(self, point: int, seconds: float | None = None) -> Attack | None:
        """Return an attack that changes the answer at a point, counted again; None if none is.

        It has one edit more than the point survives where there is time to find it.
        """

    def together(self, edits: int) -> CollectiveProblem | None:
        """Return what one attack of so many edits may do to all test points.

        None where that is not known of this vote.
        """
        return None

    def lost_to(self, units: tuple[int, ...]) -> tuple[int, ...]:
        """Return the points that an attack on all of them loses: a recount, ascending."""
        raise NotImplementedError


def counted(ballots: Ballots, attack: Attack) -> Attack:
    """Return an attack that a count of the changed votes confirms."""
    answer = recount(ballots.votes[attack.point], ballots.labels, attack)
    if answer != attack.after or answer == attack.before:
        raise AssertionError(f"{attack} was counted as {answer}")
    return attack
