"""Run-Off Election: who wins, and how many poisoned parts that survives."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.encoders.votes import run_off_kernels as kernels
from leaveout.encoders.votes.run_off_ballots import checked, refuse


def run_off_predictions(votes: ArrayLike, scores: ArrayLike, labels: int) -> NDArray[np.int32]:
    """Return who wins the run-off at each test point.

    The two labels with the most votes stand; each member then prefers the one it scores higher,
    and most preferences win (Rezaei et al., ICML 2023). Every tie goes to the smaller label. Takes
    4 ``labels``³ bytes beside the scores.
    """
    votes, scores = checked(votes, scores, labels)
    found = np.empty(len(votes), np.int32)
    refuse(kernels.predictions(votes, scores, labels, found))
    return found


def run_off_published(votes: ArrayLike, scores: ArrayLike, labels: int) -> NDArray[np.int32]:
    """Return how many poisoned parts each prediction survives by the published argument.

    One less than the least of two numbers of edits (Rezaei et al., ICML 2023, the certificate of
    DPA+ROE): those after which two labels may stand before the winner in the first round, and, the
    winner standing, those after which another may have entered the run-off and may have won it. A
    lower bound, because each of these gaps is closed as if an edit served that gap alone.
    """
    votes, scores = checked(votes, scores, labels)
    found = np.empty(len(votes), np.int32)
    refuse(kernels.published(votes, scores, labels, found))
    return found - np.int32(1)


def run_off_exact(votes: ArrayLike, scores: ArrayLike, labels: int) -> NDArray[np.int32]:
    """Return exactly how many poisoned parts each prediction survives.

    The greatest r such that no r members, voting and scoring at will, change the prediction.
    """
    return (run_off_plans(votes, scores, labels)[:, 0] - 1).astype(np.int32)


def run_off_plans(
    votes: ArrayLike, scores: ArrayLike, labels: int, target: int | None = None
) -> NDArray[np.int64]:
    """Return the cheapest attack on each test point, in numbers.

    For every pair of a new winner t and another finalist s the votes that t and s gain fix what
    each other label must lose, and the edits are the sum of the gains that are positive. What an
    attack with these gains falls short of is a convex function of them, which a search by halves
    decides for a budget of edits, and another finds the least budget; pairs that a bound excludes
    are never searched.
    """
    votes, scores = checked(votes, scores, labels)
    plans = np.empty((len(votes), 5), np.int64)
    refuse(kernels.least_edits(votes, scores, labels, -1 if target is None else target, plans))
    return plans
