"""The worst collective attack: a search, and a MILP for what it leaves open."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from leaveout.bab.votes.collective_search import search
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders.votes.collective import CollectiveAttack, Stakes
from leaveout.encoders.votes.collective_problem import collective_problem
from leaveout.solvers import CanSolve, Settings, Status

__all__ = ["CollectiveBounds", "worst_attack"]

_SEARCHED = "a search of all attacks"

_SEARCH_SHARE = 0.5
_SEARCH_SECONDS = 30.0
_TOLERANCE = 1e-4
"""Of a bound on a count, beyond the solver's own tolerances."""
_LARGEST = 2**20
"""Gains that are not 0 beyond which the search alone has to do."""


@dataclass(frozen=True)
class CollectiveBounds:
    """How many points one attack can lose.

    Attributes
    ----------
    attack : CollectiveAttack
        The best one known; it loses ``lower`` points.
    upper : int
        No attack loses more.
    reason : str
        Why they differ: starts with ``time`` or ``solver``.
    proof : str
        What the upper bound comes from.
    """

    attack: CollectiveAttack
    upper: int
    reason: str
    proof: str

    @property
    def lower(self) -> int:
        """Points the best attack known loses."""
        return len(self.attack.lost)

    @property
    def is_searched(self) -> bool:
        """Whether all attacks were gone through, rather than a solver asked."""
        return self.proof == _SEARCHED


def worst_attack(stakes: Stakes, solver: CanSolve, deadline: Deadline = NEVER) -> CollectiveBounds:
    """Return bounds of the loss from one attack on all points; exact if there is time.

    Parameters
    ----------
    stakes : Stakes
    solver : CanSolve
        With dual bounds. It is asked only where the search does not end in half the time.
    deadline : Deadline
    """
    left = deadline.limit
    spell = _SEARCH_SECONDS if left is None else _SEARCH_SHARE * left
    found = search(stakes, Deadline.after(spell))
    if found.upper == found.lost:
        return _bounds(stakes, found.units, found.upper, "", _SEARCHED)
    reason, proof = "time: the search of all attacks did not end", "what single points survive"
    if np.count_nonzero(stakes.gains) > _LARGEST:
        reason += ", and the MILP is too large"
        return _bounds(stakes, found.units, found.upper, reason, proof)
    try:
        problem = collective_problem(stakes, found.lost)
    except MemoryError:
        reason += ", and the MILP does not fit into memory"
        return _bounds(stakes, found.units, found.upper, reason, proof)
    left = deadline.limit
    if left == 0.0:
        return _bounds(stakes, found.units, found.upper, reason, proof)
    outcome = solver.solve(problem, Settings(time_limit=left))
    units, upper = found.units, found.upper
    if outcome.status is Status.FAILED:
        reason = f"solver: {outcome.message or 'it failed'}"
    elif math.isfinite(outcome.dual_bound):
        dual = math.floor(outcome.dual_bound + _TOLERANCE)
        if dual < upper:
            upper, proof = dual, "the dual bound of a MILP"
    if outcome.solution is not None:
        x = outcome.solution.point[1 : 1 + stakes.units]
        better = tuple(np.flatnonzero(x > 0.5).tolist())
        if len(better) <= stakes.budget and len(_lost(stakes, better)) > found.lost:
            units = better
    return _bounds(stakes, units, upper, reason, proof)


def _bounds(
    stakes: Stakes, units: tuple[int, ...], upper: int, reason: str, proof: str
) -> CollectiveBounds:
    attack = CollectiveAttack(units, _lost(stakes, units))
    upper = max(upper, len(attack.lost))
    return CollectiveBounds(attack, upper, reason if upper > len(attack.lost) else "", proof)


def _lost(stakes: Stakes, units: tuple[int, ...]) -> tuple[int, ...]:
    freed = np.unique(stakes.reach[list(units)])
    enough = stakes.gains[freed].sum(axis=0) >= stakes.needs
    return tuple(np.unique(stakes.points[enough]).tolist())
