"""An exact search for the worst collective attack: subsets of units, with bounds."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective import SearchResult
from leaveout.bab.votes.collective_counters import counters_of
from leaveout.bab.votes.collective_kernels import (
    add,
    bound_from,
    explore,
    heaviest,
    open_pairs,
)
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders.votes.collective import Stakes

_STEPS = 200
"""Nodes between two looks at the clock."""

_BRIEF = 2.0
"""Seconds of the search by bounds, before every attack is tried where there are not too many."""

_MOST_WORDS = 2e10
"""Of trying every attack."""

_Facts: TypeAlias = tuple[
    NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]
]
"""Reach and family of units, gains, needs, owner of each pair: its point, counted from 0."""


def search(stakes: Stakes, deadline: Deadline = NEVER) -> SearchResult:
    """Return the attack that loses the most points, or the best one by the deadline.

    Units are taken in order of weight; the subsets that begin with a unit are one task. A task is
    skipped, and a branch of it cut, where even a fractional attack loses no more than the best
    known: every lost point costs at least 1 in shares ``gain / need`` of the units poisoned. Where
    that takes long, and there are not too many, every attack is tried instead.
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
    """Poison, again and again, the unit that counts most; -1 stands for none."""
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
    """Search the subsets that begin with a unit; return the best loss, and whether all were."""
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
