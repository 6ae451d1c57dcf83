"""Voting schemes: pluralities over parts or spread parts, and run-offs."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Ints
from leaveout.bab.votes.collective import CollectiveProblem
from leaveout.bab.votes.collective_plurality import PluralityProblem
from leaveout.bab.votes.collective_run_off import RunOffProblem
from leaveout.bab.votes.finite import finite_attack, finite_exact, finite_published
from leaveout.bab.votes.run_off_spread import SpreadRunOff, spread_run_off_published
from leaveout.bab.votes.thresholds import KnownProblem
from leaveout.deadline import Deadline
from leaveout.encoders.votes.collective import lost_points, stakes_of
from leaveout.encoders.votes.plurality import (
    Attack,
    Tally,
    family_attack,
    family_radii,
    plurality_attack,
    plurality_radii,
    tally,
)
from leaveout.encoders.votes.run_off import (
    check_ballots,
    run_off_attack,
    run_off_exact,
    run_off_predictions,
    run_off_published,
)
from leaveout.encoders.votes.run_off_stakes import run_off_lost, run_off_stakes
from leaveout.encoders.votes.threat import UNBOUNDED, Cost, Threat
from leaveout.encoders.votes.thresholds import (
    Known,
    affordable_losses,
    knapsack_attack,
    knapsack_radius,
    known_of,
    known_stakes_of,
    reach_of,
)
from leaveout.errors import BallotError
from leaveout.models.ballots import Ballots
from leaveout.solvers import CanSolve
from leaveout.verifier.values.votes.vote import Radii, Vote, confirm_attack

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
                f"{ballots.source}: the offsets of the spread hash are not known; write "
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
                f"{ballots.source}: {ballots.labels:,} labels; a run-off compares every three of "
                f"them, so at most {_MOST_LABELS} are supported"
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


class FamilyVote(PluralityVote):
    """Most votes win; an edit changes one member of each family (hash bagging)."""

    name = "hash_bagging"

    def __init__(self, ballots: Ballots) -> None:
        super().__init__(ballots)
        if not ballots.origin.families:
            raise BallotError(
                f"{ballots.source}: the number of members in each family of hash bagging is not "
                "known; write ballots(..., families = [50, 50]), or use dpa if each point "
                "reaches one member"
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


class SpreadRunOffVote(RunOffVote):
    """A run-off in which an edit changes every member its hash reaches."""

    unit = "hash value"

    def __init__(self, ballots: Ballots, solver: CanSolve, published: bool = False) -> None:
        super().__init__(ballots, published)
        if not ballots.origin.offsets:
            raise BallotError(
                f"{ballots.source}: the offsets of the spread hash are not known; write "
                "ballots(..., offsets = [0, 3, 7])"
            )
        self._solver = solver
        self._lower = spread_run_off_published(
            ballots.votes, self._scores, ballots.labels, self._offsets
        )
        self._upper = np.full_like(self._lower, ballots.parts - 1)
        self._narrowed: dict[int, SpreadRunOff] = {}

    @property
    def _at_least(self) -> Wide:
        return self._lower

    def radii(
        self,
        need: int | None = None,
        seconds: float | None = None,
        points: Wide | None = None,
    ) -> Radii:
        """Return how many edits each answer survives; results are kept."""
        if self.published:
            return Radii(self._lower, self._upper, self.right)
        deadline = Deadline.after(seconds)
        asked = np.arange(self.ballots.points) if points is None else points
        left = []
        for point in asked.tolist():
            if deadline.over:
                break
            if not self._is_settled(point, need):
                found = self._state(point)
                found.search(need)
                self._learn(point)
                if not self._is_settled(point, need):
                    left.append(point)
        # The narrowest first; what one leaves of its share is there for the rest.
        left.sort(key=lambda point: int(self._upper[point] - self._lower[point]))
        for order, point in enumerate(left):
            self._state(point).solve(need, self._solver, deadline.share(len(left) - order))
            self._learn(point)
        return Radii(self._lower.copy(), self._upper.copy(), self.right)

    def attack(self, point: int, seconds: float | None = None) -> Attack | None:
        """Return the smallest attack on a point found in time."""
        deadline = Deadline.after(seconds)
        found = self._state(point)
        if not found.is_settled(None):
            found.search(None)
            found.solve(None, self._solver, deadline.limit)
        members, votes, turned = found.changed_ballots()
        ballot, scores = self.ballots.votes[point].copy(), self._scores[point].copy()
        ballot[members], scores[members] = votes, turned
        after = run_off_predictions(ballot[None], scores[None], self.ballots.labels)
        attack = Attack(
            point=point,
            edits=len(found.units),
            poisoned=tuple(found.units.tolist()),
            members=tuple(members.tolist()),
            votes=tuple(votes.tolist()),
            before=int(self.predictions[point]),
            after=int(after[0]),
        )
        if attack.after == attack.before:
            raise AssertionError(f"{attack} changes nothing")
        return attack

    def units_within(self, point: int, edits: int) -> tuple[int, ...] | None:
        """Return a found attack of at most ``edits`` hash values on a point."""
        units = self._state(point).units
        return tuple(units.tolist()) if len(units) <= edits else None

    def _is_settled(self, point: int, need: int | None) -> bool:
        """Return whether a point's bounds decide the need."""
        low, high = int(self._lower[point]), int(self._upper[point])
        return low >= high or (need is not None and (low >= need or high < need))

    def _state(self, point: int) -> SpreadRunOff:
        if point not in self._narrowed:
            held = self.ballots
            votes, scores = check_ballots(held.votes[[point]], self._scores[[point]], held.labels)
            lower = int(self._lower[point])
            self._narrowed[point] = SpreadRunOff(votes[0], scores[0], self._offsets, lower)
        return self._narrowed[point]

    def _learn(self, point: int) -> None:
        found = self._state(point)
        self._lower[point] = max(int(self._lower[point]), found.lowest)
        self._upper[point] = min(int(self._upper[point]), found.highest)


