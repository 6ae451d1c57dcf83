"""The checker's run-offs against every vote and every order of preference there is."""

from __future__ import annotations

from functools import cache
from itertools import combinations, permutations, product

import numpy as np

from leaveout.encoders.votes.run_off import run_off_exact, run_off_predictions
from leaveout.verifier.checker.voting.run_off import (
    run_off_answers,
    run_off_falls,
    run_off_radii,
)

from support.votes import random_ballots


def scored(rng, votes, labels, ties=True):
    levels = (
        rng.integers(0, 4, (*votes.shape, labels)) if ties else rng.random((*votes.shape, labels))
    )
    scores = levels.astype(np.float32)
    np.put_along_axis(scores, votes[:, :, None], 9.0, axis=2)
    return scores


@cache
def orders(labels):
    return tuple(permutations(range(labels)))


def order_of(scores):
    return tuple(sorted(range(len(scores)), key=lambda label: (-scores[label], label)))


def winner(ballots, labels):
    """Of orders of preference, first choice first."""
    counts = [sum(order[0] == label for order in ballots) for label in range(labels)]
    first, second = sorted(range(labels), key=lambda label: (-counts[label], label))[:2]
    support = sum(order.index(first) < order.index(second) for order in ballots)
    if 2 * support == len(ballots):
        return min(first, second)
    return first if 2 * support > len(ballots) else second


def least_edits(ballots, labels):
    before = winner(ballots, labels)
    for count in range(1, len(ballots) + 1):
        for members in combinations(range(len(ballots)), count):
            kept = [order for i, order in enumerate(ballots) if i not in members]
            for cast in product(orders(labels), repeat=count):
                if winner(kept + list(cast), labels) != before:
                    return count
    raise AssertionError(ballots)


def test_winners_and_radii_are_those_of_every_attack():
    rng = np.random.default_rng(0)
    for _ in range(120):
        labels = int(rng.integers(2, 5))
        parts = int(rng.integers(2, 6 if labels < 4 else 5))
        votes, _ = random_ballots(rng, 2, parts, labels)
        scores = scored(rng, votes, labels)
        winners, radii = (
            run_off_answers(votes, scores, labels),
            run_off_radii(votes, scores, labels),
        )
        for j in range(2):
            ballots = [order_of(scores[j, i]) for i in range(parts)]
            assert winners[j] == winner(ballots, labels)
            assert radii[j] == least_edits(ballots, labels) - 1


def test_larger_run_offs_agree_with_another_way_to_count():
    rng = np.random.default_rng(1)
    for _ in range(60):
        parts, labels = int(rng.integers(2, 40)), int(rng.integers(2, 7))
        votes, _ = random_ballots(rng, 20, parts, labels)
        scores = scored(rng, votes, labels, ties=bool(rng.integers(2)))
        radii = run_off_radii(votes, scores, labels)
        assert radii.tolist() == run_off_exact(votes, scores, labels).tolist()
        assert (
            run_off_answers(votes, scores, labels).tolist()
            == run_off_predictions(votes, scores, labels).tolist()
        )
        edits = rng.integers(0, parts + 1, 20)
        assert (run_off_falls(votes, scores, labels, edits) == (edits > radii)).all()
