"""Counted votes: the answer, and what each other label lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Votes: TypeAlias = NDArray[np.int32]
Counts: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

FAR = 2**60
"""A number of edits that stands for "never"; twice as much still fits."""

_BLOCK = 2**23
"""Numbers held at once, about."""


def blocks(points: int, width: int) -> Iterator[slice]:
    """Yield the test points in blocks, of each of which ``width`` numbers are held."""
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
    """Return the label with most votes, the smallest of those, shape (points,)."""
    answers: Counts = counts.argmax(axis=1)
    return answers


def gaps_of(counts: Counts, answers: Counts) -> Counts:
    """Return what each label must gain more than to pass the answer; `FAR` at the answer.

    That is ``n_c - n_c' - [c' < c]``: with a tie the smaller label is answered.
    """
    points, labels = counts.shape
    best = counts[np.arange(points), answers]
    gaps = best[:, None] - counts - (np.arange(labels) < answers[:, None])
    gaps[np.arange(points), answers] = FAR
    return gaps
