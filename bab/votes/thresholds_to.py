"""Cheapest votes of members with thresholds that make one label win, with a proof.

Every member votes one label, at the cost of its threshold, and each other label must have fewer
votes than the target (as many, if a tie goes to the target). For a fixed number T of votes for the
target that is a transportation problem, whose linear programme has a solution in whole numbers, and
its value is a convex function of T. So the programme with T free is solved first; where its T is
no whole number, the two beside it are what is left.

Prices y of votes, those of the other labels not negative, prove that with T votes for the target
the cost is at least

    sum_i min_v (b_iv + y_v) - sum over other labels c of y_c (T - [c < target]) - y_target T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, kron, vstack

from leaveout.models.ballots import UNREACHABLE

UNIT = 2**20
"""Prices are whole multiples of one over this."""

PRICES = 3
"""Lists of prices a point: with T free, and beside it."""

_MOST = 2**62
"""What bounds in ``UNIT``-ths stay below; dearer members are left alone."""


@dataclass(frozen=True, eq=False)
class ForcedVotes:
    """The cost of making a label win at one point."""

    least: int | None  # no votes that do so cost less; None where no number of edits suffices
    prices: NDArray[np.int64]  # shape (PRICES, labels)
    cost: int | None  # of the votes found; None where there are none
    votes: NDArray[np.int32]  # shape (parts,)


def thresholds_to(
    ballot: NDArray[np.int32], thresholds: NDArray[np.int32], target: int
) -> ForcedVotes:
    """Return the cheapest votes that make a label win at one point, and prices that prove it."""
    parts, labels = thresholds.shape
    finite = thresholds.astype(np.int64)
    # Dearer than all that can be paid, so whatever needs such a vote is known by its cost.
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
    # Its types know nothing of sparse rows, nor that there is a solution.
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
    """Return what prices prove for every feasible number of target votes."""
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
