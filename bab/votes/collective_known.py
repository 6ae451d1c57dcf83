"""One attack on all answers of a plurality whose members withstand some edits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective import SearchResult
from leaveout.bab.votes.known_search import search
from leaveout.deadline import Deadline
from leaveout.encoders.votes.known_problem import KnownLevels, known_levels, known_problem
from leaveout.encoders.votes.known_stakes import KnownStakes
from leaveout.solvers import Problem

_BRIEF = 3.0
"""Seconds of the search, where a solver may be asked after it: that is better at large ones."""

_LARGEST = 2**20
"""Votes within the budget beyond which the search alone has to do."""


@dataclass(frozen=True, eq=False)
class KnownProblem:
    """See `leaveout.bab.votes.collective.CollectiveProblem`; a unit is a member.

    A member that is in an attack e times has had e edits, and votes at every point whatever so
    many edits make it vote there.
    """

    stakes: KnownStakes

    @property
    def points(self) -> NDArray[np.int64]:
        """Test points that may be lost to an attack of their own."""
        return np.unique(self.stakes.points)

    def only(self, points: NDArray[np.int64]) -> KnownProblem:
        """Return the same about some of the test points alone."""
        return KnownProblem(self.stakes.only(points))

    def search(self, deadline: Deadline) -> SearchResult:
        """Return the attack that loses the most points, or the best one by the deadline."""
        left = deadline.limit
        if self._is_small:
            deadline = Deadline.after(_BRIEF if left is None else min(_BRIEF, left))
        return search(self.stakes, deadline)

    def programme(self, at_least: int) -> Problem | None:
        """Return a MILP whose optimum is how many points one attack can lose."""
        if not self._is_small or not len(self.stakes.needs):
            return None
        return known_problem(self.stakes, self._levels, at_least)

    def attack_in(self, solution: NDArray[np.float64]) -> tuple[int, ...] | None:
        """Return the attack in a point of the programme."""
        bought = solution[1 : 1 + len(self._levels.cost)] > 0.5
        spent = self._levels.total_costs(self.stakes.members, bought)
        if spent.sum() > self.stakes.budget:
            return None
        return tuple(np.repeat(np.arange(len(spent)), spent).tolist())

    def lost_to(self, units: tuple[int, ...]) -> tuple[int, ...]:
        """Return the points that an attack loses."""
        spent = np.bincount(np.array(units, np.int64), minlength=self.stakes.members)
        return self.stakes.lost_to(spent)

    @cached_property
    def _levels(self) -> KnownLevels:
        return known_levels(self.stakes)

    @cached_property
    def _is_small(self) -> bool:
        stakes = self.stakes
        within = np.count_nonzero(stakes.ones <= stakes.budget)
        return bool(within + np.count_nonzero(stakes.twos <= stakes.budget) <= _LARGEST)
