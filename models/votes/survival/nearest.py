"""Nearest neighbours, with the exact number of changes that force each vote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from leaveout.models.ballots import Against
from leaveout.models.votes.survival.learner import Part

_CHUNK = 2**21  # distances in memory at a time


@dataclass(frozen=True)
class Nearest:
    """All rows as near as the k-th nearest vote; the smaller label wins ties.

    If there are fewer than k rows, all vote; without rows the vote is 0. Squared Euclidean
    distances are summed in the order of features in float64, so they depend only on the two rows.
    """

    k: int

    name: ClassVar[str] = "nearest"

    def scores(self, part: Part) -> NDArray[np.float32]:
        """Return the number of neighbours per label, shape (points, labels)."""
        from leaveout.models.votes.survival.nearest_kernels import neighbour_counts

        counts = [
            neighbour_counts(squares, part.y, part.labels, self.k) for squares in _squares(part)
        ]
        return np.concatenate(counts).astype(np.float32)

    def thresholds(self, part: Part, against: Against, exact_to: int | None) -> NDArray[np.int32]:
        """Return the fewest changes that force each vote, shape (points, labels), exactly."""
        from leaveout.models.votes.survival import nearest_kernels

        kind = {
            "edits": nearest_kernels.EDITS,
            "insertions": nearest_kernels.INSERTIONS,
            "removals": nearest_kernels.REMOVALS,
            "relabels": nearest_kernels.RELABELS,
        }[against]
        find = nearest_kernels.neighbour_thresholds
        return np.concatenate(
            [find(squares, part.y, part.labels, self.k, kind) for squares in _squares(part)]
        )


def _squares(part: Part) -> Iterator[NDArray[np.float64]]:
    """Yield squared distances in batches of points, shape (points, rows)."""
    step = max(1, _CHUNK // max(1, len(part.X)))
    for first in range(0, len(part.tests), step):
        tests = part.tests[first : first + step]
        found = np.zeros((len(tests), len(part.X)))
        for feature in range(part.X.shape[1]):
            difference = tests[:, feature, None] - part.X[None, :, feature]
            difference *= difference
            found += difference
        yield found
