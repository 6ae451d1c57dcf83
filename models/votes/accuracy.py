"""Accuracy of an ensemble by label, compared with a constant answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.models.votes.ballots import Ballots

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Accuracy:
    """Counts of correctly answered test points."""

    base: float  # mean over members of the share of test points they label right, in [0, 1]
    points: Counts  # shape (labels,)
    right: Counts  # shape (labels,)
    answers: Counts  # shape (labels,)

    @property
    def ensemble(self) -> float:
        """Share of the test points that the plurality answers right."""
        return int(self.right.sum()) / int(self.points.sum())

    @property
    def most(self) -> int:
        """The most frequent true label; the smaller one if tied."""
        return int(self.points.argmax())

    @property
    def majority(self) -> float:
        """Accuracy of always answering the most frequent label."""
        return int(self.points.max()) / int(self.points.sum())


def accuracy_of(ballots: Ballots) -> Accuracy:
    """Return the accuracy of the members' plurality."""
    rows = np.arange(ballots.points)[:, None] * ballots.labels
    cells = np.bincount((rows + ballots.votes).ravel(), minlength=ballots.points * ballots.labels)
    answers = cells.reshape(ballots.points, ballots.labels).argmax(axis=1)
    counts = (
        np.bincount(labels, minlength=ballots.labels)
        for labels in (ballots.truth, ballots.truth[answers == ballots.truth], answers)
    )
    return Accuracy(float(np.mean(ballots.votes == ballots.truth[:, None])), *counts)
