"""Edits that change a plurality if each reaches one member per family."""

from __future__ import annotations

import numpy as np

from leaveout.verifier.checker.voting.tallies import (
    Counts,
    Votes,
    answers_of,
    blocks,
    counts_of,
    gaps_of,
)


def family_radii(votes: Votes, labels: int, sizes: tuple[int, ...]) -> Counts:
    """Return how many edits each answer survives, shape (points,).

    A member gains a label 0, 1 or 2 on the answer. Sorted within each family, the r-th of every
    family together are what the r-th edit gains at most, and an attacker has it: the radius is how
    many edits, added up, do not pass the gap of any label.
    """
    found = np.full(len(votes), max(sizes), np.int64)
    for at in blocks(len(votes), votes.shape[1] * 4 + labels):
        counts = counts_of(votes[at], labels)
        chosen = answers_of(counts)
        gaps = gaps_of(counts, chosen)
        for target in range(labels):
            rows = np.flatnonzero(chosen != target)
            held = votes[at][rows]
            gains = 1 + (held == chosen[rows, None]).astype(np.int64) - (held == target)
            each, start = np.zeros((len(rows), max(sizes)), np.int64), 0
            for size in sizes:
                each[:, :size] += -np.sort(-gains[:, start : start + size], axis=1)
                start += size
            survived = (np.cumsum(each, axis=1) <= gaps[rows, target, None]).sum(axis=1)
            found[at.start + rows] = np.minimum(found[at.start + rows], survived)
    return found
