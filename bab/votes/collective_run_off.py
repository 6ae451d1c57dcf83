"""One attack on all answers of a run-off, with disjoint or spread parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective import SearchResult
from leaveout.compiling import cached_njit
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders.votes.run_off_stakes import RunOffStakes, run_off_collective_problem
from leaveout.solvers import Problem

_SLACK = 1e-6
"""Added to sums of quotients before rounding down."""


class Facts(NamedTuple):
    """Constant data of a search; see `leaveout.encoders.votes.run_off_stakes.RunOffStakes`."""

    reach: NDArray[np.int64]  # shape (units, members reached by a unit)
    gains: NDArray[np.int8]  # shape (members, demands)
    needs: NDArray[np.int32]  # shape (demands,)
    tops: NDArray[np.int32]  # shape (demands,): largest gain of one unit
    starts: NDArray[np.int64]  # shape (pairs + 1,)
    owner: NDArray[np.int64]  # shape (pairs,): ascending; the test point of each pair


class State(NamedTuple):
    """Data that changes between attacks."""

    covered: NDArray[np.int64]  # shape (members,): number of poisoned units that reach each member
    sums: NDArray[np.int32]  # shape (demands,): total gain of the freed members
    active: NDArray[np.int64]  # shape (pairs,)
    keys: NDArray[np.int64]  # shape (pairs,)


@cached_njit(nogil=True)
def add(facts: Facts, state: State, unit: int, sign: int) -> None:
    """Poison a unit, or undo this."""
    sums = state.sums
    for member in facts.reach[unit]:
        before = state.covered[member]
        state.covered[member] = before + sign
        if min(before, before + sign) == 0:
            own = facts.gains[member]
            if sign > 0:
                for row in range(len(sums)):
                    sums[row] += own[row]
            else:
                for row in range(len(sums)):
                    sums[row] -= own[row]


@cached_njit(nogil=True)
def _open(facts: Facts, state: State, left: int) -> tuple[int, int]:
    """Count lost points; list the other points' pairs that ``left`` more units could decide."""
    sums, needs, tops = state.sums, facts.needs, facts.tops
    lost, count, pair = 0, 0, 0
    pairs = len(facts.owner)
    while pair < pairs:
        done, mark, point = False, count, facts.owner[pair]
        while pair < pairs and facts.owner[pair] == point:
            key, worst, fits = -1, 0.0, not done
            if fits:
                for row in range(facts.starts[pair], facts.starts[pair + 1]):
                    short = needs[row] - sums[row]
                    if short > 0:
                        if short > tops[row] * left:
                            fits = False
                            break
                        ratio = short / tops[row]
                        if ratio > worst:
                            key, worst = row, ratio
            if fits:
                if key < 0:
                    done = True
                else:
                    state.active[count], state.keys[count] = pair, key
                    count += 1
            pair += 1
        if done:
            lost += 1
            count = mark
    return lost, count


@cached_njit(nogil=True)
def lost_now(facts: Facts, state: State) -> int:
    """Count the lost points."""
    return int(_open(facts, state, 0)[0])


@cached_njit(nogil=True)
def _extra_gain(facts: Facts, state: State, unit: int, row: int) -> int:
    """Return one more unit's gain for a demand."""
    total = 0
    for member in facts.reach[unit]:
        if state.covered[member] == 0:
            total += facts.gains[member, row]
    return total


@cached_njit(nogil=True)
def _losses(facts: Facts, state: State, unit: int, count: int) -> int:
    """Count the additional points that one unit loses."""
    lost, last = 0, -1
    for at in range(count):
        pair = state.active[at]
        if facts.owner[pair] == last:
            continue
        met = True
        for row in range(facts.starts[pair], facts.starts[pair + 1]):
            short = facts.needs[row] - state.sums[row]
            if short > 0 and _extra_gain(facts, state, unit, row) < short:
                met = False
                break
        if met:
            lost += 1
            last = facts.owner[pair]
    return lost


@cached_njit(nogil=True)
def _bound(facts: Facts, state: State, position: int, left: int, count: int) -> int:
    """Bound the additional points lost to ``left`` units from a position on.

    A lost point meets the key demand of a pair, so the shares in it, gains divided by the shortfall
    and clipped at 1, sum to at least 1.
    """
    points, last = 0, -1
    for at in range(count):
        owner = facts.owner[state.active[at]]
        if owner != last:
            points += 1
            last = owner
    top = np.zeros(left)
    for unit in range(position, len(facts.reach)):
        weight, share, last = 0.0, 0.0, -1
        for at in range(count):
            owner, key = facts.owner[state.active[at]], state.keys[at]
            if owner != last:
                weight += share
                share = 0.0
                last = owner
            short = facts.needs[key] - state.sums[key]
            share = max(share, min(1.0, _extra_gain(facts, state, unit, key) / short))
        weight += share
        low = top.argmin()
        if weight > top[low]:
            top[low] = weight
    return min(points, int(np.floor(top.sum() + _SLACK)))


