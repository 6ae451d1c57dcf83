"""Parts to poison to change a plurality vote: a closed form, and a knapsack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Votes: TypeAlias = NDArray[np.int32]
Counts: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

FAR = 2**60
"""A number of edits that means "never"; twice as much still fits."""

_BLOCK = 2**23
"""Approximate number of values in memory at once."""


def blocks(points: int, width: int) -> Iterator[slice]:
    """Yield the test points in blocks; each point needs ``width`` numbers in memory."""
    size = max(1, _BLOCK // max(1, width))
    for start in range(0, points, size):
        yield slice(start, min(points, start + size))


def counts_of(votes: Votes, labels: int) -> Counts:
    """Return how many members vote for each label, shape (points, labels)."""
    points = len(votes)
    places = votes.astype(np.int64) + labels * np.arange(points, dtype=np.int64)[:, None]
    counts: Counts = np.bincount(places.ravel(), minlength=points * labels).astype(np.int64)
    return counts.reshape(points, labels)


def answers_of(counts: Counts) -> Counts:
    """Return the label with the most votes, the smallest on a tie, shape (points,)."""
    answers: Counts = counts.argmax(axis=1)
    return answers


def gaps_of(counts: Counts, answers: Counts) -> Counts:
    """Return the gain that each label must exceed to pass the answer; `FAR` for the answer.

    That is ``n_c - n_c' - [c' < c]``: ties go to the smaller label.
    """
    points, labels = counts.shape
    best = counts[np.arange(points), answers]
    gaps = best[:, None] - counts - (np.arange(labels) < answers[:, None])
    gaps[np.arange(points), answers] = FAR
    return gaps


_NEVER = -1
"""In a ballots file, the threshold of a vote that no edits can cause."""


def answers(votes: Votes, labels: int) -> Counts:
    """Return the plurality's answer at each test point, shape (points,)."""
    found = np.zeros(len(votes), np.int64)
    for at in blocks(len(votes), labels):
        found[at] = answers_of(counts_of(votes[at], labels))
    return found


def plurality_radii(votes: Votes, labels: int) -> Counts:
    """Return how many poisoned parts each answer survives, shape (points,).

    A poisoned member gains a label at most 2 on the answer, so r of them close no gap of 2 r or
    more; at least G // 2 + 1 members voted for the answer, where G is the gap, and that many close
    it. So the radius is half the least gap, rounded down.
    """
    found = np.zeros(len(votes), np.int64)
    for at in blocks(len(votes), labels):
        counts = counts_of(votes[at], labels)
        found[at] = gaps_of(counts, answers_of(counts)).min(axis=1) // 2
    return found


def threshold_radii(votes: Votes, thresholds: NDArray[np.int32], labels: int) -> Counts:
    """Return how many edits each answer survives if members survive some; `FAR` for any number.

    Member i votes u after ``thresholds[i, u]`` edits. A label passes the answer once the members'
    gains, each from -2 to 2 by its new vote, exceed the label's gap; the cheapest way is computed
    for all gains, member by member.
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


def family_radii(votes: Votes, labels: int, sizes: tuple[int, ...]) -> Counts:
    """Return how many edits each answer survives, shape (points,).

    A member gains a label 0, 1 or 2 on the answer. If gains are sorted within each family, the r-th
    edit gains at most the sum of the families' r-th gains, and an attacker can achieve it: the
    radius is the most edits whose total does not exceed any label's gap.
    """
    found = np.full(len(votes), max(sizes), np.int64)
    for at in blocks(len(votes), votes.shape[1] * 4 + labels):
        counts = counts_of(votes[at], labels)
        chosen = answers_of(counts)
        gaps = gaps_of(counts, chosen)
        for target in range(labels):
            rows = np.flatnonzero(chosen != target)
            held = votes[at][rows]
            gains = 1 + (held == chosen[rows, None]).astype(np.int64) - (held == target)
            each, start = np.zeros((len(rows), max(sizes)), np.int64), 0
            for size in sizes:
                each[:, :size] += -np.sort(-gains[:, start : start + size], axis=1)
                start += size
            survived = (np.cumsum(each, axis=1) <= gaps[rows, target, None]).sum(axis=1)
            found[at.start + rows] = np.minimum(found[at.start + rows], survived)
    return found
