"""The published argument on Finite Aggregation, compiled: gaps and summed gains."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit

Ints = NDArray[np.int32]
Counts = NDArray[np.int64]


@cached_njit(nogil=True)
def gaps(votes: Ints, found: Counts) -> int:
    """Fill in what each label must gain more than to win; return the prediction."""
    found[:] = 0
    for vote in votes:
        found[vote] += 1
    best = int(np.argmax(found))
    most = found[best]
    for label in range(len(found)):
        found[label] = most - found[label] - (label < best)
    found[best] = -1
    return best


@cached_njit(nogil=True)
def published_edits(
    votes: Ints, offsets: Counts, best: int, gap: Counts, hits: Ints, edits: Counts
) -> None:
    """Fill in the least edits towards each label if bucket gains simply added up."""
    members, spread = len(votes), len(offsets)
    hits[:] = 0
    for i in range(members):
        row = hits[votes[i]]
        for offset in offsets:
            h = i - offset
            row[h if h >= 0 else h + members] += 1
    buckets = np.zeros(2 * spread + 1, np.int64)
    for label in range(len(gap)):
        edits[label] = members + 1
        if label == best:
            continue
        buckets[:] = 0
        for h in range(members):
            buckets[spread + hits[best, h] - hits[label, h]] += 1
        needed, used = gap[label] + 1, 0
        for gain in range(2 * spread, 0, -1):
            if buckets[gain] * gain >= needed:
                edits[label] = used + (needed + gain - 1) // gain
                break
            needed -= buckets[gain] * gain
            used += buckets[gain]


@cached_njit(nogil=True)
def published_all(votes: Ints, offsets: Counts, labels: int, found: Ints) -> None:
    """Fill in each point's least edits by the published argument, shape (points,)."""
    hits = np.zeros((labels, votes.shape[1]), np.int32)
    gap, edits = np.zeros(labels, np.int64), np.zeros(labels, np.int64)
    for j in range(votes.shape[0]):
        best = gaps(votes[j], gap)
        published_edits(votes[j], offsets, best, gap, hits, edits)
        found[j] = edits.min()
