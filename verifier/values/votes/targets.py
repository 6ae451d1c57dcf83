"""How many edits force a vote to a label, and attacks that do so."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from leaveout.bab.votes.fewest import Fewest
from leaveout.bab.votes.forced import ForcedVotes, thresholds_to
from leaveout.deadline import Deadline
from leaveout.errors import BallotError
from leaveout.kernel.counting import FAR
from leaveout.verifier.values.votes.attacks import Attack, attack_with
from leaveout.verifier.values.votes.proofs import Arrays, SurvivalProof
from leaveout.verifier.values.votes.vote import Radii, Vote, Wide

_SECONDS = 10.0  # for an attack on one point


@dataclass(eq=False)
class Toward:
    """Bounds on forcing a vote to one label; they only narrow."""

    vote: Vote
    target: int
    lower: Wide  # shape (points,)
    upper: Wide  # shape (points,)
    forced: dict[int, ForcedVotes] = field(default_factory=dict)
    fewest: dict[int, Fewest] = field(default_factory=dict)

    @property
    def is_searched(self) -> bool:
        """Whether a search narrows the bounds, since no closed form is known."""
        scheme = self.vote.scheme
        return scheme.forcing is not None and scheme.radii_to is None and not self.vote.published

    def current_radii(self) -> Radii:
        """Return the bounds as radii, counting every point as right."""
        return Radii(self.lower.copy(), self.upper.copy(), np.ones(len(self.lower), np.bool_))

    def radii(self, points: Wide, need: int | None = None, seconds: float | None = None) -> Radii:
        """Return how many edits never force the label at some points."""
        deadline, vote = Deadline.after(seconds), self.vote
        if self.is_searched:
            # The label must at least pass the present answer; with two labels both are the same.
            known = vote.radii(need, deadline.share(2), self._open(points, need))
            self.lower = np.maximum(self.lower, np.where(self.lower < 0, -1, known.lower))
        left = self._open(points, need)
        for order, point in enumerate(left.tolist()):
            if deadline.over:
                break
            if vote.scheme.priced:
                self._force(point)
            elif self.is_searched:
                self._narrow(point, need, Deadline.after(deadline.share(len(left) - order)))
        return self.current_radii()

    def attack(self, point: int) -> Attack | None:
        """Return the smallest known attack that forces the label, recounted."""
        vote, target = self.vote, self.target
        if vote.predictions[point] == target:
            return None
        if vote.scheme.priced:
            forced = self.forced.get(point)
            if forced is None or forced.cost is None:
                return None
            paid = vote.counted.withstood[1][point][np.arange(len(forced.votes)), forced.votes]
            poisoned = np.repeat(np.arange(len(paid)), paid)
            return attack_with(vote.counted, point, poisoned, target, forced.votes)
        if vote.scheme.radii_to is None:
            return attack_with(vote.counted, point, self._bounds_at(point).choices, target)
        return vote.attack(point, _SECONDS, target, int(self.upper[point]) + 1)

    def proof(self, points: Wide, survived: int, falling: int) -> tuple[Arrays, int]:
        """Return proofs of which points survive some edits, where needed."""
        if self.vote.scheme.priced:
            return self._prices(points), 0
        if self.vote.scheme.radii_to is not None:
            return {}, 0
        found = SurvivalProof(self.vote, self.target)
        found.gather(self.current_radii(), points, survived, falling, self._bounds_at)
        return found.arrays(), found.missing

    def _open(self, points: Wide, need: int | None) -> Wide:
        low, high = self.lower[points], self.upper[points]
        return points[(low < high) & (True if need is None else (low < need) & (need <= high))]

    def _bounds_at(self, point: int) -> Fewest:
        if point not in self.fewest:
            self.fewest[point] = self.vote.fewest(point, self.target)
        return self.fewest[point]

    def _narrow(self, point: int, need: int | None, deadline: Deadline) -> None:
        found = self._bounds_at(point)
        found.lower = max(found.lower, int(self.lower[point]))
        found.search(need, deadline)
        if self.vote.solver is not None:
            found.solve(need, self.vote.solver, deadline)
        self.lower[point], self.upper[point] = found.lower, found.upper

    def _force(self, point: int) -> None:
        ballot, (at_least, enough) = self.vote.ballots.votes[point], self.vote.counted.withstood
        found = thresholds_to(ballot, at_least[point], self.target)
        if self.vote.gap:
            # What is only known to take at least so many changes is no part of an attack.
            paid = thresholds_to(ballot, enough[point], self.target)
            found = replace(found, cost=paid.cost, votes=paid.votes)
        self.forced[point] = found
        self.lower[point] = FAR if found.least is None else found.least - 1
        self.upper[point] = FAR if found.cost is None else found.cost - 1

    def _prices(self, points: Wide) -> Arrays:
        own = [point for point in points.tolist() if point in self.forced]
        if not own:
            return {}
        found = [self.forced[point] for point in own]
        return {
            "points": np.array(own, np.int64),
            "prices": np.stack([each.prices for each in found]),
            "votes": np.stack([each.votes for each in found]),
        }


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
    if vote.scheme.forcing is None and not vote.scheme.priced:
        raise BallotError(
            f"how many changes force one answer is not supported for {vote.name}"
            f"{' of spread parts' * vote.is_spread}; certified_accuracy bounds any change of the "
            "answer"
        )
    if vote.scheme.priced:
        return np.zeros(held.points, np.int64), np.full(held.points, FAR)
    if vote.scheme.radii_to is None or vote.published:
        return vote.radii(need=0).lower, np.full(held.points, held.parts - 1)
    exact = vote.counted.radii_to(target)
    return exact, exact
