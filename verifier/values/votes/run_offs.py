"""Run-offs over members with spread samples, as in Finite Aggregation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.run_off_spread import SpreadRunOff, spread_run_off_published
from leaveout.deadline import Deadline
from leaveout.encoders.votes.attack import Attack
from leaveout.encoders.votes.run_off import run_off_predictions
from leaveout.encoders.votes.run_off_ballots import check_ballots
from leaveout.errors import BallotError
from leaveout.models.votes import Ballots
from leaveout.solvers import CanSolve
from leaveout.verifier.values.votes.radii import Radii
from leaveout.verifier.values.votes.schemes import RunOffVote

Wide = NDArray[np.int64]


class SpreadRunOffVote(RunOffVote):
    """A run-off in which an edit changes every member its hash reaches."""

    unit = "hash value"

    def __init__(self, ballots: Ballots, solver: CanSolve, published: bool = False) -> None:
        super().__init__(ballots, published)
        if not ballots.origin.offsets:
            raise BallotError(
                f"{ballots.source}: the offsets of the spread hash are not known; say "
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
