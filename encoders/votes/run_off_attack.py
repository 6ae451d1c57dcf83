"""The cheapest attack on one run-off: members to change, their votes and scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.encoders.votes.run_off import run_off_plans
from leaveout.encoders.votes.run_off_ballots import Scores, checked_row


def run_off_attack(
    votes: ArrayLike, scores: ArrayLike, labels: int, target: int | None = None
) -> tuple[NDArray[np.int32], NDArray[np.int32], Scores]:
    """Return an attack on one point with one edit more than it survives."""
    ballots, numbers, prefer = checked_row(votes, scores, labels)
    plan = run_off_plans(ballots[None], numbers[None], labels, target)[0]
    _, t, s, gain, other = (int(number) for number in plan)
    recast = [
        i
        for g, lost in _losers(prefer, plan).items()
        for i in _first(ballots, numbers, g, plan, lost)
    ]
    new = {part: t if order < gain else s for order, part in enumerate(recast)}
    if other < 0:
        new |= dict.fromkeys(np.flatnonzero(ballots == s)[:-other].tolist(), t)
    parts = np.array(sorted(new), np.int32)
    turned = np.array([new[part] for part in sorted(new)], np.int32)
    return parts, turned, np.eye(labels, dtype=numbers.dtype)[turned]


def _losers(prefer: NDArray[np.int32], plan: NDArray[np.int64]) -> dict[int, int]:
    """Return how many votes each label other than the finalists loses."""
    _, t, s, gain, other = (int(number) for number in plan)
    labels = len(prefer)
    counts = {g: int(prefer[g, g, g]) for g in range(labels)}
    rest = [g for g in range(labels) if g not in (t, s)]
    lost = {
        g: max(
            0,
            counts[g] + (g < t) - counts[t] - gain,
            counts[g] + (g < s) - counts[s] - other,
        )
        for g in rest
    }
    left = gain + other - sum(lost.values())
    # Whoever prefers s costs t nothing in the run-off, so they go first.
    for most in ({g: int(prefer[g, s, t]) for g in rest}, counts):
        for g in rest:
            more = min(left, max(0, most[g] - lost[g]))
            lost[g] += more
            left -= more
    return lost


def _first(
    votes: NDArray[np.int32], scores: Scores, label: int, plan: NDArray[np.int64], count: int
) -> list[int]:
    """Return members that vote for a label, those preferring s to t first."""
    t, s = int(plan[1]), int(plan[2])
    parts = np.flatnonzero(votes == label)
    for_t, for_s = scores[parts, t], scores[parts, s]
    ahead = for_t >= for_s if t < s else for_t > for_s
    found: list[int] = parts[np.argsort(ahead, kind="stable")][:count].tolist()
    return found
