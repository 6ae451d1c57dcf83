"""Bound of one attack's loss by unit shares of points, from a linear programme.

The best weights are the dual of a linear relaxation, to which what batches lose at most may be
added. They are rounded to whole 256ths, and what they prove is added up in whole numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective import COUNTED, Batch, Summed
from leaveout.encoders.votes.collective import Stakes

Wide = NDArray[np.int64]
Floats = NDArray[np.float64]

_WHOLE = 2**22
"""A point, in which shares are counted."""

_LARGEST_PROGRAMME = 2**22
"""Shares beyond which no programme is solved."""

_MOST_GAINS = 2**24
"""Gains of units for pairs beyond which shares are not computed: they would fill memory."""

_SECONDS = 20.0
"""For the programme."""


def hardest_first(stakes: Stakes) -> Wide:
    """Return points, ascending in the shares that all units have in them together."""
    points = np.unique(stakes.points)
    if not len(points):
        return points
    if stakes.units * len(stakes.needs) > _MOST_GAINS:
        needs = np.minimum.reduceat(stakes.needs, _starts(stakes.points))
        return np.asarray(points[np.argsort(-needs, kind="stable")])
    return np.asarray(points[np.argsort(_shares(stakes).sum(axis=0), kind="stable")])


def least_sum(stakes: Stakes, batches: tuple[Batch, ...] = ()) -> Summed | None:
    """Return the least sum that bounds the loss; None if too large, or if it fails."""
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
    """Return how far points and batches count in the least sum, shape (points + batches,).

    Variables in order: these, what is missing of each point, a price a family, and what a unit
    weighs beyond it.
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
    solve: Any = linprog  # stubs of which know no sparse arrays
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
    """Return what each unit takes of each point, rounded up, shape (units, points).

    Of a pair these are its gains divided by the need. Where units gain at most 2, at least half of
    the need, rounded up, gain at all, and at least the need less the units poisoned gain 2; of the
    three ways to say it that with the least sum is taken. Of several pairs a unit takes the most.
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
    """Return where the pairs of each point begin."""
    return np.flatnonzero(np.append(True, points[1:] != points[:-1]))
