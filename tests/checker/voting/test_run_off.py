"""The kernel's run-offs against every vote and every order of preference there is."""

from __future__ import annotations

from functools import cache
from itertools import combinations, permutations, product

import numpy as np
import pytest

from leaveout.kernel import votes as functions
from leaveout.kernel.ballots import Ballots
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.schemes import (
    refuse_scores,
    run_off_answers,
    run_off_falls,
    run_off_radii,
)
from leaveout.kernel.values import Given

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


def test_more_edits_change_what_fewer_do():
    rng = np.random.default_rng(1)
    for _ in range(60):
        parts, labels = int(rng.integers(2, 40)), int(rng.integers(2, 7))
        votes, _ = random_ballots(rng, 20, parts, labels)
        scores = scored(rng, votes, labels, ties=bool(rng.integers(2)))
        radii = run_off_radii(votes, scores, labels)
        edits = rng.integers(0, parts + 1, 20)
        assert (run_off_falls(votes, scores, labels, edits) == (edits > radii)).all()


def agrees(votes, scores):
    try:
        refuse_scores(votes, scores, "b.npz")
    except Rejected as error:
        assert "b.npz: the scores of test point" in str(error)
        return False
    return True


def test_scores_that_are_no_numbers_or_that_a_vote_contradicts_are_refused():
    values = [0.0, -0.0, 1.0, np.nan, np.inf, -np.inf]
    for row in product(values, repeat=3):
        for vote in range(3):
            scores = np.array(row, dtype=np.float32)[None, None]
            finite = all(abs(value) < np.inf for value in row)
            highest = finite and vote == min(i for i in range(3) if row[i] == max(row))
            assert agrees(np.array([[vote]], dtype=np.int32), scores) == highest, (row, vote)


def test_no_run_off_is_held_over_scores_that_are_no_numbers(snapshot):
    rng = np.random.default_rng(2)
    votes, truth = random_ballots(rng, 6, 5, 3)
    scores = scored(rng, votes, 3)
    for value in (None, np.nan, -np.inf):
        if value is not None:
            scores = scores.copy()
            scores[4, 2, (votes[4, 2] + 1) % 3] = value
        held = Ballots(votes, truth, 3, scores=scores)
        given = Given({"ballots": held})
        if value is None:
            assert functions.run_off(given).kind == "run_off"
        else:
            with pytest.raises(Rejected) as told:
                functions.run_off(given)
            assert str(told.value) == snapshot
