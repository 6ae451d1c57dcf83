"""The worst collective attack: a search, and bounds in case it does not finish.

The bounds come from the units' shares in every point, a MILP, and searches over batches of points.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective import COUNTED, Batch, CollectiveProblem, Shared, Summed
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders.votes.collective import CollectiveAttack
from leaveout.solvers import CanSolve, Settings, Status

_FIRST = 16
"""Points of each initial batch."""

_SPELL = 0.05
"""Share of the remaining time for one batch."""

_BRIEF = 1.0
"""Least seconds per batch."""

_IN_VAIN = 8
"""Successive batches without a saving after which the search stops."""

Told = Callable[[str], None]
"""Receives progress messages."""


def in_batches(
    problem: CollectiveProblem, deadline: Deadline, tell: Told
) -> Iterator[tuple[Batch, ...]]:
    """Yield better and better lists of batches that one attack cannot lose entirely."""
    order = problem.hardest_first() if isinstance(problem, Shared) else problem.points
    starts = range(0, len(order), _FIRST)
    known, growing = list[Batch](), list[tuple[int, Batch]]()
    vain = 0
    for number, start in enumerate(starts):
        if deadline.over or vain == _IN_VAIN:
            break
        points = np.sort(order[start : start + _FIRST])
        found = _search_joined(problem, [Batch(points, len(points))], deadline)
        vain = 0 if found is not None else vain + 1
        joins = 0
        while found is not None:
            growing.append((joins, found))
            if len(growing) < 2 or growing[-2][0] != joins:
                break
            parts = [growing.pop(-2)[1], growing.pop()[1]]
            found = _search_joined(problem, parts, deadline)
            joins += 1
            known += parts if found is None else []
        saved = sum(batch.surviving_points for batch in (*known, *(each for _, each in growing)))
        tell(f"at most {len(order) - saved:,} points, batch {number + 1:,} of {len(starts):,}")
        yield (*known, *(batch for _, batch in growing))


def _search_joined(
    problem: CollectiveProblem, parts: Sequence[Batch], deadline: Deadline
) -> Batch | None:
    """Return the batches merged, if a joint attack loses less than separate ones."""
    whole = _join_batches(parts)
    spell = min(deadline.seconds_left, max(_BRIEF, _SPELL * deadline.seconds_left))
    found = problem.only(whole.points).search(Deadline.after(spell))
    if found.upper >= whole.upper:
        return None
    return Batch(whole.points, found.upper, found.units)


def _join_batches(parts: Sequence[Batch]) -> Batch:
    """Return batches merged into one, with the sum of their bounds."""
    return Batch(
        np.sort(np.concatenate([part.points for part in parts])), sum(part.upper for part in parts)
    )


_SEARCHED = "a search of all attacks"
_SINGLE = "what single points survive"
_SHARES = "shares of the units in every point"
_SOLVED = "the dual bound of a MILP"
_BATCHES = "a separate attack on each of {count:,} batches of points"
_BOTH = "shares of the units in every point, and a separate attack on each of {count:,} batches"

_SEARCH_SHARE = 0.5
_SEARCH_SECONDS = 30.0
_BATCH_SECONDS = 60.0
"""Seconds for batches of points if there is no limit and no MILP that can finish."""
_TOLERANCE = 1e-4
"""Tolerance of a bound on a count, beyond the solver's tolerances."""


@dataclass(frozen=True)
class CollectiveBounds:
    """Bounds on how many points one attack can lose."""

    attack: CollectiveAttack  # best attack known; it loses ``lower`` points
    upper: int  # no attack loses more
    reason: str  # why they differ: starts with ``time`` or ``solver``
    proof: str  # source of the upper bound
    points: NDArray[np.int64]  # at stake
    summed: Summed | None = None
    interrupted: bool = False  # whether Ctrl-C ended it; the bounds are those known by then

    @property
    def lower(self) -> int:
        """Points lost by the best attack known."""
        return len(self.attack.lost)

    @property
    def is_searched(self) -> bool:
        """Whether all attacks were enumerated, rather than bounded by a solver."""
        return self.proof == _SEARCHED


