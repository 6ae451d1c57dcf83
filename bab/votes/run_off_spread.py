"""Run-offs of members with spread samples: the number of poisoned units each survives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Ints
from leaveout.bab.votes.finite import least_whole
from leaveout.deadline import Deadline
from leaveout.encoders.votes import run_off_stakes as kernels
from leaveout.encoders.votes.run_off import Scores, check_ballots, run_off_predictions
from leaveout.encoders.votes.run_off_stakes import (
    RunOffStakes,
    run_off_pair_problem,
    run_off_stakes,
)
from leaveout.solvers import CanSolve

Wide = NDArray[np.int64]

_EXCHANGES = 12
"""Exchanges tried per number of units of an attack."""


def spread_run_off_published(
    votes: Ints, scores: Scores, labels: int, offsets: tuple[int, ...]
) -> Wide:
    """Return a lower bound of the poisoned units each run-off survives (published argument).

    It is one less than the smaller of two numbers of units (Rezaei et al., ICML 2023, certificate
    of Finite Aggregation with run-offs): those after which two labels may rank before the winner,
    and those after which another label may have entered the run-off and won it against the winner.
    Each gap is closed by the units with the most gain, as if no two shared members and edits served
    that gap alone.
    """
    ballots, numbers = check_ballots(votes, scores, labels)
    found = np.empty(len(ballots), np.int64)
    spots = np.array(offsets, np.int64)
    kernels.published_units(ballots, numbers, spots, labels, found)
    return found - 1


@dataclass(eq=False)
class SpreadRunOff:
    """Bounds for one test point, which can only tighten."""

    votes: Ints
    scores: Scores
    offsets: tuple[int, ...]
    lower: int = 0
    winner: int = field(init=False)
    least: Wide = field(init=False)  # shape (labels, labels)
    units: Ints = field(init=False)  # smallest attack found, ascending
    finalists: tuple[int, int] = field(init=False)  # t and s of that attack

    def __post_init__(self) -> None:
        members, labels = self.scores.shape
        self.winner = int(run_off_predictions(self.votes[None], self.scores[None], labels)[0])
        # If all units are poisoned, any label can win.
        self.units = np.arange(members, dtype=np.int32)
        self.finalists = (1, 0) if self.winner == 0 else (0, 1)
        own = 1 + 3 * labels + labels * labels
        self.least = np.empty((labels, labels), np.int64)
        kernels.units_for_pairs(
            self.votes, self.scores, np.array(self.offsets, np.int64), self.winner, members,
            np.empty((own, members), np.int8), np.empty(own, np.int64), self.least,
        )  # fmt: skip
        np.maximum(self.least, self.lower + 1, out=self.least)

    @property
    def lowest(self) -> int:
        """Least number of units that the winner survives."""
        return min(int(self.least.min()), len(self.units)) - 1

    @property
    def highest(self) -> int:
        """Greatest number of units that the winner survives."""
        return len(self.units) - 1

    def is_settled(self, need: int | None) -> bool:
        """Return whether the radius, or its comparison with ``need``, is known."""
        if need is not None and (self.lowest >= need or self.highest < need):
            return True
        return self.lowest >= self.highest

    def search(self, need: int | None) -> None:
        """Search for attacks, greedily and by exchanges."""
        for t, s in self._open():
            if self.is_settled(need):
                return
            if self.least[t, s] < len(self.units):
                self._search_pair(t, s)

    def solve(self, need: int | None, solver: CanSolve, seconds: float | None) -> None:
        """Tighten the bounds by one programme for each pair that a smaller attack may use."""
        deadline = Deadline.after(seconds)
        pairs = self._open()
        for order, (t, s) in enumerate(pairs):
            most = len(self.units) - 1 if need is None else min(len(self.units) - 1, need)
            known = int(self.least[t, s])
            if self.is_settled(need) or known > most or deadline.over:
                continue
            left = deadline.limit
            stake = self._stake(t, s, most)
            if stake is None:
                self.least[t, s] = most + 1
                continue
            problem = run_off_pair_problem(
                stake.gains.T, stake.needs.astype(np.int64), stake.reach, known, most
            )
            share = None if left is None else left / (len(pairs) - order)
            least, point = least_whole(problem, solver, share)
            if point is not None:
                self._try(np.flatnonzero(point[: stake.units] > 0.5), t, s)
            self.least[t, s] = max(known, int(min(max(least, known), most + 1)))

    def changed_ballots(self) -> tuple[Ints, Ints, Scores]:
        """Return the members changed by the smallest attack, with their votes and scores.

        They score 1 for their vote and 0 for all other labels.
        """
        found = self._changed_ballots(self.units, *self.finalists)
        assert found is not None
        return found

    def _open(self) -> list[tuple[int, int]]:
        """Return the pairs with which a smaller attack may succeed, the most promising first."""
        labels = len(self.least)
        order = np.argsort(self.least, axis=None, kind="stable").tolist()
        pairs = [(each // labels, each % labels) for each in order]
        return [(t, s) for t, s in pairs if self.least[t, s] < len(self.units)]

    def _stake(self, t: int, s: int, budget: int) -> RunOffStakes | None:
        """Return what t needs to win against s; None if ``budget`` units are too few."""
        labels = len(self.least)
        found = run_off_stakes(
            self.votes[None], self.scores[None], labels, np.array([self.winner], np.int32),
            np.zeros(1, np.int64), budget, self.offsets, only=(t, s),
        )  # fmt: skip
        return found if len(found.points) else None

    def _search_pair(self, t: int, s: int) -> None:
        rng = np.random.default_rng(0)
        stake = self._stake(t, s, len(self.units) - 1)
        if stake is None:
            return
        found = _greedy(stake, np.zeros(0, np.int64), stake.budget)
        while found is not None:
            self._try(found, t, s)
            most = len(found) - 1
            if most < self.least[t, s]:
                return
            for _ in range(_EXCHANGES):
                kept = rng.permutation(found)[: max(0, most - int(rng.integers(1, 4)))]
                found_fewer = _greedy(stake, kept, most)
                if found_fewer is not None:
                    break
            found = found_fewer

    def _try(self, units: NDArray[np.integer[Any]], t: int, s: int) -> None:
        """Carry out an attack, repeat the run-off, and keep the attack if it is the smallest."""
        if len(units) < len(self.units) and self._changed_ballots(units, t, s) is not None:
            self.units = np.sort(units).astype(np.int32)
            self.finalists = (t, s)

    def _changed_ballots(
        self, units: NDArray[np.integer[Any]], t: int, s: int
    ) -> tuple[Ints, Ints, Scores] | None:
        """Return votes and scores with which t wins against s; None if impossible."""
        members, labels = self.scores.shape
        freed = np.unique(np.add.outer(units, np.array(self.offsets, np.int64)) % members)
        for votes_for_t in range(len(freed), -1, -1):
            votes, scores = self.votes.copy(), self.scores.copy()
            cast = np.where(np.arange(len(freed)) < votes_for_t, t, s).astype(np.int32)
            votes[freed] = cast
            scores[freed] = np.eye(labels, dtype=scores.dtype)[cast]
            if run_off_predictions(votes[None], scores[None], labels)[0] != self.winner:
                return freed.astype(np.int32), cast, scores[freed]
        return None


def _greedy(stake: RunOffStakes, kept: Wide, most: int) -> Wide | None:
    """Add units until all demands of one pair are met; None if more than ``most`` are needed."""
    gains = stake.gains.astype(np.int64)
    short = stake.needs.astype(np.int64)
    chosen = kept.tolist()
    reached = np.unique(stake.reach[kept])
    short = short - gains[reached].sum(axis=0)
    gains[reached] = 0
    while (short > 0).any():
        if len(chosen) >= most:
            return None
        units = gains[stake.reach].sum(axis=1)
        open_ones = np.flatnonzero(short > 0)
        shares = np.minimum(units[:, open_ones], short[open_ones]) / short[open_ones]
        unit = int(shares.sum(axis=1).argmax())
        if not shares[unit].any():
            return None
        chosen.append(unit)
        short = short - units[unit]
        gains[stake.reach[unit]] = 0
    return np.unique(np.array(chosen, np.int64))
