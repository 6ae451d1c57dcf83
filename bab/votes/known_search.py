"""Exact search for the worst attack on members with thresholds: their edits."""

from __future__ import annotations

import numpy as np

from leaveout.bab.votes.collective import SearchResult
from leaveout.bab.votes.known_kernels import explore
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders.votes.known_stakes import KnownStakes

_WORK = 5e6
"""Numbers looked at between two looks at the clock."""

_LARGEST_SEARCH = 2**25
"""Numbers that are kept at most, in all nodes that are open."""


def search(stakes: KnownStakes, deadline: Deadline = NEVER) -> SearchResult:
    """Return the attack that loses the most points, or the best one by the deadline.

    What is spent on a member is decided one member after the other, of most weight first. A branch
    is cut where no more points are lost than by the best attack known: each point has a price y
    from 0 to 1, and the points lost are at most the sum of 1 - y and of y times the shares of the
    points that each member takes, over the best use of the budget that is left, a knapsack. A
    subgradient search looks for prices that make the bound small (Lagrangian relaxation).
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
