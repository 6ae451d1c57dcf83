"""Thresholds of nearest neighbours: the fewest changes that force a vote.

Rows of equal distance form a group, the nearest first. ``counts[j, v]`` is the number of rows with
label v in the first j groups. The neighbourhood is the fewest first groups with k rows or more, so
all rows as near as the k-th vote; if there are fewer than k rows, all of them vote. For the
derivation see docs/poisoning.md, section "Nearest neighbours".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit

EDITS, INSERTIONS, REMOVALS, RELABELS = range(4)

_NEVER = -1
_FAR = 2**62


@cached_njit()
def _groups(
    distances: NDArray[np.float64], y: NDArray[np.int32], labels: int
) -> tuple[NDArray[np.int64], bool]:
    """Return the counts, (groups + 1, labels), and whether the first group is at distance 0."""
    order = np.argsort(distances)
    counts = np.zeros((len(y) + 1, labels), np.int64)
    group, last = 0, -1.0
    for row in order:
        if group == 0 or distances[row] != last:
            group += 1
            counts[group] = counts[group - 1]
            last = distances[row]
        counts[group, y[row]] += 1
    return counts[: group + 1], group > 0 and distances[order[0]] == 0.0


@cached_njit()
def _neighbourhood(sizes: NDArray[np.int64], k: int) -> int:
    """Return the number of groups that vote: the fewest with k rows, or all."""
    for group in range(1, len(sizes)):
        if sizes[group] >= k:
            return group
    return len(sizes) - 1


@cached_njit()
def _excess(counts: NDArray[np.int64], label: int, more: int, other: int) -> int:
    """Return how many votes another label must lose for one with ``more`` extra votes to win."""
    return max(0, int(counts[other]) - int(counts[label]) - more + (1 if other < label else 0))


@cached_njit()
def _relabels(
    counts: NDArray[np.int64], sizes: NDArray[np.int64], k: int, first: int, label: int
) -> int:
    if len(sizes) == 1:
        return _NEVER
    best = _FAR
    for group in range(first, len(sizes)):
        inner = counts[group - 1]
        out = max(0, int(sizes[group - 1]) - (k - 1))
        if out >= best or out > sizes[group - 1] - inner[label]:
            break
        for turned in range(best - out):
            excess = taken = 0
            for other in range(counts.shape[1]):
                if other != label:
                    over = _excess(counts[group], label, turned, other)
                    excess += over
                    taken += min(over, int(inner[other]))
            if excess - min(out, taken) <= turned:
                best = out + turned
                break
    return best


@cached_njit()
def _fewest_removals(
    counts: NDArray[np.int64], sizes: NDArray[np.int64], k: int, group: int, label: int, more: int
) -> int:
    """Return the fewest removals for a label to win in the first groups with ``more``; or -1."""
    inner = counts[group - 1]
    out = max(0, int(sizes[group - 1]) - (k - 1))
    if out > sizes[group - 1] - inner[label]:
        return _NEVER
    removed = nearer = 0
    for other in range(counts.shape[1]):
        if other != label:
            over = _excess(counts[group], label, more, other)
            if over > counts[group, other]:
                return _NEVER
            removed += over
            nearer += min(over, int(inner[other]))
    removed += max(0, out - nearer)
    if group < len(sizes) - 1 and sizes[group] - removed + more < k:
        return _NEVER
    return removed


@cached_njit()
def _insertions(
    counts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    k: int,
    first: int,
    label: int,
    at_zero: bool,
) -> int:
    best = _FAR
    for group in range(1 if at_zero else 0, first + 1):
        need = 0
        for other in range(counts.shape[1]):
            if other != label:
                need = max(need, _excess(counts[group], label, 0, other))
        if group < first:
            need = max(need, k - int(sizes[group]))
        best = min(best, need)
    return best


@cached_njit()
def _edits(
    counts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    k: int,
    first: int,
    label: int,
    most: int,
) -> int:
    """Return the fewest removals with fewer than ``most`` insertions; -1 if impossible."""
    best = _NEVER
    for group in range(1, len(sizes)):
        more = 0
        while more < most:
            cost = _fewest_removals(counts, sizes, k, group, label, more)
            if cost >= 0 and (best < 0 or cost + more < best):
                best = cost + more
                most = min(most, max(best, 1))
            more += 1
    return best


@cached_njit()
def neighbour_counts(
    distances: NDArray[np.float64], y: NDArray[np.int32], labels: int, k: int
) -> NDArray[np.int64]:
    """Return the number of neighbours per label, shape (points, labels)."""
    found = np.zeros((len(distances), labels), np.int64)
    for point in range(len(distances)):
        counts, _ = _groups(distances[point], y, labels)
        found[point] = counts[_neighbourhood(counts.sum(axis=1), k)]
    return found


@cached_njit()
def neighbour_thresholds(
    distances: NDArray[np.float64], y: NDArray[np.int32], labels: int, k: int, against: int
) -> NDArray[np.int32]:
    """Return the fewest changes that force each vote, shape (points, labels)."""
    found = np.zeros((len(distances), labels), np.int32)
    for point in range(len(distances)):
        counts, at_zero = _groups(distances[point], y, labels)
        sizes = counts.sum(axis=1)
        first = _neighbourhood(sizes, k)
        vote = np.argmax(counts[first])
        for label in range(labels):
            if label == vote:
                continue
            if against == RELABELS:
                cost = _relabels(counts, sizes, k, first, label)
            elif against == REMOVALS:
                cost = _edits(counts, sizes, k, first, label, 1)
            else:
                cost = _insertions(counts, sizes, k, first, label, at_zero)
            if against == EDITS and cost > 0:
                mixed = _edits(counts, sizes, k, first, label, cost)
                cost = mixed if 0 <= mixed < cost else cost
            found[point, label] = cost
    return found