class KnapsackVote(Vote):
    """A plurality of members with thresholds; see `against` for a kind of change."""

    name = "dpa, certified members"

    def __init__(self, ballots: Ballots) -> None:
        super().__init__(ballots)
        if ballots.thresholds is None:
            raise BallotError(
                f"{ballots.source}: no thresholds of members; add an array 'thresholds' (points, "
                "parts, labels), or remove 'members = certified'"
            )
        self._thresholds = ballots.thresholds
        self._tallied = tally(ballots.votes, ballots.labels)
        self._counted: dict[Threat, tuple[CountedVote, Cost]] = {}

    @property
    def predictions(self) -> Ints:
        """The answer at each test point, shape (points,)."""
        return self._tallied.predictions

    def against(self, threat: Threat) -> tuple[CountedVote, Cost]:
        """Return the vote against one kind of change, and what a change costs."""
        if threat not in self._counted:
            self._counted[threat] = self._against(threat)
        return self._counted[threat]

    def _against(self, threat: Threat) -> tuple[CountedVote, Cost]:
        held = self.ballots
        origin, counts = held.origin, held.origin.thresholds_against or "edits"
        reads = origin.hash_reads_label
        cost = reach_of(counts, threat, hash_reads_label=reads, alone=held.parts == 1)
        if cost is None and threat.value == counts:
            why = "may" if reads is None else "does"
            raise BallotError(
                (
                    f"{held.source}: thresholds count relabels within a part, but the hash that "
                    f"divided the training set {why} read labels, so a relabelled sample moves; "
                )
                + (
                    "write hash = label_independent"
                    if reads is None
                    else ("divide with another hash")
                )
            )
        if cost is None:
            raise BallotError(
                f"{held.source}: its thresholds are against {counts}, which do not cover "
                f"{threat.value}; certify {counts} = ..., or provide thresholds against edits"
            )
        exact_to = origin.thresholds_exact_to
        known = known_of(self._thresholds, counts, exact_to, threat, cost)
        return CountedVote(held, self._tallied, known, threat), cost

    def radii(
        self, need: int | None = None, seconds: float | None = None, points: Wide | None = None
    ) -> Radii:
        """Raise: unknown before the kind of change; see `against`."""
        raise TypeError("it is not stated what changes")

    def attack(self, point: int, seconds: float | None = None) -> Attack | None:
        """Raise: unknown before the kind of change; see `against`."""
        raise TypeError("it is not stated what changes")


class CountedVote(Vote):
    """A plurality of members with thresholds, against one kind of change."""

    name = KnapsackVote.name

    def __init__(self, ballots: Ballots, tallied: Tally, known: Known, threat: Threat) -> None:
        super().__init__(ballots)
        self.known, self.threat = known, threat
        self._tallied = tallied
        self._lower = np.zeros(ballots.points, np.int64)
        self._upper = np.full(ballots.points, UNBOUNDED)
        self._open = np.ones(ballots.points, np.bool_)

    @property
    def predictions(self) -> Ints:
        """The answer at each test point, shape (points,)."""
        return self._tallied.predictions

    def radii(
        self, need: int | None = None, seconds: float | None = None, points: Wide | None = None
    ) -> Radii:
        """Return how many changes each answer survives; results are kept."""
        deadline = Deadline.after(seconds)
        asked = np.flatnonzero(self._open)
        if points is not None:
            asked = np.intersect1d(asked, points)
        votes, known = self.ballots.votes, self.known
        for point in asked.tolist():
            if deadline.over:
                break
            lower = upper = knapsack_radius(votes, known.at_least, self._tallied, point)
            if not known.is_exact:
                upper = knapsack_radius(votes, known.enough, self._tallied, point)
            self._lower[point], self._upper[point] = lower, upper
            self._open[point] = False
        return Radii(self._lower.copy(), self._upper.copy(), self.right)

    @property
    def gap(self) -> str:
        """Why radii have no upper bound after all are computed; empty until then."""
        return "" if self._open.any() else self.known.gap

    def attack(self, point: int, seconds: float | None = None) -> Attack | None:
        """Return a cheapest known attack on a point; None if there is none."""
        found = knapsack_attack(self.ballots.votes, self.known.enough, self._tallied, point)
        return None if found is None else confirm_attack(self.ballots, found)

    def together(self, edits: int) -> CollectiveProblem:
        """Return the most that one joint attack can do to all test points."""
        return self._together(self.known.at_least, edits)

    def lower_bound_problem(self, edits: int) -> CollectiveProblem | None:
        """Return what a joint attack surely does; None if `together` is exact."""
        return None if self.known.is_exact else self._together(self.known.enough, edits)

    def _together(self, thresholds: Ints, edits: int) -> CollectiveProblem:
        held = self.ballots
        return KnownProblem(
            known_stakes_of(held.votes, held.truth, self._tallied, thresholds, edits)
        )

    def lost_to(self, units: tuple[int, ...]) -> tuple[int, ...]:
        """Return the points that a joint attack loses, by a recount."""
        held = self.ballots
        spent = np.bincount(np.array(units, np.int64), minlength=held.parts)
        return affordable_losses(held.votes, held.truth, self.known.enough, spent)
