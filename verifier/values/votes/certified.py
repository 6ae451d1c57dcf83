"""Majority votes of members that survive some changes, given by thresholds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective import CollectiveProblem
from leaveout.bab.votes.collective_known import KnownProblem
from leaveout.deadline import Deadline
from leaveout.encoders.votes.attack import Attack
from leaveout.encoders.votes.knapsack import knapsack_attack, knapsack_radius
from leaveout.encoders.votes.known import Known, known_of, reach_of
from leaveout.encoders.votes.known_stakes import affordable_losses, known_stakes_of
from leaveout.encoders.votes.tally import Tally, tally
from leaveout.encoders.votes.threat import UNBOUNDED, Cost, Threat
from leaveout.errors import BallotError
from leaveout.models.votes import Ballots
from leaveout.verifier.values.votes.radii import Radii
from leaveout.verifier.values.votes.vote import Vote, confirm_attack

Ints = NDArray[np.int32]
Wide = NDArray[np.int64]


class KnapsackVote(Vote):
    """A plurality of members with thresholds; see `against` for a kind of change."""

    name = "dpa, certified members"

    def __init__(self, ballots: Ballots) -> None:
        super().__init__(ballots)
        if ballots.thresholds is None:
            raise BallotError(
                f"{ballots.source}: there are no thresholds of members; add an array 'thresholds' "
                "(points, parts, labels), or leave 'members = certified' out"
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
                f"{held.source}: thresholds count relabels within a part, and the hash that "
                f"divided the training set {why} read labels, so that a relabelled sample moves; "
                + ("say hash = label_independent" if reads is None else "divide by another hash")
            )
        if cost is None:
            raise BallotError(
                f"{held.source}: its thresholds are against {counts}, which say nothing of "
                f"{threat.value}; certify {counts} = ..., or give thresholds against edits"
            )
        exact_to = origin.thresholds_exact_to
        known = known_of(self._thresholds, counts, exact_to, threat, cost)
        return CountedVote(held, self._tallied, known, threat), cost

    def radii(
        self, need: int | None = None, seconds: float | None = None, points: Wide | None = None
    ) -> Radii:
        """Raise: unknown before the kind of change; see `against`."""
        raise TypeError("what changes is not said")

    def attack(self, point: int, seconds: float | None = None) -> Attack | None:
        """Raise: unknown before the kind of change; see `against`."""
        raise TypeError("what changes is not said")


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