@cached_njit(nogil=True)
def explore(
    facts: Facts,
    state: State,
    chosen: NDArray[np.int64],
    following: NDArray[np.int64],
    best_units: NDArray[np.int64],
    depth: int,
    fresh: bool,
    best: int,
    steps: int,
) -> tuple[int, bool, int]:
    """Continue a search for some steps; return the depth (0 at its end), freshness and best.

    ``chosen[:depth]`` is poisoned; at each depth, the units from ``following[depth]`` on are still
    to be tried. A node is fresh until its loss is counted. ``best_units`` is the best attack.
    """
    units, budget = len(facts.reach), len(chosen)
    while depth >= 1 and steps > 0:
        steps -= 1
        left = budget - depth
        if fresh:
            fresh = False
            lost, count = _open(facts, state, left)
            if lost > best:
                best = lost
                best_units[:] = -1
                best_units[:depth] = chosen[:depth]
            if left == 0:
                following[depth] = units
            elif left == 1:
                for unit in range(following[depth], units):
                    more = _losses(facts, state, unit, count)
                    if lost + more > best:
                        best = lost + more
                        best_units[:depth] = chosen[:depth]
                        best_units[depth] = unit
                following[depth] = units
            elif lost + _bound(facts, state, following[depth], left, count) <= best:
                following[depth] = units
        if following[depth] < units:
            unit = following[depth]
            following[depth] += 1
            chosen[depth] = unit
            add(facts, state, unit, 1)
            depth += 1
            if depth < budget:
                following[depth] = unit + 1
            fresh = True
            continue
        depth -= 1
        add(facts, state, chosen[depth], -1)
        chosen[depth] = -1
    return depth, fresh, best


@cached_njit(nogil=True)
def heaviest(facts: Facts, state: State, taken: NDArray[np.bool_]) -> int:
    """Return the unit not yet taken that brings the remaining points closest to being lost."""
    _, count = _open(facts, state, len(facts.reach))
    top, top_value = -1, -1.0
    for unit in range(len(facts.reach)):
        if taken[unit]:
            continue
        value, nearest, last = 0.0, 0.0, -1
        for at in range(count):
            pair = state.active[at]
            if facts.owner[pair] != last:
                value += nearest * nearest
                nearest = 0.0
                last = facts.owner[pair]
            near = 1.0
            for row in range(facts.starts[pair], facts.starts[pair + 1]):
                held = state.sums[row] + _extra_gain(facts, state, unit, row)
                near = min(near, held / facts.needs[row])
            nearest = max(nearest, near)
        value += nearest * nearest
        if value > top_value:
            top, top_value = unit, value
    return top


@cached_njit(nogil=True)
def bound_from(facts: Facts, state: State, budget: int, first: int) -> int:
    """Bound the points lost to units from ``first`` on; no unit may be poisoned yet."""
    lost, count = _open(facts, state, budget)
    return int(lost + _bound(facts, state, first, budget, count))


_LARGEST = 2**20
"""Nonzero gains beyond which only the search is used."""

_WORK = 2**21
"""Approximate number of gains processed between checks of the clock."""


@dataclass(frozen=True, eq=False)
class RunOffProblem:
    """See `leaveout.bab.votes.collective.CollectiveProblem`."""

    stakes: RunOffStakes

    @property
    def points(self) -> NDArray[np.int64]:
        """Test points that some attack can make lost."""
        return np.unique(self.stakes.points)

    def only(self, points: NDArray[np.int64]) -> RunOffProblem:
        """Return the problem for only some of the test points."""
        return RunOffProblem(self.stakes.only(points))

    def search(self, deadline: Deadline = NEVER) -> SearchResult:
        """Return the attack that loses the most points, or the best one by the deadline.

        Units are sorted by weight; all subsets with the same first unit form a task. A branch is
        cut if even fractions of the points lose no more than the best attack known; for every pair,
        only the demand that is furthest from being met is used.
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
                upper = int(bound_from(facts, _state(facts), stakes.budget, first))
                break
        units = tuple(sorted(int(order[unit]) for unit in best_units if unit >= 0))
        return SearchResult(units, best, max(best, upper))

    def programme(self, at_least: int) -> Problem | None:
        """Return a MILP whose optimum is the number of points that one attack can lose."""
        if np.count_nonzero(self.stakes.gains) > _LARGEST:
            return None
        return run_off_collective_problem(self.stakes, at_least)

    def attack_in(self, solution: NDArray[np.float64]) -> tuple[int, ...] | None:
        """Return the attack for a solution of the programme."""
        poisoned = solution[1 : 1 + self.stakes.units] > 0.5
        units = tuple(np.flatnonzero(poisoned).tolist())
        return units if len(units) <= self.stakes.budget else None

    def lost_to(self, units: tuple[int, ...]) -> tuple[int, ...]:
        """Return the points lost to an attack."""
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
    """Return the state with no unit poisoned."""
    pairs = len(facts.owner)
    return State(
        np.zeros(len(facts.gains), np.int64),
        np.zeros(len(facts.needs), np.int32),
        np.zeros(pairs, np.int64),
        np.zeros(pairs, np.int64),
    )


def _greedy(facts: Facts, budget: int, deadline: Deadline) -> tuple[NDArray[np.int64], int]:
    """Repeatedly poison the unit that counts most; -1 means none."""
    state = _state(facts)
    taken = np.zeros(len(facts.reach), dtype=np.bool_)
    chosen = np.full(budget, -1, np.int64)
    for step in range(budget):
        if deadline.over:
            break
        unit = int(heaviest(facts, state, taken))
        chosen[step], taken[unit] = unit, True
        add(facts, state, unit, 1)
    return chosen, int(lost_now(facts, state))


def _task(
    facts: Facts, first: int, best_units: NDArray[np.int64], best: int, deadline: Deadline
) -> tuple[int, bool]:
    """Search the subsets with a given first unit; return the best loss, and if it is complete."""
    state, budget = _state(facts), len(best_units)
    chosen = np.full(budget, -1, np.int64)
    following = np.full(budget + 1, first + 1, np.int64)
    chosen[0] = first
    add(facts, state, first, 1)
    steps = max(1, _WORK // max(1, facts.reach.size * len(facts.owner)))
    depth, fresh = 1, True
    while depth:
        if deadline.over:
            return best, False
        depth, fresh, best = explore(
            facts, state, chosen, following, best_units, depth, fresh, best, steps
        )
    return best, True
