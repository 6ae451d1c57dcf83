"""One attack on all answers of a plurality vote whose members withstand some edits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, kron, vstack

from leaveout.bab.votes.collective import SearchResult
from leaveout.compiling import cached_njit
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders.votes.thresholds import KnownLevels, KnownStakes, known_levels, known_problem
from leaveout.models.ballots import UNREACHABLE
from leaveout.solvers import Problem

_FIRST, _TURNS = 60, 6
"""Iterations of the search for better prices of points, at the root and at other nodes."""

_SLACK = 1e-6
"""Added to sums of quotients before rounding down."""


@cached_njit()
def count_lost(
    ones: NDArray[Any],
    twos: NDArray[Any],
    needs: NDArray[np.int32],
    owner: NDArray[np.int64],
    spent: NDArray[np.int64],
) -> int:
    """Count the points lost if this much is spent on each member."""
    sums = np.zeros(len(needs), np.int64)
    for member in range(len(spent)):
        if spent[member]:
            for pair in range(len(needs)):
                if spent[member] >= ones[member, pair]:
                    sums[pair] += 1 + (spent[member] >= twos[member, pair])
    lost, last = 0, -1
    for pair in range(len(needs)):
        if sums[pair] >= needs[pair] and owner[pair] != last:
            lost += 1
            last = owner[pair]
    return lost


@cached_njit()
def _cheapest(
    pair: int,
    need: int,
    left: int,
    ones: NDArray[Any],
    twos: NDArray[Any],
    free: NDArray[np.bool_],
    sold: NDArray[np.int64],
) -> tuple[int, int]:
    """Return a lower bound of a pair's cost, and how many members could gain at all.

    A gain of 2 is split into two of half its cost, or into the first gain and what the second adds,
    whichever is less even. The cost is ``left + 1`` if it is out of reach.
    """
    sold[: 2 * left + 1] = 0
    for member in range(len(ones)):
        if not free[member]:
            continue
        one, two = int(ones[member, pair]), int(twos[member, pair])
        if two <= left and two <= 2 * one:
            sold[two] += 2
        elif one <= left:
            sold[2 * one] += 1
            if two <= left:
                sold[2 * (two - one)] += 1
    lacking, paid = need, 0
    for price in range(1, 2 * left + 1):
        if sold[price]:
            taken = min(lacking, sold[price])
            lacking -= taken
            paid += taken * price
            if not lacking:
                break
    if lacking or paid > 2 * left:
        return left + 1, 0
    sold[: left + 1] = 0
    for member in range(len(ones)):
        if free[member] and ones[member, pair] <= left:
            sold[ones[member, pair]] += 1
    members, over = 0, left
    for price in range(1, left + 1):
        taken = min(sold[price], over // price)
        members += taken
        over -= taken * price
    return (paid + 1) // 2, members


@cached_njit()
def _shares(
    pair: int,
    need: int,
    least: int,
    members: int,
    left: int,
    ones: NDArray[Any],
    twos: NDArray[Any],
    free: NDArray[np.bool_],
) -> tuple[float, float, float]:
    """Return the lightest of three shares with which a lost pair weighs at least 1.

    One is per gain of 1, one per gain of 2, one per edit of a gain. In a lost pair the gains reach
    the need and the cost is at least the least cost; since only some members can gain at all, the
    rest of the need must come from gains of 2.
    """
    by_gain, by_cost, by_twos, twice = 0.0, 0.0, 0.0, need - members
    for member in range(len(ones)):
        if not free[member]:
            continue
        one, two = ones[member, pair], twos[member, pair]
        if two <= left:
            by_gain += 2.0 / (need * two)
            by_cost += 1.0 / least
            if twice > 0:
                by_twos += 1.0 / (twice * two)
        elif one <= left:
            by_gain += 1.0 / (need * one)
            by_cost += 1.0 / least
    if twice > 0 and by_twos < by_gain and by_twos < by_cost:
        return 0.0, 1.0 / twice, 0.0
    if by_cost < by_gain:
        return 0.0, 0.0, 1.0 / least
    return 1.0 / need, 2.0 / need, 0.0


@cached_njit()
def _measure(
    left: int,
    ones: NDArray[Any],
    twos: NDArray[Any],
    needs: NDArray[np.int64],
    still: NDArray[np.bool_],
    free: NDArray[np.bool_],
    shares: NDArray[np.float64],
) -> None:
    """Drop the pairs that are out of reach, and choose the shares of the others."""
    sold = np.zeros(2 * left + 2, np.int64)
    for pair in range(len(needs)):
        if not still[pair]:
            continue
        least, members = _cheapest(pair, needs[pair], left, ones, twos, free, sold)
        if least > left:
            still[pair] = False
            continue
        shares[pair] = _shares(pair, needs[pair], least, members, left, ones, twos, free)


@cached_njit()
def _share(pair: int, one: int, two: int, spent: int, shares: NDArray[np.float64]) -> float:
    """Return a member's share in a pair if this much is spent on it."""
    share = 0.0
    if spent >= two:
        share = shares[pair, 1] + two * shares[pair, 2]
    elif spent >= one:
        share = shares[pair, 0] + one * shares[pair, 2]
    return share


