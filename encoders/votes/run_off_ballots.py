"""Ballots of a run-off election: votes and scores, or an error with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.encoders.votes import run_off_kernels as kernels
from leaveout.errors import SpecError

Scores = NDArray[np.floating[Any]]


def check_ballots(
    votes: ArrayLike, scores: ArrayLike, labels: int
) -> tuple[NDArray[np.int32], Scores]:
    """Return votes and scores in the form of compiled code, or raise."""
    ballots, numbers = np.asarray(votes), np.asarray(scores)
    if labels < 2:
        raise SpecError(f"run-off: an election needs two labels, there are {labels}")
    if ballots.ndim != 2 or not ballots.shape[1]:
        raise SpecError(
            f"run-off: votes have the shape {ballots.shape}, expected (points, parts) with at "
            "least one part"
        )
    if ballots.dtype.kind not in "iu":
        raise SpecError(f"run-off: votes are {ballots.dtype}, expected integers")
    if ballots.size and not (ballots.min() >= 0 and ballots.max() < labels):
        wrong = ballots[(ballots < 0) | (ballots >= labels)][0]
        raise SpecError(f"run-off: there is a vote for {wrong}, expected 0 to {labels - 1}")
    if numbers.shape != (*ballots.shape, labels):
        raise SpecError(
            f"run-off: scores have the shape {numbers.shape}, expected {(*ballots.shape, labels)}: "
            "one for each point, part and label"
        )
    if numbers.dtype.kind != "f" or numbers.dtype.itemsize > 8:
        raise SpecError(
            f"run-off: scores are {numbers.dtype}, expected float16, float32 or float64"
        )
    # Widening float16 keeps every comparison as it is.
    wide = np.float64 if numbers.dtype.itemsize == 8 else np.float32
    read: Scores = np.ascontiguousarray(numbers, dtype=wide)
    return np.ascontiguousarray(ballots, dtype=np.int32), read


def checked_row(
    votes: ArrayLike, scores: ArrayLike, labels: int
) -> tuple[NDArray[np.int32], Scores, NDArray[np.int32]]:
    """Return one point's votes and scores, and its members counted."""
    ballots, numbers = check_ballots(np.asarray(votes)[None], np.asarray(scores)[None], labels)
    prefer = np.zeros((labels, labels, labels), np.int32)
    fault, part = kernels.tally(ballots[0], numbers[0], prefer)
    refuse((fault, 0, part))
    below = np.tril_indices(labels, -1)
    every = np.einsum("gaa->ga", prefer)
    prefer[:, below[0], below[1]] = every[:, below[0]] - prefer[:, below[1], below[0]]
    return ballots[0], numbers[0], prefer


def refuse(found: tuple[int, int, int]) -> None:
    """Raise if anything is wrong with a ballot."""
    fault, point, part = found
    if fault == kernels.NOT_A_NUMBER:
        raise SpecError(f"run-off: member {part} gives point {point} a score that is NaN")
    if fault == kernels.NOT_FIRST:
        raise SpecError(
            f"run-off: member {part} does not vote at point {point} for the label it scores "
            "highest (the smallest of those, where several are)"
        )
