"""One attack on all answers of a plurality vote, with disjoint or spread parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab.votes.collective import COUNTED, Batch, SearchResult, Summed
from leaveout.bab.votes.collective_kernels import (
    add,
    bound_from,
    counters_of,
    explore,
    heaviest,
    open_pairs,
)
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders.votes.collective import Stakes, collective_problem
from leaveout.solvers import Problem

Wide = NDArray[np.int64]

_WHOLE = 2**22
"""A whole point, in the integer units of shares."""

_LARGEST_PROGRAMME = 2**22
"""Shares beyond which the linear programme is not solved."""

_MOST_GAINS = 2**24
"""Gains of units for pairs beyond which shares are not computed, to save memory."""

_SECONDS = 20.0
"""Time limit of the linear programme, in seconds."""


def hardest_first(stakes: Stakes) -> Wide:
    """Return points, ascending by the total share of all units in them."""
    points = np.unique(stakes.points)
    if not len(points):
        return points
    if stakes.units * len(stakes.needs) > _MOST_GAINS:
        needs = np.minimum.reduceat(stakes.needs, _starts(stakes.points))
        return np.asarray(points[np.argsort(-needs, kind="stable")])
    return np.asarray(points[np.argsort(_shares(stakes).sum(axis=0), kind="stable")])


def least_sum(stakes: Stakes, batches: tuple[Batch, ...] = ()) -> Summed | None:
    """Return the smallest sum that bounds the loss; None if too large, or if it fails."""
    points = np.unique(stakes.points)
    gains = stakes.units * len(stakes.needs)
    if not len(points) or stakes.units * len(points) > _LARGEST_PROGRAMME or gains > _MOST_GAINS:
        return None
    batch_of = np.full(len(points), -1)
    for number, batch in enumerate(batches):
        batch_of[np.searchsorted(points, batch.points)] = number
    uppers = np.array([batch.upper for batch in batches], np.int64)
    shares = _shares(stakes)
    best = _dual(shares / _WHOLE, stakes, batch_of, uppers)
    if best is None:
        return None
    whole = np.clip(np.rint(best * COUNTED), 0, COUNTED).astype(np.int64)
    counted, taken = whole[: len(points)], whole[len(points) :]
    weights = shares @ counted
    missing = COUNTED - counted - np.append(taken, 0)[batch_of]
    most = int(np.maximum(missing, 0).sum() + taken @ uppers) * _WHOLE
    for own, quota in enumerate(stakes.quotas):
        most += int(np.sort(weights[stakes.family == own])[::-1][:quota].sum())
    upper = most // (COUNTED * _WHOLE)
    return Summed(upper, batches, taken.astype(np.uint16), counted.astype(np.uint16))


def _dual(shares: Floats, stakes: Stakes, batch_of: Wide, uppers: Wide) -> Floats | None:
    """Return the weights of points and batches in the least sum, shape (points + batches,).

    Variables in order: these, the rest of each point, a price per family, and each unit's weight
    beyond its price.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack, vstack

    units, points = shares.shape
    quotas, inside = stakes.quotas, np.flatnonzero(batch_of >= 0)
    prices = csr_array(
        (np.ones(units), (np.arange(units), stakes.family)), shape=(units, len(quotas))
    )
    of_batch = csr_array(
        (np.ones(len(inside)), (inside, batch_of[inside])), shape=(points, len(uppers))
    )
    columns = (csr_array(shares), csr_array((units, len(uppers))), csr_array((units, points)))
    whole = eye_array(points)
    heavy = hstack([*columns, -prices, -eye_array(units)])
    rest = hstack([-whole, -of_batch, -whole, csr_array((points, len(quotas) + units))])
    others = points + len(quotas) + units
    solve: Any = linprog  # whose stubs do not know sparse arrays
    done = solve(
        np.concatenate([np.zeros(points), uppers, np.ones(points), quotas, np.ones(units)]),
        A_ub=csr_array(vstack([heavy, rest])),
        b_ub=np.append(np.zeros(units), -np.ones(points)),
        bounds=[(0, 1)] * (points + len(uppers)) + [(0, None)] * others,
        method="highs",
        options={"time_limit": _SECONDS},
    )
    return None if done.x is None else np.asarray(done.x[: points + len(uppers)])


