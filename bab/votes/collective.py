"""The worst attack on a whole test set: a search, and bounds in case it does not finish.

The bounds come from choices' shares in every point, a MILP, and searches over batches of points.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import block_array, csr_array, eye_array

from leaveout.arrays import Floats
from leaveout.bab.votes.search import root_shares, search, weigh_points
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders.votes.programme import choices_in, most_lost_problem
from leaveout.kernel.counting import WEIGHT, Counts, Stake
from leaveout.solvers import CanSolve, Settings, Status


@dataclass(frozen=True, eq=False)
class Batch:
    """Test points, and the most of them that one attack can lose."""

    points: NDArray[np.int64]  # ascending
    upper: int
    choices: tuple[int, ...] = ()  # attack on them

    @property
    def surviving_points(self) -> int:
        """The number of points that no attack can lose together with the rest."""
        return len(self.points) - self.upper


@dataclass(frozen=True, eq=False)
class Summed:
    """A bound on one attack's loss, as a weighted sum over batches and shares.

    The units' shares of each lost point sum to at least 1. With weights y_j of points and m_b of
    batches, the sum consists of batch bounds, the heaviest units, and 1 - y_j - m_b where positive.
    """

    upper: int  # the weighted sum
    batches: tuple[Batch, ...]  # of disjoint points; a point may be in none
    taken: NDArray[np.uint16]  # shape (batches,): each m_b; `WEIGHT` stands for 1
    counted: NDArray[np.uint16]  # shape (points at stake,): each y_j, in the same units


_FIRST = 8  # points of each initial batch
_SPELL = 0.1  # share of the remaining time for one batch
_BRIEF = 2.0  # least seconds per batch
_IN_VAIN = 8  # successive batches without a saving after which the search stops

_LARGEST_SUM, _LARGEST_PROGRAMME = 2**22, 2**20
"""Shares beyond which no sum is sought, and gains beyond which no MILP is solved."""

_SUM_SECONDS = 20.0  # time limit of the linear programme of a sum

Told = Callable[[str], None]
"""Receives progress messages."""


def in_batches(stake: Stake, deadline: Deadline, tell: Told) -> Iterator[tuple[Batch, ...]]:
    """Yield better and better lists of batches that one attack cannot lose entirely."""
    order = _hardest_first(stake)
    chunks = [np.sort(order[at : at + _FIRST]) for at in range(0, len(order), _FIRST)]
    level = [[Batch(points, len(points))] for points in chunks]
    known, odd = list[Batch](), list[Batch]()
    while level and not deadline.over:
        found, vain = list[Batch](), 0
        for number, parts in enumerate(level):
            stop = deadline.over or vain >= _IN_VAIN
            whole = None if stop else _search_joined(stake, parts, deadline)
            vain = vain + 1 if whole is None else 0
            if whole is not None or len(parts) == 1:
                found.append(whole or parts[0])
            else:
                known += parts
            if stop:
                continue
            later = [part for parts in level[number + 1 :] for part in parts]
            batches = [each for each in (*known, *found, *odd, *later) if each.surviving_points]
            most = len(order) - sum(each.surviving_points for each in batches)
            tell(f"at most {most:,} points, batch {number + 1:,} of {len(level):,}")
            yield tuple(batches)
        found += odd
        odd = found[len(found) // 2 * 2 :]
        level = [found[at : at + 2] for at in range(0, len(found) - 1, 2)]


def _search_joined(stake: Stake, parts: Sequence[Batch], deadline: Deadline) -> Batch | None:
    """Return the batches merged, if a joint attack loses less than separate ones."""
    whole = _join_batches(parts)
    spell = min(deadline.seconds_left, max(_BRIEF, _SPELL * deadline.seconds_left))
    own = stake.of_pairs(np.isin(stake.points, whole.points))
    found = search(own, Deadline.after(spell))
    if found.upper >= whole.upper:
        return None
    return Batch(whole.points, found.upper, found.choices)


def _join_batches(parts: Sequence[Batch]) -> Batch:
    """Return batches merged into one, with the sum of their bounds."""
    return Batch(
        np.sort(np.concatenate([part.points for part in parts])), sum(part.upper for part in parts)
    )


def _hardest_first(stake: Stake) -> Counts:
    """Return points, ascending by the total share of all choices in them."""
    points, shares = root_shares(stake)
    rest = np.setdiff1d(stake.points, points)
    return np.concatenate([points[np.argsort(shares.sum(axis=0), kind="stable")], rest])


def least_sum(stake: Stake, batches: tuple[Batch, ...] = ()) -> Summed | None:
    """Return the smallest sum that bounds the loss; None if too large, or if it fails."""
    points = np.unique(stake.points)
    if not len(points) or stake.gains.size > _LARGEST_SUM:
        return None
    batch_of = np.full(len(points), -1)
    for number, batch in enumerate(batches):
        batch_of[np.searchsorted(points, batch.points)] = number
    uppers = np.array([batch.upper for batch in batches], np.int64)
    open_, whole = root_shares(stake)
    shares = np.zeros((len(stake.cost), len(points)))
    shares[:, np.isin(points, open_)] = whole
    best = _dual(shares, stake, batch_of, uppers)
    if best is None:
        return None
    rounded = np.clip(np.rint(best * WEIGHT), 0, WEIGHT).astype(np.int64)
    counted, taken = rounded[: len(points)], rounded[len(points) :]
    missing = np.maximum(WEIGHT - counted - np.append(taken, 0)[batch_of], 0)
    weighed = weigh_points(stake, counted[np.isin(points, open_)])
    upper = int((missing.sum() + taken @ uppers + weighed) // WEIGHT)
    return Summed(upper, batches, taken.astype(np.uint16), counted.astype(np.uint16))


def _dual(shares: Floats, stake: Stake, batch_of: Counts, uppers: Counts) -> Floats | None:
    """Return the weights of points and batches in the least sum, shape (points + batches,).

    Variables in order: these, the rest of each point, a price per family, and what each group's
    best choice weighs beyond its price.
    """
    (choices, points), quotas = shares.shape, stake.quotas
    inside, groups = np.flatnonzero(batch_of >= 0), int(stake.group[-1]) + 1
    rows = np.arange(choices)
    prices = csr_array((stake.cost, (rows, stake.family)), (choices, len(quotas)))
    beyond = csr_array((np.ones(choices), (rows, stake.group)), (choices, groups))
    of_batch = csr_array((np.ones(len(inside)), (inside, batch_of[inside])), (points, len(uppers)))
    whole, none = eye_array(points, format="csr"), csr_array((choices, len(uppers)))
    rows_of: list[list[Any]] = [
        [csr_array(shares), none, None, -prices, -beyond],
        [-whole, -of_batch, -whole, None, None],
    ]
    others = points + len(quotas) + groups
    solve: Any = linprog  # whose stubs do not know sparse arrays
    done = solve(
        np.concatenate([np.zeros(points), uppers, np.ones(points), quotas, np.ones(groups)]),
        A_ub=csr_array(block_array(rows_of)),
        b_ub=np.append(np.zeros(choices), -np.ones(points)),
        bounds=[(0, 1)] * (points + len(uppers)) + [(0, None)] * others,
        method="highs",
        options={"time_limit": _SUM_SECONDS},
    )
    return None if done.x is None else np.asarray(done.x[: points + len(uppers)])


_SEARCHED = "a search of all attacks"
_SINGLE = "what single points survive"
_SHARES = "shares of the units in every point"
_SOLVED = "the dual bound of a MILP"
_ONE_BATCH = "a separate attack on 1 batch of points"
_BATCHES = "a separate attack on each of {count:,} batches of points"

_SEARCH_SHARE = 0.5
_SEARCH_SECONDS = 30.0
_BATCH_SECONDS = 60.0
"""Seconds for batches of points if there is no limit and no MILP that can finish."""
_TOLERANCE = 1e-4  # tolerance of a bound on a count, beyond the solver's tolerances


@dataclass(frozen=True)
class CollectiveBounds:
    """Bounds on how many points one attack can lose."""

    units: tuple[int, ...]  # of the best attack known, ascending; repeated for several edits
    lost: tuple[int, ...]  # the points it loses
    upper: int  # no attack loses more
    reason: str  # why they differ: starts with ``time`` or ``solver``
    proof: str  # source of the upper bound
    points: NDArray[np.int64]  # at stake
    summed: Summed | None = None
    work: float = math.inf  # numbers that a finished search processed
    interrupted: bool = False  # whether Ctrl-C ended it; the bounds are those known by then

    @property
    def lower(self) -> int:
        """Points lost by the best attack known."""
        return len(self.lost)


def worst_attack(
    stake: Stake,
    solver: CanSolve,
    deadline: Deadline = NEVER,
    tell: Told = lambda words: None,
) -> CollectiveBounds:
    """Return bounds of the loss from one attack on all points; exact if time suffices.

    Ctrl-C ends it at once, like a deadline.
    """
    tell(f"at most {stake.count:,} points, searching all attacks")
    left = deadline.limit
    spell = _SEARCH_SECONDS if left is None else _SEARCH_SHARE * left
    known = _Known(stake)
    try:
        known.search(Deadline.after(spell))
        if not known.is_exact:
            known.add_up(())
        if not known.is_exact:
            known.solve(solver, deadline, tell)
        if not known.is_exact and not deadline.over:
            left = deadline.limit
            known.divide(_BATCH_SECONDS if left is None else left, tell)
    except KeyboardInterrupt:
        known.interrupt()
    return known.bounds


class _Known:
    """The best known bounds of an attack."""

    def __init__(self, stake: Stake) -> None:
        self._stake, self._points = stake, np.unique(stake.points)
        self._choices: tuple[int, ...] = ()
        self._lost, self._upper = 0, len(self._points)
        self._summed: Summed | None = None
        self._proof, self._reason = _SINGLE, ""
        self._summing, self._work = 0.0, math.inf
        self._interrupted = False

    @property
    def is_exact(self) -> bool:
        return self._upper <= self._lost

    @property
    def bounds(self) -> CollectiveBounds:
        choices = np.array(self._choices, np.int64)
        lost = tuple(self._stake.lost_points(choices).tolist())
        units = np.repeat(self._stake.group[choices], self._stake.cost[choices])
        upper = max(self._upper, len(lost))
        reason = self._reason if upper > len(lost) else ""
        return CollectiveBounds(
            tuple(units.tolist()), lost, upper, reason, self._proof, self._points, self._summed,
            self._work, self._interrupted,
        )  # fmt: skip

    def search(self, deadline: Deadline) -> None:
        found = search(self._stake, deadline)
        self._choices, self._lost, self._upper = found.choices, found.lost, found.upper
        if self.is_exact:
            self._proof, self._work = _SEARCHED, found.work
        self._reason = "time: the search of all attacks did not finish"

    def interrupt(self) -> None:
        """Record an interruption by Ctrl-C; if no bound is known yet, compute a quick sum."""
        self._interrupted, self._reason = True, "time: interrupted"
        if self._summed is None and self._proof == _SINGLE:
            self.add_up(())

    def add_up(self, batches: tuple[Batch, ...]) -> None:
        """Bound the loss by a sum over batches, and over shares if these are known."""
        points = self._points
        saved = sum(batch.surviving_points for batch in batches)
        taken, counted = np.full(len(batches), WEIGHT), np.zeros(len(points))
        alone = Summed(
            len(points) - saved, batches, taken.astype(np.uint16), counted.astype(np.uint16)
        )
        started = time.perf_counter()
        with_shares = least_sum(self._stake, batches)
        self._summing = time.perf_counter() - started
        found = with_shares or alone
        if found.upper < self._upper:
            apart = (_ONE_BATCH if len(batches) == 1 else _BATCHES).format(count=len(batches))
            terms = [_SHARES] * (with_shares is not None) + [apart] * (len(batches) > 0)
            self._upper, self._summed, self._proof = found.upper, found, ", and ".join(terms)

    def solve(self, solver: CanSolve, deadline: Deadline, tell: Told) -> None:
        """Run a solver, for half of the remaining time if that is limited."""
        left = deadline.limit
        if np.count_nonzero(self._stake.gains) > _LARGEST_PROGRAMME:
            self._reason += ", and the MILP is too large"
            return
        try:
            programme = most_lost_problem(self._stake, self._lost)
        except MemoryError:
            self._reason += ", and the MILP does not fit in memory"
            return
        if left == 0.0:
            return
        tell(f"at most {self._upper:,} points, solving a MILP")
        limit = None if left is None else _SEARCH_SHARE * left
        outcome = solver.solve(programme, Settings(time_limit=limit))
        if outcome.status is Status.FAILED:
            self._reason = f"solver: {outcome.message or 'it failed'}"
        elif math.isfinite(outcome.dual_bound):
            dual = math.floor(outcome.dual_bound + _TOLERANCE)
            if dual < self._upper:
                self._upper, self._proof, self._summed = dual, _SOLVED, None
        if outcome.solution is not None:
            choices = choices_in(self._stake, outcome.solution.point)
            if choices is not None:
                self._try(tuple(choices.tolist()))

    def divide(self, seconds: float, tell: Told) -> None:
        """Search batches of points instead."""
        # Combining the results takes time, too, and more of it with batches.
        deadline = Deadline.after(max(0.0, seconds - 2 * self._summing))
        batches: tuple[Batch, ...] = ()
        try:
            for found in in_batches(self._stake, deadline, tell):
                batches = found
        finally:
            if batches:
                self.add_up(batches)
            for batch in batches:
                self._try(batch.choices)

    def _try(self, choices: tuple[int, ...]) -> None:
        """Keep an attack if it loses more points than the best one."""
        lost = len(self._stake.lost_points(np.array(choices, np.int64)))
        if lost > self._lost:
            self._choices, self._lost = choices, lost
