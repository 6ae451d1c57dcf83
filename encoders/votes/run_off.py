"""Run-off election: its winner, and how many poisoned parts the winner survives."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.encoders.votes import run_off_kernels as kernels
from leaveout.encoders.votes.run_off_ballots import check_ballots, refuse


def run_off_predictions(votes: ArrayLike, scores: ArrayLike, labels: int) -> NDArray[np.int32]:
    """Return the winner of the run-off at each test point.

    The two labels with the most votes stand, and members prefer the higher score (Rezaei et al.,
    ICML 2023); ties go to the smaller label. Takes 4 ``labels``³ bytes.
    """
    votes, scores = check_ballots(votes, scores, labels)
    found = np.empty(len(votes), np.int32)
    refuse(kernels.predictions(votes, scores, labels, found))
    return found


def run_off_published(votes: ArrayLike, scores: ArrayLike, labels: int) -> NDArray[np.int32]:
    """Return how many poisoned parts predictions survive by the published argument.

    A lower bound (Rezaei et al., ICML 2023, DPA+ROE), because each gap is closed as if edits served
    that gap alone.
    """
    votes, scores = check_ballots(votes, scores, labels)
    found = np.empty(len(votes), np.int32)
    refuse(kernels.fill_published_edits(votes, scores, labels, found))
    return found - np.int32(1)


def run_off_exact(votes: ArrayLike, scores: ArrayLike, labels: int) -> NDArray[np.int32]:
    """Return exactly how many poisoned parts each prediction survives."""
    return (run_off_plans(votes, scores, labels)[:, 0] - 1).astype(np.int32)


def run_off_plans(
    votes: ArrayLike, scores: ArrayLike, labels: int, target: int | None = None
) -> NDArray[np.int64]:
    """Return the cheapest attack on each test point, in numbers.

    For each new winner and finalist, edits are the sum of positive gains; the shortfall is convex
    in these, so bisection decides each budget.
    """
    votes, scores = check_ballots(votes, scores, labels)
    plans = np.empty((len(votes), 5), np.int64)
    refuse(kernels.least_edits(votes, scores, labels, -1 if target is None else target, plans))
    return plans
