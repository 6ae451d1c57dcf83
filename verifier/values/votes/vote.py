"""A vote over ballots: its answers, their radii, and attacks on them."""

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
    """The rule that turns members' votes into an answer, and its robustness."""

    name: ClassVar[str]  # as in a specification
    unit: ClassVar[str] = "part"

    def __init__(self, ballots: Ballots) -> None:
        self.ballots = ballots
        self.learnt: dict[int, object] = {}

    @property
    @abstractmethod
    def predictions(self) -> NDArray[np.int32]:
        """The answer at each test point, shape (points,)."""

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
        """Return a recounted attack on a point, or None.

        It has one edit more than the point survives if there is time to find it.
        """

    def together(self, edits: int) -> CollectiveProblem | None:
        """Return the most that one attack of some edits can do; None if unknown."""
        return None

    def lost_to(self, units: tuple[int, ...]) -> tuple[int, ...]:
        """Return the points that a joint attack loses, by a recount, ascending."""
        raise NotImplementedError


def confirm_attack(ballots: Ballots, attack: Attack) -> Attack:
    """Return an attack; raise if a recount does not confirm it."""
    answer = recount(ballots.votes[attack.point], ballots.labels, attack)
    if answer != attack.after or answer == attack.before:
        raise AssertionError(f"{attack} was counted as {answer}")
    return attack
