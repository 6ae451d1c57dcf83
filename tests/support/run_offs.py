"""Random run-offs as the campaign draws them, and what is true of them by trying every ranking."""

from __future__ import annotations

import numpy as np

from attacks.run_offs import drawn
from attacks.vote_truth import Truth


def run_offs(seed, count, spread=False):
    """Yield cases, their truth, votes and scores; with spread samples only if that is asked."""
    rng, found = np.random.default_rng(seed), 0
    while found < count:
        case = drawn(rng, most=5)
        if not spread or len(case["offsets"]) > 1:
            found += 1
            votes, scores = np.array(case["votes"], np.int32), np.array(case["scores"])
            yield case, Truth(case), votes, scores


def lost_sets(truth):
    """Return at which right points each set of members (a number, a bit each) takes the label."""
    return {
        point: ballot.lost(int(label), truth.parts)
        for point, (ballot, label) in enumerate(zip(truth.ballots, truth.truth, strict=True))
        if ballot.before == label
    }


def as_bits(members):
    """Return a set of members as a number."""
    return int(sum(1 << int(each) for each in members))
