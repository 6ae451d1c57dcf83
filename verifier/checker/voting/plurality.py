"""Parts to poison to change a plurality: a closed form, and a knapsack."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.voting.tallies import (
    FAR,
    Counts,
    Votes,
    answers_of,
    blocks,
    counts_of,
    gaps_of,
)

_NEVER = -1
"""In a ballots file, the threshold of a vote that no edits bring about."""


def answers(votes: Votes, labels: int) -> Counts:
    """Return what a plurality answers at each test point, shape (points,)."""
    found = np.zeros(len(votes), np.int64)
    for at in blocks(len(votes), labels):
        found[at] = answers_of(counts_of(votes[at], labels))
    return found


def plurality_radii(votes: Votes, labels: int) -> Counts:
    """Return how many poisoned parts each answer survives, shape (points,).

    A poisoned member gains a label at most 2 on the answer, so that r of them close no gap of 2 r
    or more; more than half of the gap G voted for the answer, since G is at most their number, and
    G // 2 + 1 of those close it. So the radius is the least gap, halved and rounded down.
    """
    found = np.zeros(len(votes), np.int64)
    for at in blocks(len(votes), labels):
        counts = counts_of(votes[at], labels)
        found[at] = gaps_of(counts, answers_of(counts)).min(axis=1) // 2
    return found


def threshold_radii(votes: Votes, thresholds: NDArray[np.int32], labels: int) -> Counts:
    """Return how many edits each answer survives where members survive some; `FAR` for any number.

    Member i votes u once it has had ``thresholds[i, u]`` edits. A label passes the answer once the
    gains of the members exceed its gap, each of them -2 to 2 by what it is made to vote; the
    cheapest way is looked for over all gains, member by member.
    """
    found = np.zeros(len(votes), np.int64)
    for at in blocks(len(votes), votes.shape[1] * max(labels, 4)):
        found[at] = _threshold_radii(votes[at], thresholds[at].astype(np.int64), labels)
    return found


def _threshold_radii(votes: Votes, thresholds: Counts, labels: int) -> Counts:
    costs = np.where(thresholds == _NEVER, FAR, thresholds)
    counts = counts_of(votes, labels)
    chosen = answers_of(counts)
    gaps = gaps_of(counts, chosen)
    cheapest = np.full(len(votes), FAR)
    for target in range(labels):
        rows = np.flatnonzero(chosen != target)
        if len(rows):
            cost = _passing_cost(
                votes[rows], costs[rows], chosen[rows], target, gaps[rows, target] + 1
            )
            cheapest[rows] = np.minimum(cheapest[rows], cost)
    return np.where(cheapest >= FAR, FAR, cheapest - 1)


def _passing_cost(votes: Votes, costs: Counts, chosen: Counts, target: int, need: Counts) -> Counts:
    """Return the least cost for a label's gains to reach its need, shape (points,)."""
    points, parts, labels = costs.shape
    names = np.arange(labels)
    worth = (names == target).astype(np.int64) - (names == chosen[:, None])
    least = np.full((points, int(need.max()) + 1), FAR)
    least[:, 0] = 0
    for member in range(parts):
        vote = votes[:, member]
        held = (vote == target).astype(np.int64) - (vote == chosen)
        gains = worth - held[:, None]
        after = least.copy()
        for gain in (1, 2):
            price = np.where(gains == gain, costs[:, member], FAR).min(axis=1)[:, None]
            after[:, 1:gain] = np.minimum(after[:, 1:gain], least[:, :1] + price)
            after[:, gain:] = np.minimum(after[:, gain:], least[:, : least.shape[1] - gain] + price)
        least = np.minimum(after, FAR)
    cost: Counts = least[np.arange(points), need]
    return cost
