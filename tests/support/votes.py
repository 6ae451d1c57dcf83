"""Random ballots, and every way to change them."""

from __future__ import annotations

from functools import cache
from itertools import combinations, product

import numpy as np


def random_ballots(rng, points, parts, labels):
    """Votes that lean towards a label by a different amount at each point, ties included."""
    truth = rng.integers(0, labels, points).astype(np.int32)
    lean = rng.uniform(0, 0.9, (points, 1))
    votes = rng.integers(0, labels, (points, parts))
    votes = np.where(rng.random((points, parts)) < lean, truth[:, None], votes)
    return votes.astype(np.int32), truth


@cache
def every_count(parts, labels):
    """Every way in which the votes of some parts can add up, a row each."""
    bars = combinations(range(parts + labels - 1), labels - 1)
    return np.array([np.diff((-1, *bar, parts + labels - 1)) - 1 for bar in bars])


@cache
def every_vote(parts, labels):
    """Every vote of some parts, a row each."""
    return np.array(list(product(range(labels), repeat=parts)))
