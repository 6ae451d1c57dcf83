"""A vote as the checker counts it: what it answers, and which answers survive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from leaveout.models.votes import Ballots
from leaveout.verifier.checker.voting.plurality import answers, plurality_radii, threshold_radii
from leaveout.verifier.checker.voting.run_off import run_off_answers, run_off_falls, run_off_radii
from leaveout.verifier.checker.voting.spread import published_edits
from leaveout.verifier.checker.voting.spread_proof import proved_edits, shown_falls
from leaveout.verifier.checker.voting.tallies import Counts, Flags

__all__ = ["Kind", "Proof", "Vote"]

Kind = Literal["dpa", "thresholds", "ss_dpa", "finite_aggregation", "run_off"]
Proof: TypeAlias = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Vote:
    """How members' votes become an answer.

    Attributes
    ----------
    kind : str
    ballots : Ballots
        What is declared of their hash is in their origin.
    """

    kind: Kind
    ballots: Ballots

    @property
    def offsets(self) -> tuple[int, ...]:
        """Unit u of an attack reaches the members ``(u + offset) mod members``."""
        return self.ballots.origin.offsets or (0,)

    @cached_property
    def answers(self) -> Counts:
        """What is answered, shape (points,)."""
        held = self.ballots
        if self.kind == "run_off":
            assert held.scores is not None
            return run_off_answers(held.votes, held.scores, held.labels)
        return answers(held.votes, held.labels)

    @cached_property
    def right(self) -> Flags:
        """Whether the true label is answered, shape (points,)."""
        right: Flags = self.answers == self.ballots.truth
        return right

    @cached_property
    def radii(self) -> Counts | None:
        """How many edits each answer survives, shape (points,); None where no formula says it."""
        held = self.ballots
        if self.kind == "finite_aggregation":
            return None
        if self.kind == "run_off":
            assert held.scores is not None
            return run_off_radii(held.votes, held.scores, held.labels)
        if self.kind == "thresholds":
            assert held.thresholds is not None
            return threshold_radii(held.votes, held.thresholds, held.labels)
        return plurality_radii(held.votes, held.labels)

    @cached_property
    def _published(self) -> Counts:
        held = self.ballots
        return published_edits(held.votes, held.labels, self.offsets)

    def bounds(self, proof: Proof, need: int | None = None) -> tuple[Counts, Counts]:
        """Return how many edits each answer survives, at least and at most, shape (points,).

        Parameters
        ----------
        proof : mapping of str to ndarray
            Of Finite Aggregation.
        need : int, optional
            It need only be known which answers survive so many.
        """
        held = self.ballots
        if self.kind == "finite_aggregation":
            proved = proved_edits(held.votes, held.labels, self.offsets, self._published, proof)
            most = shown_falls(held.votes, held.labels, self.offsets, proof)
            return proved.min(axis=1), most
        if self.kind == "run_off" and need is not None and "radii" not in self.__dict__:
            assert held.scores is not None
            edits = np.full(held.points, min(need, held.parts), np.int64)
            falls = run_off_falls(held.votes, held.scores, held.labels, edits)
            return np.where(falls, 0, edits), np.where(falls, edits - 1, held.parts - 1)
        assert self.radii is not None
        return self.radii, self.radii
