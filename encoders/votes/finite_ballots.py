"""Ballots of Finite Aggregation: votes, and each bucket's members, or an error."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.encoders.votes import finite_kernels as kernels
from leaveout.errors import SpecError


def check_ballots(
    votes: ArrayLike, labels: int, offsets: ArrayLike
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return votes and offsets in the form of compiled code, or raise."""
    ballots, spots = np.asarray(votes), np.asarray(offsets)
    if labels < 2:
        raise SpecError(f"finite aggregation: a vote needs two labels, there are {labels}")
    if ballots.ndim != 2 or not ballots.shape[1]:
        raise SpecError(
            f"finite aggregation: votes have the shape {ballots.shape}, expected (points, "
            "members) with at least one member"
        )
    if ballots.dtype.kind not in "iu":
        raise SpecError(f"finite aggregation: votes are {ballots.dtype}, expected integers")
    if ballots.size and not (ballots.min() >= 0 and ballots.max() < labels):
        wrong = ballots[(ballots < 0) | (ballots >= labels)][0]
        raise SpecError(
            f"finite aggregation: there is a vote for {wrong}, expected 0 to {labels - 1}"
        )
    members = ballots.shape[1]
    if spots.ndim != 1 or not spots.size or spots.dtype.kind not in "iu":
        raise SpecError("finite aggregation: offsets must be a flat list of at least one integer")
    if spots.min() < 0 or spots.max() >= members or len(np.unique(spots)) < len(spots):
        raise SpecError(
            f"finite aggregation: offsets must be distinct, each from 0 to {members - 1}, one less "
            "than the number of members"
        )
    return np.ascontiguousarray(ballots, dtype=np.int32), spots.astype(np.int64)


def checked_row(
    votes: ArrayLike, labels: int, offsets: ArrayLike
) -> tuple[NDArray[np.int32], NDArray[np.int64], int, NDArray[np.int64]]:
    """Return one point's votes, the offsets, its prediction and the gaps to exceed."""
    ballots, spots = check_ballots(np.asarray(votes)[None], labels, offsets)
    gap = np.zeros(labels, np.int64)
    best = int(kernels.gaps(ballots[0], gap))
    return ballots[0], spots, best, gap
