"""Voting schemes: pluralities over parts or spread parts, and run-offs."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective import CollectiveProblem
from leaveout.bab.votes.collective_plurality import PluralityProblem
from leaveout.bab.votes.collective_run_off import RunOffProblem
from leaveout.bab.votes.finite import finite_attack, finite_exact, finite_published
from leaveout.encoders.votes.attack import Attack
from leaveout.encoders.votes.collective import lost_points, stakes_of
from leaveout.encoders.votes.plurality import plurality_attack, plurality_radii
from leaveout.encoders.votes.run_off import run_off_exact, run_off_predictions, run_off_published
from leaveout.encoders.votes.run_off_attack import run_off_attack
from leaveout.encoders.votes.run_off_stakes import run_off_lost, run_off_stakes
from leaveout.encoders.votes.tally import Tally, tally
from leaveout.errors import BallotError
from leaveout.models.votes import Ballots
from leaveout.solvers import CanSolve
from leaveout.verifier.values.votes.radii import Radii
from leaveout.verifier.values.votes.vote import Vote, confirm_attack

Ints = NDArray[np.int32]
Wide = NDArray[np.int64]


_MOST_LABELS = 500
"""Of a run-off."""


class PluralityVote(Vote):
    """Most votes win; an edit changes one member (DPA, and SS-DPA for relabels)."""

    name = "dpa"

    @cached_property
    def vote_tally(self) -> Tally:
        """The tally of the votes."""
        return tally(self.ballots.votes, self.ballots.labels)

    @property
    def predictions(self) -> Ints:
        """The answer at each test point, shape (points,)."""
        return self.vote_tally.predictions

    @cached_property
    def _radii(self) -> Wide:
        return plurality_radii(self.vote_tally).astype(np.int64)

    def radii(
        self,
        need: int | None = None,
        seconds: float | None = None,
        points: Wide | None = None,
    ) -> Radii:
        """Return how many edits each answer survives, in closed form."""
        return Radii(self._radii, self._radii, self.right)

    def attack(self, point: int, seconds: float | None = None) -> Attack | None:
        """Return a smallest attack on a point."""
        return confirm_attack(
            self.ballots, plurality_attack(self.ballots.votes, self.vote_tally, point)
        )

    @property
    def _offsets(self) -> tuple[int, ...]:
        """A unit reaches the members ``(unit + offset) mod members``."""
        return self.ballots.origin.offsets or (0,)

    def together(self, edits: int) -> CollectiveProblem:
        """Return the most that one attack of some edits can do to all points."""
        held = self.ballots
        budget = min(edits, held.parts)
        stakes = stakes_of(held.votes, held.truth, self.vote_tally, budget, self._offsets)
        return PluralityProblem(stakes)

    def lost_to(self, units: tuple[int, ...]) -> tuple[int, ...]:
        """Return the points that a joint attack loses, by a recount."""
        held = self.ballots
        freed = np.add.outer(np.array(units, np.int64), np.array(self._offsets)) % held.parts
        return lost_points(held.votes, held.truth, self.vote_tally, freed.ravel())


class RelabelVote(PluralityVote):
    """Most votes win; a relabel changes one member (SS-DPA)."""

    name = "ss_dpa"


class FiniteVote(PluralityVote):
    """A plurality; an edit changes every member its hash reaches (Finite Aggregation)."""

    name = "finite_aggregation"
    unit = "hash value"

    def __init__(self, ballots: Ballots, solver: CanSolve, published: bool = False) -> None:
        super().__init__(ballots)
        if not ballots.origin.offsets:
            raise BallotError(
                f"{ballots.source}: the offsets of the spread hash are not known; say "
                "ballots(..., offsets = [0, 3, 7]), or use dpa if each point reaches one member"
            )
        self.solver, self.published = solver, published
        published_radii = finite_published(ballots.votes, ballots.labels, self._offsets)
        self._lower = published_radii.astype(np.int64)
        self._upper = np.full_like(self._lower, ballots.parts - 1)

    def radii(
        self,
        need: int | None = None,
        seconds: float | None = None,
        points: Wide | None = None,
    ) -> Radii:
        """Return how many edits each answer survives; results are kept."""
        if self.published:
            return Radii(self._lower, self._upper, self.right)
        open_points = self._lower < self._upper
        if need is not None:
            open_points &= (self._lower < need) & (need <= self._upper)
        asked = np.flatnonzero(open_points)
        if points is not None:
            asked = np.intersect1d(asked, points)
        if len(asked):
            self._lower[asked], self._upper[asked] = finite_exact(
                self.ballots.votes[asked],
                self.ballots.labels,
                self._offsets,
                need=need,
                solver=self.solver,
                seconds=seconds,
                lower=self._lower[asked],
                upper=self._upper[asked],
            )
        return Radii(self._lower.copy(), self._upper.copy(), self.right)

    def attack(self, point: int, seconds: float | None = None) -> Attack | None:
        """Return the smallest attack on a point found in time."""
        buckets, members, votes = self._attack(point, seconds)
        after = np.array(self.ballots.votes[point])
        after[members] = votes
        attack = Attack(
            point=point,
            edits=len(buckets),
            poisoned=tuple(buckets.tolist()),
            members=tuple(members.tolist()),
            votes=tuple(votes.tolist()),
            before=int(self.predictions[point]),
            after=int(np.bincount(after, minlength=self.ballots.labels).argmax()),
        )
        return confirm_attack(self.ballots, attack)

    def _attack(self, point: int, seconds: float | None) -> tuple[Ints, Ints, Ints]:
        buckets, votes = finite_attack(
            self.ballots.votes[point],
            self.ballots.labels,
            self._offsets,
            solver=self.solver,
            seconds=seconds,
        )
        members = np.flatnonzero(votes != self.ballots.votes[point]).astype(np.int32)
        return buckets, members, votes[members]


class RunOffVote(Vote):
    """A run-off of the two labels with most votes, by scores (Run-Off Election)."""

    name = "run_off"

    def __init__(self, ballots: Ballots, published: bool = False) -> None:
        super().__init__(ballots)
        scores = ballots.scores_of("a run-off")
        if ballots.labels > _MOST_LABELS:
            raise BallotError(
                f"{ballots.source}: {ballots.labels:,} labels; a run-off looks at every three of "
                f"them, so {_MOST_LABELS} are the most"
            )
        self._scores = scores
        self.published = published

    @property
    def predictions(self) -> Ints:
        """The answer at each test point, shape (points,)."""
        return self._predictions

    @cached_property
    def _predictions(self) -> Ints:
        return run_off_predictions(self.ballots.votes, self._scores, self.ballots.labels)

    @cached_property
    def _radii(self) -> tuple[Wide, Wide]:
        given = self.ballots.votes, self._scores, self.ballots.labels
        if self.published:
            lower = run_off_published(*given).astype(np.int64)
            return lower, np.full_like(lower, self.ballots.parts - 1)
        exact = run_off_exact(*given).astype(np.int64)
        return exact, exact

    def radii(
        self,
        need: int | None = None,
        seconds: float | None = None,
        points: Wide | None = None,
    ) -> Radii:
        """Return how many edits each answer survives."""
        return Radii(*self._radii, self.right)

    def attack(self, point: int, seconds: float | None = None) -> Attack | None:
        """Return a smallest attack; poisoned members score 1 for their vote."""
        ballot, scores = self.ballots.votes[point].copy(), self._scores[point].copy()
        parts, votes, turned = run_off_attack(ballot, scores, self.ballots.labels)
        ballot[parts], scores[parts] = votes, turned
        after = run_off_predictions(ballot[None], scores[None], self.ballots.labels)
        attack = Attack(
            point=point,
            edits=len(parts),
            poisoned=tuple(parts.tolist()),
            members=tuple(parts.tolist()),
            votes=tuple(votes.tolist()),
            before=int(self.predictions[point]),
            after=int(after[0]),
        )
        if attack.after == attack.before:
            raise AssertionError(f"{attack} changes nothing")
        return attack

    @property
    def _offsets(self) -> tuple[int, ...]:
        """A unit reaches the members ``(unit + offset) mod members``."""
        return self.ballots.origin.offsets or (0,)

    @property
    def _at_least(self) -> Wide:
        """Edits that each answer survives, as known without a search."""
        return self._radii[0]

    def together(self, edits: int) -> CollectiveProblem:
        """Return the most that one attack of some edits can do to all points."""
        held, budget = self.ballots, min(edits, self.ballots.parts)
        at_stake = np.flatnonzero(self.right & (self._at_least < budget))
        stakes = run_off_stakes(
            held.votes, self._scores, held.labels, self.predictions, at_stake, budget, self._offsets
        )
        return RunOffProblem(stakes)

    def lost_to(self, units: tuple[int, ...]) -> tuple[int, ...]:
        """Return the points that a joint attack loses; both rounds are held again."""
        held, right = self.ballots, np.flatnonzero(self.right)
        freed = np.add.outer(np.array(units, np.int64), np.array(self._offsets)) % held.parts
        lost = run_off_lost(
            held.votes[right], self._scores[right], held.labels, self.predictions[right],
            freed.ravel(),
        )  # fmt: skip
        return tuple(right[lost].tolist())
