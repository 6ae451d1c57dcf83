"""How many edits force a vote to a label, and attacks that do so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.finite import finite_attack_within, finite_edits_to, forces
from leaveout.bab.votes.finite_weights import FiniteLog, log_of
from leaveout.bab.votes.thresholds import ForcedVotes, thresholds_to
from leaveout.deadline import Deadline
from leaveout.encoders.votes.plurality import Attack, plurality_edits_to, plurality_votes_to
from leaveout.encoders.votes.run_off import run_off_attack, run_off_plans, run_off_predictions
from leaveout.encoders.votes.threat import UNBOUNDED
from leaveout.errors import BallotError
from leaveout.verifier.values.votes.proofs import SpreadProof
from leaveout.verifier.values.votes.schemes import (
    CountedVote,
    FamilyVote,
    FiniteVote,
    PluralityVote,
    RunOffVote,
    SpreadRunOffVote,
)
from leaveout.verifier.values.votes.vote import Arrays, Radii, Vote

Wide: TypeAlias = NDArray[np.int64]

_SECONDS = 10.0
"""For an attack on one point."""


@dataclass(eq=False)
class Toward:
    """Bounds on forcing a vote to one label; they only narrow."""

    vote: Vote
    target: int
    lower: Wide  # shape (points,)
    upper: Wide  # shape (points,)
    forced: dict[int, ForcedVotes] = field(default_factory=dict)
    buckets: dict[int, Wide] = field(default_factory=dict)

    def current_radii(self) -> Radii:
        """Return the bounds as radii, counting every point as right."""
        return Radii(self.lower.copy(), self.upper.copy(), np.ones(len(self.lower), np.bool_))

    def radii(self, points: Wide, need: int | None = None, seconds: float | None = None) -> Radii:
        """Return how many edits never force the label at some points."""
        deadline = Deadline.after(seconds)
        if isinstance(self.vote, FiniteVote) and not self.vote.published:
            self._use_untargeted(self.vote, points, need, deadline)
        left = [point for point in points.tolist() if self._is_open(point, need)]
        for order, point in enumerate(left):
            if deadline.over:
                break
            if isinstance(self.vote, CountedVote):
                self._thresholds(self.vote, point)
            elif isinstance(self.vote, FiniteVote) and not self.vote.published:
                self._spread(self.vote, point, deadline.share(len(left) - order))
        return self.current_radii()

    def attack(self, point: int) -> Attack | None:
        """Return the smallest known attack that forces the label, recounted."""
        vote, target = self.vote, self.target
        if vote.predictions[point] == target:
            return None
        ballot = vote.ballots.votes[point].copy()
        if isinstance(vote, RunOffVote):
            return self._run_off_attack(vote, point)
        if isinstance(vote, CountedVote):
            forced = self.forced.get(point)
            if forced is None or forced.cost is None:
                return None
            members = np.flatnonzero(forced.votes != ballot)
            return self._confirm_attack(point, forced.cost, members, members, forced.votes[members])
        if isinstance(vote, FiniteVote):
            buckets = self._forcing_buckets(vote, point)
            offsets = np.array(vote.ballots.origin.offsets)
            reached = np.unique((buckets[:, None] + offsets).ravel() % len(ballot))
            members = reached[ballot[reached] != target]
            return self._confirm_attack(point, len(buckets), buckets, members, self._all(members))
        members = plurality_votes_to(ballot, vote.ballots.labels, target)
        return self._confirm_attack(point, len(members), members, members, self._all(members))

    def proof(self, points: Wide, survived: int, falling: int) -> tuple[Arrays, int]:
        """Return proofs of which points survive some edits, where needed."""
        if isinstance(self.vote, CountedVote):
            return self._prices(points)
        if not isinstance(self.vote, FiniteVote):
            return {}, 0
        return self._spread_proof(self.vote, points, survived, falling)

    def _is_open(self, point: int, need: int | None) -> bool:
        low, high = self.lower[point], self.upper[point]
        return bool(low < high and (need is None or low < need <= high))

    def _all(self, members: Wide) -> NDArray[np.int32]:
        return np.full(len(members), self.target, np.int32)

    def _confirm_attack(
        self, point: int, edits: int, units: Wide, members: Wide, votes: NDArray[np.int32]
    ) -> Attack:
        """Return an attack; raise if a recount does not give the label."""
        changed = self.vote.ballots.votes[point].copy()
        changed[members] = votes
        after = int(np.bincount(changed, minlength=self.vote.ballots.labels).argmax())
        if after != self.target:
            raise AssertionError(
                f"a recount of the attack on test point {point} results in {after}"
            )
        return Attack(
            point=point,
            edits=edits,
            poisoned=tuple(units.tolist()),
            members=tuple(members.tolist()),
            votes=tuple(votes.tolist()),
            before=int(self.vote.predictions[point]),
            after=after,
        )

    def _run_off_attack(self, vote: RunOffVote, point: int) -> Attack:
        held = vote.ballots
        assert held.scores is not None
        ballot, scores = held.votes[point].copy(), held.scores[point].copy()
        parts, votes, turned = run_off_attack(ballot, scores, held.labels, self.target)
        ballot[parts], scores[parts] = votes, turned
        after = int(run_off_predictions(ballot[None], scores[None], held.labels)[0])
        if after != self.target:
            raise AssertionError(
                f"a recount of the attack on test point {point} results in {after}"
            )
        units = tuple(parts.tolist())
        before = int(vote.predictions[point])
        return Attack(point, len(parts), units, units, tuple(votes.tolist()), before, after)

    def _thresholds(self, vote: CountedVote, point: int) -> None:
        ballot, known = vote.ballots.votes[point], vote.known
        found = thresholds_to(ballot, known.at_least[point], self.target)
        if not known.is_exact:
            # What is only known to take at least so many changes is no part of an attack.
            paid = thresholds_to(ballot, known.enough[point], self.target)
            found = replace(found, cost=paid.cost, votes=paid.votes)
        self.forced[point] = found
        self.lower[point] = UNBOUNDED if found.least is None else found.least - 1
        self.upper[point] = UNBOUNDED if found.cost is None else found.cost - 1

    def _spread(self, vote: FiniteVote, point: int, seconds: float | None) -> None:
        held, offsets = vote.ballots, np.array(vote.ballots.origin.offsets, np.int64)
        least, buckets = finite_edits_to(
            held.votes[point], held.labels, offsets, self.target,
            solver=vote.solver, seconds=seconds,
        )  # fmt: skip
        self.lower[point] = max(self.lower[point], least - 1)
        if len(buckets) - 1 <= self.upper[point]:
            self.upper[point], self.buckets[point] = len(buckets) - 1, buckets

    def _use_untargeted(
        self, vote: FiniteVote, points: Wide, need: int | None, deadline: Deadline
    ) -> None:
        """Use untargeted radii; with two labels both are the same."""
        own = [point for point in points.tolist() if self._is_open(point, need)]
        if not own:
            return
        places = np.array(own)
        known = vote.radii(need, deadline.share(2), places)
        self.lower[places] = np.maximum(self.lower[places], known.lower[places])
        if vote.ballots.labels == 2:
            self.upper[places] = np.minimum(self.upper[places], known.upper[places])

    def _forcing_buckets(self, vote: FiniteVote, point: int) -> Wide:
        """Return buckets that force the label: upper bound plus one, or all."""
        found = self.buckets.get(point)
        if found is None and self.upper[point] < vote.ballots.parts - 1:
            held, offsets = vote.ballots, np.array(vote.ballots.origin.offsets, np.int64)
            most = int(self.upper[point]) + 1
            within = finite_attack_within(
                held.votes[point], held.labels, offsets, most, solver=vote.solver, seconds=_SECONDS
            )
            wide = None if within is None else within.astype(np.int64)
            if wide is not None and forces(
                held.votes[point], held.labels, offsets, wide, self.target
            ):
                found = self.buckets[point] = wide
        return np.arange(vote.ballots.parts) if found is None else found

    def _prices(self, points: Wide) -> tuple[Arrays, int]:
        own = [point for point in points.tolist() if point in self.forced]
        if not own:
            return {}, 0
        found = [self.forced[point] for point in own]
        return {
            "points": np.array(own, np.int64),
            "prices": np.stack([each.prices for each in found]),
            "votes": np.stack([each.votes for each in found]),
        }, 0

    def _spread_proof(
        self, vote: FiniteVote, points: Wide, survived: int, falling: int
    ) -> tuple[Arrays, int]:
        held, offsets = vote.ballots, np.array(vote.ballots.origin.offsets, np.int64)
        logs: list[tuple[int, int, int, FiniteLog]] = []
        attacks: list[tuple[int, Sequence[int] | NDArray[np.int32]]] = []
        missing = 0
        for point in points.tolist():
            if survived > 0 and self.lower[point] >= survived:
                log = log_of(held.votes[point], held.labels, offsets, self.target, survived)
                logs += [] if log is None else [(point, self.target, survived, log)]
                missing += log is None
            if -1 < self.upper[point] < min(falling, held.parts - 1):
                buckets = self._forcing_buckets(vote, point)
                attacks.append((point, buckets.astype(np.int32)))
                missing += len(buckets) > self.upper[point] + 1
        return SpreadProof(missing, attacks, logs, vote=vote).arrays(), missing


def toward(vote: Vote, target: int) -> Toward:
    """Return the bounds on forcing a label before any search."""
    kept = vote.learnt.get(target)
    if isinstance(kept, Toward):
        return kept
    lower, upper = _at_first(vote, target)
    answered = vote.predictions == target
    found = Toward(vote, target, np.where(answered, -1, lower), np.where(answered, -1, upper))
    vote.learnt[target] = found
    return found


def _at_first(vote: Vote, target: int) -> tuple[Wide, Wide]:
    held = vote.ballots
    if isinstance(vote, SpreadRunOffVote):
        raise BallotError(
            "how many changes force one answer is not supported for run_off where a change "
            "reaches several members; use finite_aggregation"
        )
    if isinstance(vote, FamilyVote):
        raise BallotError(
            "how many changes force one answer is not supported for hash_bagging, where a "
            "change reaches a member of every family; certified_accuracy bounds any change of "
            "the answer"
        )
    if isinstance(vote, FiniteVote):
        known = vote.radii(need=0)
        return known.lower, np.full(held.points, held.parts - 1)
    # Of families an edit changes a member each, which no count of parts allows for.
    if isinstance(vote, PluralityVote):
        exact = plurality_edits_to(vote.vote_tally.counts, target) - 1
        return exact, exact
    if isinstance(vote, CountedVote):
        return np.zeros(held.points, np.int64), np.full(held.points, UNBOUNDED)
    if isinstance(vote, RunOffVote):
        assert held.scores is not None
        if vote.published:
            return vote.radii().lower, np.full(held.points, held.parts - 1)
        exact = run_off_plans(held.votes, held.scores, held.labels, target)[:, 0] - 1
        return exact, exact
    raise BallotError(f"how many changes force one answer is not supported for {vote.name}")
