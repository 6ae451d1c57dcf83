"""The fewest choices that change one answer: bounds by trees, programmes and attacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.search import search
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders.votes.programme import fewest_choices_problem
from leaveout.kernel.counting import Counts, Stake
from leaveout.solvers import CanSolve, Problem, Settings, Status

PADDING = 1e-3
"""Largest excess of a dual bound over the optimum.

The data are whole numbers, so attacks satisfy every row exactly and no tolerance excludes them: the
bound is wrong only by the solver's arithmetic, far less than this. A larger margin would cost
nothing, because the optimum is also a whole number.
"""

_WORK = 2e7  # most work of a tree for one pair of labels, before a programme


def least_whole(
    problem: Problem, solver: CanSolve, seconds: float | None
) -> tuple[float, NDArray[np.float64] | None]:
    """Minimise a programme whose optimum is a whole number."""
    if seconds is not None and seconds <= 0:
        return -math.inf, None
    outcome = solver.solve(problem, Settings(time_limit=seconds))
    point = None if outcome.solution is None else outcome.solution.point
    if outcome.status is Status.INFEASIBLE:
        return math.inf, None
    bound = outcome.dual_bound
    return (float(math.ceil(bound - PADDING)) if math.isfinite(bound) else -math.inf), point


@dataclass(eq=False)
class Fewest:
    """Bounds of the choices that change one answer, which only tighten.

    ``stake_at`` says what an attack of so many choices demands.
    """

    stake_at: Callable[[int], Stake]
    lower: int  # choices that change nothing
    choices: Counts  # of the smallest attack known

    @property
    def upper(self) -> int:
        """The most choices that may change nothing."""
        return len(self.choices) - 1

    def is_settled(self, need: int | None) -> bool:
        """Return whether the bounds agree, or decide whether ``need`` choices change nothing."""
        decided = need is not None and (self.lower >= need or self.upper < need)
        return decided or self.lower >= self.upper

    def search(self, need: int | None, deadline: Deadline = NEVER) -> None:
        """Try greedy attacks, and trees of a few nodes."""
        while not self.is_settled(need) and not deadline.over:
            edits = self.lower + 1 if need is None else need
            pairs = list(_pairs_of(self.stake_at(edits)))
            if self._try_greedily(pairs, edits):
                continue
            for own in pairs:
                found = search(own, deadline, _WORK)
                if found.lost:
                    self.choices = np.array(found.choices, np.int64)
                    break
                if found.upper:
                    self._try_greedily(list(_pairs_of(self.stake_at(self.upper))), self.upper)
                    return
            else:
                self.lower = edits

    def _try_greedily(self, pairs: list[Stake], most: int) -> bool:
        """Keep a greedy attack of at most so many choices; return whether there is one."""
        for own in pairs:
            found = _try_greedily(own, most)
            if found is not None:
                self.choices = found
                return True
        return False

    def solve(self, need: int | None, solver: CanSolve, deadline: Deadline) -> None:
        """Tighten the bounds by a programme for each pair of labels that may do with fewer."""
        if self.is_settled(need):
            return
        least, pairs = self.upper + 1, list(_pairs_of(self.stake_at(self.upper)))
        for order, own in enumerate(pairs):
            most = self.upper if need is None else min(self.upper, need)
            if most <= self.lower:
                break
            problem = fewest_choices_problem(own, self.lower + 1, most)
            known, point = least_whole(problem, solver, deadline.share(len(pairs) - order))
            if point is not None:
                chosen = np.flatnonzero(point[: len(own.cost)] > 0.5)
                if len(chosen) <= self.upper and len(own.lost_points(chosen)):
                    self.choices = chosen
            least = min(least, int(min(max(known, self.lower + 1), most + 1)))
        self.lower = max(self.lower, min(least - 1, self.upper))


def _pairs_of(stake: Stake) -> Iterator[Stake]:
    """Yield the stake of each pair of labels, the least needs first."""
    most = np.zeros(len(stake.points), np.int64)
    np.maximum.at(most, stake.pairs, stake.needs)
    for pair in np.argsort(most, kind="stable").tolist():
        yield stake.of_pairs(np.arange(len(stake.points)) == pair)


def _try_greedily(stake: Stake, most: int) -> Counts | None:
    """Make choices until all demands of the one pair are met; None if more than ``most`` are."""
    gains, short = stake.gains.astype(np.int64), stake.needs.astype(np.int64)
    chosen = list[int]()
    while (short > 0).any():
        if len(chosen) >= most:
            return None
        alone = stake.alone(gains)
        open_ = short > 0
        shares = np.minimum(alone[:, open_], short[open_]) / short[open_]
        choice = int(shares.sum(axis=1).argmax())
        if not shares[choice].any():
            return None
        chosen.append(choice)
        short = short - alone[choice]
        gains[stake.members_of(choice)] = 0
    return np.array(sorted(chosen), np.int64)


def attack_on(stake: Stake, deadline: Deadline = NEVER) -> Counts | None:
    """Return choices that lose a stake's one point; None if none are found in time."""
    alike = len(stake.quotas) == 1 and bool((stake.cost == 1).all())
    for own in _pairs_of(stake) if alike else ():
        greedy = _try_greedily(own, int(stake.quotas[0]))
        if greedy is not None:
            return greedy
    for own in _pairs_of(stake):
        found = search(own, deadline)
        if found.lost:
            return np.array(found.choices, np.int64)
    return None
