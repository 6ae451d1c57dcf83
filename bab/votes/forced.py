"""The cheapest votes of members with thresholds that make a label win, and prices that prove it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, kron, vstack

from leaveout.kernel.ballots import NEVER
from leaveout.kernel.counting import FAR
from leaveout.kernel.schemes import PRICE, forcing_cost

PRICES = 3
"""Lists of prices per point: for a free number of target votes, and for the two next to it."""

_MOST = 2**62  # limit of costs in units of 1 / PRICE; beyond it, no bound is computed


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
    if parts * never * PRICE >= _MOST:
        return ForcedVotes(0, prices, None, ballot)
    costs = np.where(finite == NEVER, never, finite)
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
    least: int | None = forcing_cost(finite, target, prices)
    if least is not None and least > FAR:
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
    prices[others] = np.rint(np.maximum(-found.ineqlin.marginals, 0.0) * PRICE)
    if votes is None:
        prices[target] = -prices.sum()
    else:
        prices[target] = round(-float(found.eqlin.marginals[-1]) * PRICE)
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
