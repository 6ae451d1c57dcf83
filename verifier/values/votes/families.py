"""A plurality over several families, in each of which an edit changes one member."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective import CollectiveProblem
from leaveout.bab.votes.collective_plurality import PluralityProblem
from leaveout.encoders.votes.attack import Attack
from leaveout.encoders.votes.collective import stakes_of
from leaveout.encoders.votes.families import family_attack, family_radii
from leaveout.errors import BallotError
from leaveout.models.votes import Ballots
from leaveout.verifier.values.votes.schemes import PluralityVote
from leaveout.verifier.values.votes.vote import confirm_attack


class FamilyVote(PluralityVote):
    """Most votes win; an edit changes one member of each family (hash bagging)."""

    name = "hash_bagging"

    def __init__(self, ballots: Ballots) -> None:
        super().__init__(ballots)
        if not ballots.origin.families:
            raise BallotError(
                f"{ballots.source}: how many members each family of hash bagging has is not known; "
                "say ballots(..., families = [50, 50]), or use dpa if each point reaches one member"
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of members of each family."""
        return self.ballots.origin.families

    @cached_property
    def _radii(self) -> NDArray[np.int64]:
        return family_radii(self.ballots.votes, self.vote_tally, self.sizes)

    def attack(self, point: int, seconds: float | None = None) -> Attack | None:
        """Return a smallest attack on a point."""
        found = family_attack(self.ballots.votes, self.vote_tally, self.sizes, point)
        return confirm_attack(self.ballots, found)

    def together(self, edits: int) -> CollectiveProblem:
        """Return the most that one attack of some edits can do to all points."""
        held = self.ballots
        budget = min(edits, max(self.sizes))
        stakes = stakes_of(held.votes, held.truth, self.vote_tally, budget, sizes=self.sizes)
        return PluralityProblem(stakes)