@cached_njit()
def _weigh(
    left: int,
    ones: NDArray[Any],
    twos: NDArray[Any],
    owner: NDArray[np.int64],
    still: NDArray[np.bool_],
    free: NDArray[np.bool_],
    shares: NDArray[np.float64],
    prices: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> float:
    """Weigh the spending on each member: its shares in open points, times the points' prices.

    Returns the rest of the open points beyond their prices.
    """
    top = np.zeros(left + 1)
    weights[:, : left + 1] = 0.0
    beyond, start = 0.0, 0
    while start < len(still):
        end, count, only = start, 0, -1
        while end < len(still) and owner[end] == owner[start]:
            if still[end]:
                count += 1
                only = end
            end += 1
        price = prices[owner[start]]
        beyond += 1.0 - price if count else 0.0
        for member in range(len(ones)):
            if not free[member] or not count:
                continue
            if count == 1:
                one, two = ones[member, only], twos[member, only]
                if one <= left:
                    first = price * _share(only, one, two, one, shares)
                    weights[member, one] += first
                    if one < two <= left:
                        weights[member, two] += price * _share(only, one, two, two, shares) - first
                continue
            top[:] = 0.0
            for pair in range(start, end):
                if still[pair]:
                    one, two = ones[member, pair], twos[member, pair]
                    for spent in range(one, left + 1):
                        top[spent] = max(top[spent], _share(pair, one, two, spent, shares))
            for spent in range(1, left + 1):
                weights[member, spent] += price * (top[spent] - top[spent - 1])
        start = end
    for member in range(len(ones)):
        for spent in range(1, left + 1):
            weights[member, spent] += weights[member, spent - 1]
    return beyond


@cached_njit()
def _move_prices(
    plan: NDArray[np.int64],
    step: float,
    ones: NDArray[Any],
    twos: NDArray[Any],
    owner: NDArray[np.int64],
    still: NDArray[np.bool_],
    shares: NDArray[np.float64],
    prices: NDArray[np.float64],
) -> None:
    """Raise prices of points of which a plan takes less than a whole; lower the others."""
    start = 0
    while start < len(still):
        end = start
        while end < len(still) and owner[end] == owner[start]:
            end += 1
        taken = 0.0
        for member in range(len(plan)):
            if not plan[member]:
                continue
            most = 0.0
            for pair in range(start, end):
                if still[pair]:
                    one, two = ones[member, pair], twos[member, pair]
                    most = max(most, _share(pair, one, two, plan[member], shares))
            taken += most
        point = owner[start]
        prices[point] = min(1.0, max(0.0, prices[point] + step * (1.0 - taken)))
        start = end


@cached_njit()
def _plan(
    left: int,
    free: NDArray[np.bool_],
    weights: NDArray[np.float64],
    table: NDArray[np.float64],
    plan: NDArray[np.int64],
) -> float:
    """Spend edits so that the total weight is maximal; return that weight."""
    members = len(free)
    table[0, : left + 1] = 0.0
    for member in range(members):
        table[member + 1, : left + 1] = table[member, : left + 1]
        if not free[member]:
            continue
        for spent in range(1, left + 1):
            weight = weights[member, spent]
            if weight <= weights[member, spent - 1] + 1e-12:
                continue
            for total in range(spent, left + 1):
                better = table[member, total - spent] + weight
                if better > table[member + 1, total]:
                    table[member + 1, total] = better
    total = left
    for member in range(members - 1, -1, -1):
        plan[member] = 0
        if not free[member] or table[member + 1, total] == table[member, total]:
            continue
        for spent in range(1, total + 1):
            if table[member, total - spent] + weights[member, spent] == table[member + 1, total]:
                plan[member] = spent
                total -= spent
                break
    return float(table[members, left])


@cached_njit(nogil=True)
def explore(
    ones: NDArray[Any],
    twos: NDArray[Any],
    starts: NDArray[np.int32],
    owner: NDArray[np.int64],
    needs: NDArray[np.int64],
    still: NDArray[np.bool_],
    left: NDArray[np.int64],
    lost: NDArray[np.int64],
    bounds: NDArray[np.int64],
    branch: NDArray[np.int64],
    choices: NDArray[np.int64],
    counts: NDArray[np.int64],
    spent: NDArray[np.int64],
    free: NDArray[np.bool_],
    best_spent: NDArray[np.int64],
    depth: int,
    fresh: bool,
    best: int,
    steps: int,
) -> tuple[int, bool, int]:
    """Continue the search for some steps; return its position. At the end the depth is -1.

    A node fixes the spending on some members. Stored per depth: needs of the pairs, which pairs are
    open, the remaining budget, the lost points, a bound, the next member to decide, and its
    remaining choices, the last one first.
    """
    members, pairs = ones.shape
    most = left[0]
    weights = np.zeros((members, most + 1))
    table = np.zeros((members + 1, most + 1))
    plan, tried = np.zeros(members, np.int64), np.zeros(members, np.int64)
    shares, prices = np.zeros((pairs, 3)), np.ones(pairs)
    for _ in range(steps):
        if fresh:
            _measure(left[depth], ones, twos, needs[depth], still[depth], free, shares)
            if not depth:
                prices[:] = 1.0
            bounds[depth], step = members * pairs, 0.3
            for _turn in range(_TURNS if depth else _FIRST):
                more = _weigh(
                    left[depth], ones, twos, owner, still[depth], free, shares, prices, weights
                )
                more += _plan(left[depth], free, weights, table, plan)
                bounds[depth] = min(bounds[depth], lost[depth] + int(np.floor(more + _SLACK)))
                tried[:] = spent + plan
                found = count_lost(ones, twos, starts, owner, tried)
                if found > best:
                    best = found
                    best_spent[:] = tried
                if bounds[depth] <= best:
                    break
                _move_prices(plan, step, ones, twos, owner, still[depth], shares, prices)
                step *= 0.9
            counts[depth] = 0
            branch[depth] = -1
            if bounds[depth] > best:
                heaviest, member = 0.0, -1
                for each in range(members):
                    if plan[each] and weights[each, plan[each]] > heaviest:
                        heaviest, member = weights[each, plan[each]], each
                branch[depth] = member
                free[member] = False
                # The planned spending is tried first, spending nothing last.
                count = 1
                choices[depth, 0] = 0
                for edits in range(1, left[depth] + 1):
                    step = weights[member, edits] - weights[member, edits - 1]
                    if step > 1e-12 and edits != plan[member]:
                        choices[depth, count] = edits
                        count += 1
                choices[depth, count] = plan[member]
                counts[depth] = count + 1
            fresh = False
        if not counts[depth] or bounds[depth] <= best:
            member = branch[depth]
            if member >= 0:
                free[member] = True
                spent[member] = 0
            depth -= 1
            if depth < 0:
                return depth, False, best
            continue
        counts[depth] -= 1
        member, edits = branch[depth], choices[depth, counts[depth]]
        spent[member] = edits
        left[depth + 1] = left[depth] - edits
        needs[depth + 1] = needs[depth]
        still[depth + 1] = still[depth]
        lost[depth + 1] = lost[depth]
        start = 0
        while start < pairs:
            end, taken = start, False
            while end < pairs and owner[end] == owner[start]:
                if still[depth, end] and edits >= ones[member, end]:
                    needs[depth + 1, end] -= 1 + (edits >= twos[member, end])
                    taken = taken or needs[depth + 1, end] <= 0
                end += 1
            if taken:
                lost[depth + 1] += 1
                still[depth + 1, start:end] = False
            start = end
        depth += 1
        fresh = True
    return depth, fresh, best


_WORK = 5e6
"""Numbers processed between checks of the clock."""

_LARGEST_SEARCH = 2**25
"""Most numbers stored in all open nodes."""


def search(stakes: KnownStakes, deadline: Deadline = NEVER) -> SearchResult:
    """Return the attack that loses the most points, or the best one by the deadline.

    Spending is decided one member at a time, the heaviest first. A branch is cut if it loses no
    more points than the best attack known: each point has a price y from 0 to 1, and the lost
    points are at most the sum of 1 - y plus the greatest sum of members' shares times y within the
    remaining budget, a knapsack. A subgradient method seeks prices that make the bound small
    (Lagrangian relaxation).
    """
    points, owner = np.unique(stakes.points, return_inverse=True)
    if not len(points):
        return SearchResult((), 0, 0)
    pairs, members, budget = len(owner), stakes.members, stakes.budget
    depths = members + 2
    if depths * (pairs * 9 + budget + 2) + members * budget * 2 > _LARGEST_SEARCH:
        return SearchResult((), 0, len(points))
    needs = np.zeros((depths, pairs), np.int64)
    still = np.zeros((depths, pairs), np.bool_)
    left, lost, bounds, branch, counts = (np.zeros(depths, np.int64) for _ in range(5))
    choices = np.zeros((depths, budget + 2), np.int64)
    needs[0], still[0], left[0], bounds[0] = stakes.needs, True, budget, len(points)
    spent, best_spent = np.zeros(members, np.int64), np.zeros(members, np.int64)
    free = np.ones(members, np.bool_)
    depth, fresh, best = 0, True, 0
    steps = max(1, int(_WORK / (members * (8 * pairs + budget * min(budget, 8)))))
    upper = len(points)
    while depth >= 0 and not deadline.over:
        depth, fresh, best = explore(
            stakes.ones, stakes.twos, stakes.needs, owner, needs, still, left, lost, bounds, branch,
            choices, counts, spent, free, best_spent, depth, fresh, best, steps,
        )  # fmt: skip
        upper = min(upper, max(best, int(bounds[0]))) if depth >= 0 else best
    units = tuple(np.repeat(np.arange(members), best_spent).tolist())
    return SearchResult(units, int(best), int(upper))


_BRIEF = 3.0
"""Seconds of the search if a solver can follow, which is better at large problems."""

_LARGEST = 2**20
"""Votes within the budget beyond which only the search is used."""


@dataclass(frozen=True, eq=False)
class KnownProblem:
    """See `leaveout.bab.votes.collective.CollectiveProblem`; a unit is a member.

    A member that is in an attack e times receives e edits, and at every point casts any vote that
    so many edits can cause.
    """

    stakes: KnownStakes

    @property
    def points(self) -> NDArray[np.int64]:
        """Test points that some attack can make lost."""
        return np.unique(self.stakes.points)

    def only(self, points: NDArray[np.int64]) -> KnownProblem:
        """Return the problem for only some of the test points."""
        return KnownProblem(self.stakes.only(points))

    def search(self, deadline: Deadline) -> SearchResult:
        """Return the attack that loses the most points, or the best one by the deadline."""
        left = deadline.limit
        if self._is_small:
            deadline = Deadline.after(_BRIEF if left is None else min(_BRIEF, left))
        return search(self.stakes, deadline)

    def programme(self, at_least: int) -> Problem | None:
        """Return a MILP whose optimum is the number of points that one attack can lose."""
        if not self._is_small or not len(self.stakes.needs):
            return None
        return known_problem(self.stakes, self._levels, at_least)

    def attack_in(self, solution: NDArray[np.float64]) -> tuple[int, ...] | None:
        """Return the attack for a solution of the programme."""
        bought = solution[1 : 1 + len(self._levels.cost)] > 0.5
        spent = self._levels.total_costs(self.stakes.members, bought)
        if spent.sum() > self.stakes.budget:
            return None
        return tuple(np.repeat(np.arange(len(spent)), spent).tolist())

    def lost_to(self, units: tuple[int, ...]) -> tuple[int, ...]:
        """Return the points lost to an attack."""
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


UNIT = 2**20
"""Prices are multiples of 1 / UNIT."""

PRICES = 3
"""Lists of prices per point: for a free number of target votes, and for the two next to it."""

_MOST = 2**62
"""Limit of bounds in units of 1 / UNIT; beyond it, no bound is computed."""


@dataclass(frozen=True, eq=False)
class ForcedVotes:
    """The cost of making a label win at one point."""

    least: int | None  # no such votes cost less; None if no number of edits suffices
    prices: NDArray[np.int64]  # shape (PRICES, labels)
    cost: int | None  # cost of the votes found; None if none were found
    votes: NDArray[np.int32]  # shape (parts,)


def thresholds_to(
    ballot: NDArray[np.int32], thresholds: NDArray[np.int32], target: int
) -> ForcedVotes:
    """Return the cheapest votes that make a label win at one point, and prices that prove it."""
    parts, labels = thresholds.shape
    finite = thresholds.astype(np.int64)
    # Above any possible cost, so that solutions with such a vote are recognised by their cost.
    never = 1 + int(finite.max(axis=1).sum())
    prices = np.zeros((PRICES, labels), np.int64)
    if parts * never * UNIT >= _MOST:
        return ForcedVotes(0, prices, None, ballot)
    costs = np.where(finite == UNREACHABLE, never, finite)
    tried = [_solve_programme(costs, target, None)]
    free = tried[0]
    if free is not None and not _wins(free.votes, labels, target, costs, free.value):
        tried += [_solve_programme(costs, target, each) for each in (free.most, free.most + 1)]
    best: tuple[int, NDArray[np.int32]] | None = None
    for place, each in enumerate(tried):
        if each is None:
            continue
        prices[place] = each.prices
        paid = int(costs[np.arange(parts), each.votes].sum())
        counts = np.bincount(each.votes, minlength=labels)
        if counts.argmax() == target and paid < never and (best is None or paid < best[0]):
            best = paid, each.votes
    least: int | None = _proved_bound(costs, prices, target)
    if least is not None and least >= never:
        least = None
    return ForcedVotes(least, prices, *((None, ballot) if best is None else best))


@dataclass(frozen=True, eq=False)
class _Solved:
    """A programme's prices, value and votes, and the whole votes for the target in it."""

    prices: NDArray[np.int64]
    value: float
    votes: NDArray[np.int32]
    most: int


def _solve_programme(costs: NDArray[np.int64], target: int, votes: int | None) -> _Solved | None:
    """Solve the programme, optionally for fixed target votes; None if infeasible."""
    parts, labels = costs.shape
    others = np.array([label for label in range(labels) if label != target])
    # Its type stubs know neither sparse rows nor that there is a solution.
    equal: Any
    found: Any
    counts = np.zeros((labels, labels))
    counts[others, others] = 1.0
    one_each: Any = kron(eye_array(parts), np.ones((1, labels)))
    below = (others < target).astype(np.float64)
    if votes is None:
        counts[others, target] = -1.0
        equal, sums = csr_array(one_each), np.ones(parts)
    else:
        own = np.tile(np.arange(labels) == target, parts)[None].astype(np.float64)
        equal = vstack([one_each, csr_array(own)])
        sums = np.append(np.ones(parts), float(votes))
    found = linprog(
        costs.ravel().astype(np.float64),
        A_ub=np.tile(counts[others], parts),
        b_ub=(0.0 if votes is None else float(votes)) - below,
        A_eq=equal,
        b_eq=sums,
        method="highs",
    )
    if found.status != 0:
        return None
    prices = np.zeros(labels, np.int64)
    prices[others] = np.rint(np.maximum(-found.ineqlin.marginals, 0.0) * UNIT)
    if votes is None:
        prices[target] = -prices.sum()
    else:
        prices[target] = round(-float(found.eqlin.marginals[-1]) * UNIT)
    shares = found.x.reshape(parts, labels)
    for_target = math.floor(float(shares[:, target].sum()) + 1e-6)
    return _Solved(prices, float(found.fun), shares.argmax(axis=1).astype(np.int32), for_target)


def _wins(
    votes: NDArray[np.int32], labels: int, target: int, costs: NDArray[np.int64], value: float
) -> bool:
    """Return whether votes make the label win at the programme's cost."""
    paid = int(costs[np.arange(len(votes)), votes].sum())
    wins = bool(np.bincount(votes, minlength=labels).argmax() == target)
    return wins and paid <= math.ceil(value - 1e-6)


def _proved_bound(costs: NDArray[np.int64], prices: NDArray[np.int64], target: int) -> int:
    """Return the bound that prices prove for every possible number of target votes."""
    parts, labels = costs.shape
    others = [label for label in range(labels) if label != target]
    votes = np.arange(parts + 1)
    room = votes[:, None] - (np.array(others) < target)
    possible = (room >= 0).all(axis=1) & (votes + room.sum(axis=1) >= parts)
    bounds = [
        int((UNIT * costs + each).min(axis=1).sum()) - room @ each[others] - each[target] * votes
        for each in prices
    ]
    best = np.max(bounds, axis=0)[possible]
    # The least of all, rounded up.
    return int(-(-best.min() // UNIT))
