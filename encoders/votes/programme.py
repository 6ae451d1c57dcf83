"""Attacks on votes as a programme: of a stake, the most points lost or the fewest choices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_array, csr_array

from leaveout.kernel.counting import Counts, Stake, least_costs, root_of, starts
from leaveout.solvers import Problem


def most_lost_problem(stake: Stake, at_least: int = 0) -> Problem:
    """Return the programme whose optimum is the number of points that one attack loses.

    Variables in order: the total, choices, members reached, lost pairs, lost points.
    """
    choices, members, pairs = len(stake.cost), len(stake.gains), len(stake.points)
    owner = np.unique(stake.points, return_inverse=True)[1]
    points = int(owner.max(initial=-1)) + 1
    gains, pair, needs = _demands(stake)
    lost = -_selection(pair, pairs, needs)
    limits, most = _limits(stake)
    rows: list[list[Any]] = [
        [None, limits, None, None, None],
        [None, _reach_matrix(stake), -_identity(members), None, None],
        [None, None, gains, lost, None],
        [None, None, None, _selection(owner, points).T, -_identity(points)],
        [csr_array([[-1.0]]), None, None, None, csr_array(np.ones((1, points)))],
    ]
    matrix = csr_array(block_array(rows, format="csr"))
    lower, upper = np.zeros(matrix.shape[0]), np.full(matrix.shape[0], np.inf)
    lower[: len(most)], upper[: len(most)], upper[-1] = -np.inf, most, 0.0
    columns = matrix.shape[1]
    objective, least, greatest = np.zeros(columns), np.zeros(columns), np.ones(columns)
    objective[0], least[0], greatest[0] = 1.0, at_least, points
    integer = np.zeros(columns, np.bool_)
    integer[1 : 1 + choices] = integer[1 + choices + members : columns - points] = True
    return Problem(objective, matrix, lower, upper, least, greatest, integer, maximise=True)


def fewest_choices_problem(stake: Stake, least: int, most: int) -> Problem:
    """Return the programme of the fewest choices that meet all demands of a stake's one pair."""
    choices, members = len(stake.cost), len(stake.gains)
    rows: list[list[Any]] = [
        [_reach_matrix(stake), -_identity(members)],
        [None, csr_array(stake.gains.T.astype(float))],
        [csr_array(np.ones((1, choices))), None],
    ]
    # Half a choice of slack, so that no tolerance excludes an attack of exactly this size.
    return Problem(
        objective=np.repeat([1.0, 0.0], [choices, members]),
        matrix=csr_array(block_array(rows, format="csr")),
        row_lower=np.concatenate([np.zeros(members), stake.needs, [least - 0.5]]),
        row_upper=np.concatenate([np.full(members + len(stake.needs), np.inf), [most + 0.5]]),
        lower=np.zeros(choices + members),
        upper=np.ones(choices + members),
        integer=np.repeat([True, False], [choices, members]),
    )


def choices_in(stake: Stake, solution: NDArray[np.float64]) -> Counts | None:
    """Return the choices of a programme's solution; None if beyond the quotas."""
    chosen = np.flatnonzero(solution[1 : 1 + len(stake.cost)] > 0.5)
    spent = np.bincount(stake.family[chosen], stake.cost[chosen], len(stake.quotas))
    fits = (spent <= stake.quotas).all() and (np.diff(stake.group[chosen]) > 0).all()
    return chosen if fits else None


def _demands(stake: Stake) -> tuple[csr_array, Counts, Counts]:
    """Return rows of gains of members for demands, their pairs, and what they need.

    Redundant rows tighten the relaxation: of at most c choices, each gaining up to g, enough gain k
    or more; and with costs, what a pair costs.
    """
    top = stake.gains.max(axis=0, initial=0).astype(np.int64)
    most = int(stake.quotas.sum()) * len(stake.offsets)
    rows, pairs, needs = [stake.gains.T.astype(float)], [stake.pairs], [stake.needs]
    for k in range(1, int(top.max(initial=0)) + 1):
        lack = -(-(stake.needs - most * (k - 1)) // np.maximum(top - k + 1, 1))
        told = (lack > 0) & (k <= top)
        rows.append((stake.gains.T[told] >= k).astype(float))
        pairs.append(stake.pairs[told])
        needs.append(lack[told])
    if (stake.cost != 1).any():
        rows.append((stake.gains.T > 0) * stake.cost.astype(float))
        pairs.append(stake.pairs)
        needs.append(least_costs(stake, root_of(stake), stake.gains))
    return csr_array(np.concatenate(rows)), np.concatenate(pairs), np.concatenate(needs)


def _limits(stake: Stake) -> tuple[csr_array, NDArray[np.float64]]:
    """Return the rows of quotas and of groups, and their limits."""
    columns = np.arange(len(stake.cost))
    quotas = csr_array(
        (stake.cost.astype(float), (stake.family, columns)), (len(stake.quotas), len(columns))
    )
    sizes = np.diff(np.append(starts(stake.group), len(stake.group)))
    if (sizes == 1).all():
        return quotas, stake.quotas.astype(float)
    groups = csr_array((np.ones(len(columns)), (np.repeat(np.arange(len(sizes)), sizes), columns)))
    both = csr_array(block_array([[quotas], [groups]], format="csr"))
    return both, np.concatenate([stake.quotas, np.ones(len(sizes))])


def _reach_matrix(stake: Stake) -> csr_array:
    """Return which members each choice reaches, shape (members, choices)."""
    choices, members = len(stake.cost), len(stake.gains)
    if len(stake.offsets) == 1:
        return _identity(choices)
    reach = (np.arange(choices)[:, None] + stake.offsets) % members
    places = reach.ravel(), np.repeat(np.arange(choices), len(stake.offsets))
    return csr_array((np.ones(reach.size), places), shape=(members, choices))


def _selection(places: Counts, width: int, values: Counts | None = None) -> csr_array:
    """Return a row for each place, with one value there."""
    held = np.ones(len(places)) if values is None else values.astype(float)
    return csr_array((held, (np.arange(len(places)), places)), shape=(len(places), width))


def _identity(size: int) -> csr_array:
    return _selection(np.arange(size), size)