def worst_attack(
    problem: CollectiveProblem,
    solver: CanSolve,
    deadline: Deadline = NEVER,
    tell: Told = lambda words: None,
) -> CollectiveBounds:
    """Return bounds of the loss from one attack on all points; exact if time suffices.

    Ctrl-C ends it at once, like a deadline.
    """
    tell(f"at most {len(problem.points):,} points, searching all attacks")
    left = deadline.limit
    spell = _SEARCH_SECONDS if left is None else _SEARCH_SHARE * left
    known = _Known(problem)
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

    def __init__(self, problem: CollectiveProblem) -> None:
        self._problem = problem
        self._units: tuple[int, ...] = ()
        self._lost, self._upper = 0, len(problem.points)
        self._summed: Summed | None = None
        self._proof, self._reason = _SINGLE, ""
        self._summing = 0.0
        self._interrupted = False

    @property
    def is_exact(self) -> bool:
        """Whether the bounds agree."""
        return self._upper <= self._lost

    @property
    def bounds(self) -> CollectiveBounds:
        """The known bounds."""
        attack = CollectiveAttack(self._units, self._problem.lost_to(self._units))
        upper = max(self._upper, len(attack.lost))
        reason = self._reason if upper > len(attack.lost) else ""
        return CollectiveBounds(
            attack,
            upper,
            reason,
            self._proof,
            self._problem.points,
            self._summed,
            self._interrupted,
        )

    def search(self, deadline: Deadline) -> None:
        """Search all attacks."""
        found = self._problem.search(deadline)
        self._units, self._lost, self._upper = found.units, found.lost, found.upper
        if self.is_exact:
            self._proof = _SEARCHED
        self._reason = "time: the search of all attacks did not finish"

    def interrupt(self) -> None:
        """Record an interruption by Ctrl-C; if no bound is known yet, compute a quick sum."""
        self._interrupted, self._reason = True, "time: interrupted"
        if self._summed is None and self._proof == _SINGLE:
            self.add_up(())

    def add_up(self, batches: tuple[Batch, ...]) -> None:
        """Bound the loss by a sum over batches, and over shares if these are known."""
        points = self._problem.points
        saved, proof = sum(batch.surviving_points for batch in batches), _BATCHES
        taken, counted = np.full(len(batches), COUNTED), np.zeros(len(points))
        found: Summed | None = Summed(
            len(points) - saved, batches, taken.astype(np.uint16), counted.astype(np.uint16)
        )
        if isinstance(self._problem, Shared):
            started = time.perf_counter()
            found, proof = self._problem.least_sum(batches) or found, _BOTH if batches else _SHARES
            self._summing = time.perf_counter() - started
        if found is not None and found.upper < self._upper:
            self._upper, self._summed = found.upper, found
            self._proof = proof.format(count=len(batches))

    def solve(self, solver: CanSolve, deadline: Deadline, tell: Told) -> None:
        """Run a solver, for half of the remaining time if that is limited."""
        left = deadline.limit
        try:
            programme = self._problem.programme(self._lost)
        except MemoryError:
            self._reason += ", and the MILP does not fit in memory"
            return
        if programme is None:
            self._reason += ", and the MILP is too large"
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
            units = self._problem.attack_in(outcome.solution.point)
            if units is not None:
                self._try(units)

    def divide(self, seconds: float, tell: Told) -> None:
        """Search batches of points instead."""
        # Combining the results takes time, too, and more of it with batches.
        deadline = Deadline.after(max(0.0, seconds - 2 * self._summing))
        batches: tuple[Batch, ...] = ()
        try:
            for found in in_batches(self._problem, deadline, tell):
                batches = found
        finally:
            if batches:
                self.add_up(batches)
            for batch in batches:
                self._try(batch.units)

    def _try(self, units: tuple[int, ...]) -> None:
        """Keep an attack if it loses more points than the best one."""
        lost = len(self._problem.lost_to(units))
        if lost > self._lost:
            self._units, self._lost = units, lost
