"""A vote as the checker counts it: its answers, and which survive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from leaveout.models.votes import Ballots
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.voting.families import family_radii
from leaveout.verifier.checker.voting.known import withstood
from leaveout.verifier.checker.voting.plurality import answers, plurality_radii, threshold_radii
from leaveout.verifier.checker.voting.run_off import run_off_answers, run_off_falls, run_off_radii
from leaveout.verifier.checker.voting.run_off_spread import (
    published_run_offs,
    shown_run_off_falls,
    survived_run_offs,
)
from leaveout.verifier.checker.voting.spread import published_edits
from leaveout.verifier.checker.voting.spread_proof import proved_edits, shown_falls
from leaveout.verifier.checker.voting.tallies import Counts, Flags
from leaveout.verifier.checker.voting.targeted import plurality_radii_to, threshold_bounds_to

Kind = Literal[
    "dpa",
    "thresholds",
    "ss_dpa",
    "finite_aggregation",
    "hash_bagging",
    "run_off",
    "spread_run_off",
]
Proof: TypeAlias = Mapping[str, NDArray[Any]]


_NOT_FORCED: Mapping[Kind, str] = {
    "hash_bagging": "hash bagging",
    "spread_run_off": "run-offs of spread parts",
}


@dataclass(frozen=True, eq=False)
class Vote:
    """A way of turning members' votes into an answer."""

    kind: Kind
    ballots: Ballots  # what is declared of their hash is in their origin
    threat: str = "edits"  # of members with thresholds, the changes that are counted

    @property
    def offsets(self) -> tuple[int, ...]:
        """Unit u of an attack reaches the members ``(u + offset) mod members``."""
        return self.ballots.origin.offsets or (0,)

    @property
    def is_run_off(self) -> bool:
        """Whether it has two rounds."""
        return self.kind in ("run_off", "spread_run_off")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Units of each family, one family after another: members that an edit reaches one of."""
        families = self.ballots.origin.families
        return families if self.kind == "hash_bagging" else (self.ballots.parts,)

    @cached_property
    def answers(self) -> Counts:
        """The answers, shape (points,)."""
        held = self.ballots
        if self.is_run_off:
            assert held.scores is not None
            return run_off_answers(held.votes, held.scores, held.labels)
        return answers(held.votes, held.labels)

    @cached_property
    def right(self) -> Flags:
        """Whether each answer is right, shape (points,)."""
        right: Flags = self.answers == self.ballots.truth
        return right

    @cached_property
    def radii(self) -> Counts | None:
        """The edits each answer survives, shape (points,); None if no formula gives them."""
        held = self.ballots
        if self.kind in ("finite_aggregation", "spread_run_off"):
            return None
        if self.kind == "run_off":
            assert held.scores is not None
            return run_off_radii(held.votes, held.scores, held.labels)
        if self.kind == "thresholds":
            return threshold_radii(held.votes, self.withstood[0], held.labels)
        if self.kind == "hash_bagging":
            return family_radii(held.votes, held.labels, self.sizes)
        return plurality_radii(held.votes, held.labels)

    @cached_property
    def withstood(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The changes too few for each vote of a member with thresholds, and enough for it."""
        return withstood(self.ballots, self.threat)

    @cached_property
    def _published_radii(self) -> Counts:
        """The published number of units that each answer survives."""
        held = self.ballots
        if self.kind == "spread_run_off":
            assert held.scores is not None
            return published_run_offs(
                held.votes, held.scores, held.labels, self.answers, self.offsets
            )
        return published_edits(held.votes, held.labels, self.offsets)

    def bounds(self, proof: Proof, need: int | None = None) -> tuple[Counts, Counts]:
        """Return how many edits each answer survives, at least and at most, shape (points,)."""
        held = self.ballots
        if self.kind == "finite_aggregation":
            proved = proved_edits(
                held.votes, held.labels, self.offsets, self._published_radii, proof
            )
            most = shown_falls(held.votes, held.labels, self.offsets, proof)
            return proved.min(axis=1), most
        if self.kind == "spread_run_off":
            assert held.scores is not None
            given = held.votes, held.scores, held.labels, self.answers, self.offsets, proof
            return np.maximum(
                self._published_radii, survived_run_offs(*given)
            ), shown_run_off_falls(*given)
        if self.kind == "run_off" and need is not None and "radii" not in self.__dict__:
            assert held.scores is not None
            edits = np.full(held.points, min(need, held.parts), np.int64)
            falls = run_off_falls(held.votes, held.scores, held.labels, edits)
            return np.where(falls, 0, edits), np.where(falls, edits - 1, held.parts - 1)
        assert self.radii is not None
        if self.kind == "thresholds" and self.withstood[0] is not self.withstood[1]:
            return self.radii, threshold_radii(held.votes, self.withstood[1], held.labels)
        return self.radii, self.radii

    def bounds_to(self, target: int, proof: Proof) -> tuple[Counts, Counts]:
        """Return how many edits leave each answer other than a label, at least and at most.

        -1 where it is answered as it is.
        """
        held = self.ballots
        if self.kind in _NOT_FORCED:
            raise RejectedError(
                f"what forces one answer is not counted of {_NOT_FORCED[self.kind]}"
            )
        if self.kind == "finite_aggregation":
            # To be answered the label must pass the answer at least.
            proved = proved_edits(
                held.votes, held.labels, self.offsets, self._published_radii, proof
            )
            most = shown_falls(held.votes, held.labels, self.offsets, proof, target)
            answered = self.answers == target
            return np.where(answered, -1, proved[:, target]), np.where(answered, -1, most)
        if self.kind == "thresholds":
            return threshold_bounds_to(held.votes, *self.withstood, held.labels, target, proof)
        if target not in self._radii_to:
            if self.kind == "run_off":
                assert held.scores is not None
                radii = run_off_radii(held.votes, held.scores, held.labels, target)
            else:
                radii = plurality_radii_to(held.votes, held.labels, target)
            self._radii_to[target] = radii
        return self._radii_to[target], self._radii_to[target]

    @cached_property
    def _radii_to(self) -> dict[int, Counts]:
        """The edits that keep each answer from a label, by label, computed on demand."""
        return {}
