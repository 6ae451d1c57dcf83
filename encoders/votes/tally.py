"""Plurality: the winner and its margin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit


@dataclass(frozen=True, eq=False)
class Tally:
    """The result of a count of votes; a tie goes to the smaller label."""

    counts: NDArray[np.int32]  # shape (points, labels): votes for each label
    predictions: NDArray[np.int32]  # shape (points,)
    gaps: NDArray[np.int32]  # shape (points, labels)


def tally(votes: NDArray[np.int32], labels: int) -> Tally:
    """Count votes."""
    counts = _counts(np.ascontiguousarray(votes, dtype=np.int32), labels)
    predictions = counts.argmax(axis=1).astype(np.int32)
    best = np.take_along_axis(counts, predictions[:, None], axis=1)
    smaller = np.arange(labels) < predictions[:, None]
    gaps = (best - counts - smaller).astype(np.int32)
    np.put_along_axis(gaps, predictions[:, None], np.iinfo(np.int32).max, axis=1)
    return Tally(counts, predictions, gaps)


@cached_njit()
def _counts(votes: NDArray[np.int32], labels: int) -> NDArray[np.int32]:
    counts = np.zeros((votes.shape[0], labels), np.int32)
    for point in range(votes.shape[0]):
        for part in range(votes.shape[1]):
            counts[point, votes[point, part]] += 1
    return counts
