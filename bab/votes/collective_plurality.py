"""One attack on all answers of a plurality, of disjoint or spread parts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective import Batch, SearchResult, Summed
from leaveout.bab.votes.collective_search import search
from leaveout.bab.votes.collective_shares import hardest_first, least_sum
from leaveout.deadline import Deadline
from leaveout.encoders.votes.collective import Stakes
from leaveout.encoders.votes.collective_problem import collective_problem
from leaveout.solvers import Problem

_LARGEST = 2**20
"""Gains that are not 0 beyond which the search alone has to do."""


@dataclass(frozen=True, eq=False)
class PluralityProblem:
    """See `leaveout.bab.votes.collective.CollectiveProblem`."""

    stakes: Stakes

    @property
    def points(self) -> NDArray[np.int64]:
        """Test points that may be lost to an attack of their own."""
        return np.unique(self.stakes.points)

    def only(self, points: NDArray[np.int64]) -> PluralityProblem:
        """Return the same about some of the test points alone."""
        stakes = self.stakes
        pairs = np.flatnonzero(np.isin(stakes.points, points))
        kept = replace(
            stakes,
            gains=np.ascontiguousarray(stakes.gains[:, pairs]),
            needs=stakes.needs[pairs],
            points=stakes.points[pairs],
            labels=stakes.labels[pairs],
        )
        return PluralityProblem(kept)

    def search(self, deadline: Deadline) -> SearchResult:
        """Return the attack that loses the most points, or the best one by the deadline."""
        return search(self.stakes, deadline)

    def hardest_first(self) -> NDArray[np.int64]:
        """Return the points, ascending in what all units together take of them."""
        return hardest_first(self.stakes)

    def least_sum(self, batches: tuple[Batch, ...]) -> Summed | None:
        """Return the least sum of batches and shares that bounds the loss."""
        return least_sum(self.stakes, batches)

    def programme(self, at_least: int) -> Problem | None:
        """Return a MILP whose optimum is how many points one attack can lose."""
        if np.count_nonzero(self.stakes.gains) > _LARGEST:
            return None
        return collective_problem(self.stakes, at_least)

    def attack_in(self, solution: NDArray[np.float64]) -> tuple[int, ...] | None:
        """Return the attack in a point of the programme."""
        poisoned = solution[1 : 1 + self.stakes.units] > 0.5
        units = tuple(np.flatnonzero(poisoned).tolist())
        spent = np.bincount(self.stakes.family[poisoned], minlength=len(self.stakes.quotas))
        return units if (spent <= self.stakes.quotas).all() else None

    def lost_to(self, units: tuple[int, ...]) -> tuple[int, ...]:
        """Return the points that an attack loses."""
        stakes = self.stakes
        freed = np.unique(stakes.reach[list(units)])
        enough = stakes.gains[freed].sum(axis=0) >= stakes.needs
        return tuple(np.unique(stakes.points[enough]).tolist())
