"""One attack on all answers of a run-off, of disjoint or spread parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes import demand_kernels as kernels
from leaveout.bab.votes.collective import SearchResult
from leaveout.bab.votes.demand_kernels import Facts, State
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders.votes.run_off_problem import run_off_collective_problem
from leaveout.encoders.votes.run_off_stakes import RunOffStakes
from leaveout.solvers import Problem

_LARGEST = 2**20
"""Gains that are not 0 beyond which the search alone has to do."""

_WORK = 2**21
"""Gains looked at between two looks at the clock, about."""


@dataclass(frozen=True, eq=False)
class RunOffProblem:
    """See `leaveout.bab.votes.collective.CollectiveProblem`."""

    stakes: RunOffStakes

    @property
    def points(self) -> NDArray[np.int64]:
        """Test points that may be lost to an attack of their own."""
        return np.unique(self.stakes.points)

    def only(self, points: NDArray[np.int64]) -> RunOffProblem:
        """Return the same about some of the test points alone."""
        return RunOffProblem(self.stakes.only(points))

    def search(self, deadline: Deadline = NEVER) -> SearchResult:
        """Return the attack that loses the most points, or the best one by the deadline.

        Units are taken in order of weight; the subsets that begin with a unit are one task. A
        branch is cut where even shares of the points lose no more than the best attack known: of
        every pair the demand that is furthest from met is looked at alone.
        """
        stakes = self.stakes
        if not len(stakes.points) or not stakes.budget:
            return SearchResult((), 0, 0)
        order, facts = _order_units(stakes)
        best_units, best = _greedy(facts, stakes.budget, deadline)
        upper = 0
        for first in range(stakes.units):
            best, finished = _task(facts, first, best_units, best, deadline)
            if not finished:
                upper = int(kernels.bound_from(facts, _state(facts), stakes.budget, first))
                break
        units = tuple(sorted(int(order[unit]) for unit in best_units if unit >= 0))
        return SearchResult(units, best, max(best, upper))

    def programme(self, at_least: int) -> Problem | None:
        """Return a MILP whose optimum is how many points one attack can lose."""
        if np.count_nonzero(self.stakes.gains) > _LARGEST:
            return None
        return run_off_collective_problem(self.stakes, at_least)

    def attack_in(self, solution: NDArray[np.float64]) -> tuple[int, ...] | None:
        """Return the attack in a point of the programme."""
        poisoned = solution[1 : 1 + self.stakes.units] > 0.5
        units = tuple(np.flatnonzero(poisoned).tolist())
        return units if len(units) <= self.stakes.budget else None

    def lost_to(self, units: tuple[int, ...]) -> tuple[int, ...]:
        """Return the points that an attack loses."""
        return self.stakes.lost_to(units)


def _order_units(stakes: RunOffStakes) -> tuple[NDArray[np.int64], Facts]:
    """Return the units by decreasing gain, and the search's constant data."""
    _, owner = np.unique(stakes.points, return_inverse=True)
    tops = np.zeros(len(stakes.needs), np.int32)
    weight = np.zeros(stakes.units)
    for unit, members in enumerate(stakes.reach):
        gained = stakes.gains[members].sum(axis=0, dtype=np.int32)
        np.maximum(tops, gained, out=tops)
        weight[unit] = (gained / stakes.needs).sum()
    order = np.argsort(-weight, kind="stable")
    reach = np.ascontiguousarray(stakes.reach[order])
    facts = Facts(reach, stakes.gains, stakes.needs, tops, stakes.starts, owner.astype(np.int64))
    return order, facts


def _state(facts: Facts) -> State:
    """Return the state before anything is poisoned."""
    pairs = len(facts.owner)
    return State(
        np.zeros(len(facts.gains), np.int64),
        np.zeros(len(facts.needs), np.int32),
        np.zeros(pairs, np.int64),
        np.zeros(pairs, np.int64),
    )


def _greedy(facts: Facts, budget: int, deadline: Deadline) -> tuple[NDArray[np.int64], int]:
    """Poison, again and again, the unit that counts most; -1 stands for none."""
    state = _state(facts)
    taken = np.zeros(len(facts.reach), dtype=np.bool_)
    chosen = np.full(budget, -1, np.int64)
    for step in range(budget):
        if deadline.over:
            break
        unit = int(kernels.heaviest(facts, state, taken))
        chosen[step], taken[unit] = unit, True
        kernels.add(facts, state, unit, 1)
    return chosen, int(kernels.lost_now(facts, state))


def _task(
    facts: Facts, first: int, best_units: NDArray[np.int64], best: int, deadline: Deadline
) -> tuple[int, bool]:
    """Search the subsets that begin with a unit; return the best loss, and whether all were."""
    state, budget = _state(facts), len(best_units)
    chosen = np.full(budget, -1, np.int64)
    following = np.full(budget + 1, first + 1, np.int64)
    chosen[0] = first
    kernels.add(facts, state, first, 1)
    steps = max(1, _WORK // max(1, facts.reach.size * len(facts.owner)))
    depth, fresh = 1, True
    while depth:
        if deadline.over:
            return best, False
        depth, fresh, best = kernels.explore(
            facts, state, chosen, following, best_units, depth, fresh, best, steps
        )
    return best, True