def _shares(stakes: Stakes) -> Wide:
    """Return each unit's share in each point, rounded up, shape (units, points).

    For a pair, it is the gain divided by the need. If units gain at most 2, at least half of the
    need, rounded up, must gain at all, and at least the need minus the poisoned units must gain 2;
    the bound with the least sum is used. With several pairs, the largest share counts.
    """
    units, needs = stakes.unit_gains().astype(np.int64), stakes.needs.astype(np.int64)
    shares = np.minimum(-(-units * _WHOLE // needs), _WHOLE)
    if stakes.reach.shape[1] == 1:
        spare = needs - int(stakes.quotas.sum())
        for some, part, holds in (
            (units >= 1, (needs + 1) // 2, np.ones(len(needs), np.bool_)),
            (units >= 2, np.maximum(spare, 1), spare > 0),
        ):
            others = some * -(-_WHOLE // part)
            better = holds & (others.sum(axis=0) < shares.sum(axis=0))
            shares[:, better] = others[:, better]
    starts = _starts(stakes.points)
    return np.asarray(np.maximum.reduceat(shares, starts, axis=1))


def _starts(points: NDArray[Any]) -> Wide:
    """Return the start of each point's pairs."""
    return np.flatnonzero(np.append(True, points[1:] != points[:-1]))


_STEPS = 200
"""Nodes between checks of the clock."""

_BRIEF = 2.0
"""Seconds of branch and bound before enumerating all attacks, if these are few enough."""

_MOST_WORDS = 2e10
"""Most words to process when enumerating all attacks."""

_Facts: TypeAlias = tuple[
    NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]
]
"""Reach and family of units, gains, needs, and each pair's point, counted from 0."""


def search(stakes: Stakes, deadline: Deadline = NEVER) -> SearchResult:
    """Return the attack that loses the most points, or the best one by the deadline.

    Units are sorted by weight; all subsets with the same first unit form a task. A task is skipped,
    and a branch cut, if even a fractional attack loses no more than the best known: every lost
    point costs at least 1 in shares ``gain / need`` of the poisoned units. If that takes long and
    the attacks are few enough, all of them are enumerated instead.
    """
    if not len(stakes.needs) or not stakes.budget:
        return SearchResult((), 0, 0)
    _, owner = np.unique(stakes.points, return_inverse=True)
    owner = owner.astype(np.int64)
    weight = (stakes.unit_gains() / stakes.needs).sum(axis=1)
    order = np.argsort(-weight, kind="stable")
    reach, family = np.ascontiguousarray(stakes.reach[order]), stakes.family[order]
    facts, quotas = (reach, family, stakes.gains, stakes.needs, owner), stakes.quotas
    kept, best = _greedy(facts, quotas, deadline)
    counters = counters_of(stakes, order)
    if counters is not None and counters.work(stakes.budget) > _MOST_WORDS:
        counters = None
    brief = deadline
    if counters is not None:
        limit = deadline.limit
        brief = Deadline.after(_BRIEF if limit is None else min(_BRIEF, limit))
    upper = 0
    for first in range(stakes.units):
        if not brief.over:
            best, finished = _task(facts, quotas, first, kept, int(best), brief)
            if finished:
                continue
        if counters is None or deadline.over:
            upper = int(bound_from(*facts, quotas, first))
            break
        best = counters.task(first, kept, int(best))
    units = tuple(sorted(int(order[unit]) for unit in kept if unit >= 0))
    return SearchResult(units, int(best), max(int(best), upper))


def _greedy(
    facts: _Facts, quotas: NDArray[np.int64], deadline: Deadline
) -> tuple[NDArray[np.int64], int]:
    """Repeatedly poison the unit that counts most; -1 means none."""
    reach, family, gains, needs, owner = facts
    free, budget = quotas.copy(), int(quotas.sum())
    covered, sums = np.zeros(len(gains), np.int64), np.zeros(len(needs), np.int32)
    taken = np.zeros(len(reach), dtype=np.bool_)
    chosen = np.full(budget, -1, np.int64)
    for step in range(budget):
        if deadline.over:
            break
        unit = heaviest(*facts, covered, sums, free, taken)
        chosen[step], taken[unit] = unit, True
        free[family[unit]] -= 1
        add(unit, 1, reach, gains, covered, sums)
    lost, _ = open_pairs(sums, needs, owner, 0, np.empty(len(needs), np.int64))
    return chosen, int(lost)


def _task(
    facts: _Facts,
    quotas: NDArray[np.int64],
    first: int,
    kept: NDArray[np.int64],
    best: int,
    deadline: Deadline,
) -> tuple[int, bool]:
    """Search the subsets with a given first unit; return the best loss, and if it is complete."""
    reach, family, gains, needs, _ = facts
    free = quotas.copy()
    free[family[first]] -= 1
    covered = np.zeros(len(gains), np.int64)
    sums = np.zeros(len(needs), np.int32)
    chosen = np.full(len(kept), -1, np.int64)
    following = np.full(len(kept) + 1, first + 1, np.int64)
    chosen[0] = first
    add(first, 1, reach, gains, covered, sums)
    depth, fresh = 1, True
    while depth:
        if deadline.over:
            return best, False
        depth, fresh, best = explore(
            *facts, covered, sums, free, chosen, following, kept, depth, fresh, best, _STEPS
        )
    return best, True


_LARGEST = 2**20
"""Nonzero gains beyond which only the search is used."""


@dataclass(frozen=True, eq=False)
class PluralityProblem:
    """See `leaveout.bab.votes.collective.CollectiveProblem`."""

    stakes: Stakes

    @property
    def points(self) -> NDArray[np.int64]:
        """Test points that some attack can make lost."""
        return np.unique(self.stakes.points)

    def only(self, points: NDArray[np.int64]) -> PluralityProblem:
        """Return the problem for only some of the test points."""
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
        """Return the points, ascending by the total share of all units in them."""
        return hardest_first(self.stakes)

    def least_sum(self, batches: tuple[Batch, ...]) -> Summed | None:
        """Return the least weighted sum of batches and shares that bounds the loss."""
        return least_sum(self.stakes, batches)

    def programme(self, at_least: int) -> Problem | None:
        """Return a MILP whose optimum is the number of points that one attack can lose."""
        if np.count_nonzero(self.stakes.gains) > _LARGEST:
            return None
        return collective_problem(self.stakes, at_least)

    def attack_in(self, solution: NDArray[np.float64]) -> tuple[int, ...] | None:
        """Return the attack for a solution of the programme."""
        poisoned = solution[1 : 1 + self.stakes.units] > 0.5
        units = tuple(np.flatnonzero(poisoned).tolist())
        spent = np.bincount(self.stakes.family[poisoned], minlength=len(self.stakes.quotas))
        return units if (spent <= self.stakes.quotas).all() else None

    def lost_to(self, units: tuple[int, ...]) -> tuple[int, ...]:
        """Return the points lost to an attack."""
        stakes = self.stakes
        freed = np.unique(stakes.reach[list(units)])
        enough = stakes.gains[freed].sum(axis=0) >= stakes.needs
        return tuple(np.unique(stakes.points[enough]).tolist())
