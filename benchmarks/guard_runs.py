"""Test points answered one at a time, by every kind of access, and how long that took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.models import Family
from leaveout.verifier.guard import Guard

from guard_access import (
    Access,
    Asked,
    Bare,
    Mask,
    Mechanism,
    NaiveNoise,
    Point,
    Session,
    Stacked,
    Threshold,
)
from guard_folders import Deployment
from guard_reference import Reference
from guard_times import Served, Timing, first_seen, serve, timing

__all__ = ["SAMPLE", "Asking", "Run", "by_method", "by_tier", "time_naive"]

SAMPLE = 200
"""Queries that naive iDP is timed with."""

_WARM = 200

_TIERS = (
    ("tier 1: the proved bound", 1, None),
    ("tier 2: members asked", 2, None),
    ("tier 3: a leak, first", 3, True),
    ("tier 3: a leak, again", 3, False),
    ("outside the box, first", 0, True),
    ("outside the box, again", 0, False),
)


@dataclass(frozen=True, eq=False)
class Run:
    """One epsilon.

    Attributes
    ----------
    first, again : mapping of str to Served
        By method: all test points, and then the noised ones once more.
    answers : int
        Distinct noised inputs.
    epsilon : float
        What they cost in all.
    """

    first: dict[str, Served]
    again: dict[str, Served]
    answers: int
    epsilon: float


@dataclass(frozen=True, eq=False)
class Asking:
    """Whom to ask what.

    Attributes
    ----------
    deployed : Deployment
    network : Session
    labels, seed : int
    points : ndarray of float32, shape (p, d)
    noised : mapping of str to ndarray of bool
        By method.
    """

    deployed: Deployment
    network: Session
    labels: int
    seed: int
    points: Point
    noised: dict[str, Mask]

    def run(self, epsilon: float, memory: Path) -> Run:
        """Ask at one epsilon, with a new memory."""
        folder, bare = self.deployed.folder, Bare(self.network)
        with Guard.load(folder, epsilon, outside="noise", memory=memory, seed=self.seed) as guard:
            # Warmed up with what needs neither members nor memory: those are met as they come.
            for x in self.points[~self.noised["threshold"]][:_WARM]:
                bare.label(x)
                guard.label(x)
            accesses: dict[str, Access] = {
                "none": bare,
                "noise": NaiveNoise(self.network, self._mechanism(epsilon)),
                "threshold": self._threshold(epsilon),
                "guard": guard,
            }
            first = serve(accesses, self.points)
            again = serve({"none": bare, "guard": guard}, self.points[self.noised["guard"]])
            account = guard.account()
        return Run(first, again, account.answers, account.epsilon)

    def _threshold(self, epsilon: float) -> Threshold:
        box, bounds = self.deployed.box, self.deployed.bounds.thresholds.tolist()
        return Threshold(self.network, self._mechanism(epsilon), bounds, box.lower, box.upper)

    def _mechanism(self, epsilon: float) -> Mechanism:
        return Mechanism(epsilon, self.labels, self.seed)


def time_naive(
    known: Reference, family: Family, labels: int, seed: int, points: Point
) -> tuple[dict[str, Timing], int]:
    """Time naive iDP both ways on a sample of distinct points; count where the two differ."""
    distinct = np.flatnonzero(first_seen(points))
    chosen = points[np.random.default_rng(seed).permutation(distinct)[:SAMPLE]]
    turn, stack = (Mechanism(0.0, labels, seed) for _ in range(2))
    accesses: dict[str, Access] = {
        "none": Bare(known.network),
        "in turn": Asked(known.network, known.members, turn),
        "stacked": Stacked(known.network, family, stack),
    }
    found = serve(accesses, chosen)
    unlike = sum((turn.remembered(x) is None) != (stack.remembered(x) is None) for x in chosen)
    bare = found["none"].nanoseconds
    times = {name: timing(found[name].nanoseconds, bare) for name in ("in turn", "stacked")}
    return {name: each for name, each in times.items() if each}, unlike


def by_method(runs: Sequence[Run]) -> dict[str, Timing]:
    """Sum up the times of all test points, over all runs."""
    found = {
        method: timing(*_pooled([run.first for run in runs], method)) for method in runs[0].first
    }
    return {method: each for method, each in found.items() if each}


def by_tier(
    runs: Sequence[Run], tiers: NDArray[np.int64], points: Point
) -> tuple[tuple[str, int, Timing | None], ...]:
    """Sum up the guard's times by what decided the answer; a tier that no point is in is left out.

    Parameters
    ----------
    runs : sequence of Run
    tiers : ndarray of int64, shape (p,)
        As `Guard.inspect` tells.
    points : ndarray of float32, shape (p, d)
    """
    fresh = first_seen(points)
    noised = (tiers == 3) | (tiers == 0)
    rows = []
    for name, tier, first in _TIERS:
        at = tiers == tier
        if first is None:
            times = _pooled([run.first for run in runs], "guard", at)
        elif first:
            times = _pooled([run.first for run in runs], "guard", at & fresh)
        else:
            times = _pooled([run.again for run in runs], "guard", at[noised])
        if at.any():
            rows.append((name, int(at.sum()), timing(*times)))
    return tuple(rows)


def _pooled(
    served: Sequence[dict[str, Served]], method: str, at: Mask | slice = slice(None)
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Gather one method's times over runs, and the bare network's for the same queries."""
    own = np.concatenate([each[method].nanoseconds[at] for each in served])
    return own, np.concatenate([each["none"].nanoseconds[at] for each in served])
