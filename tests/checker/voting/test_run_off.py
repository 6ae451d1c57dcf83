"""The kernel's run-offs against every vote and every order of preference there is."""

from __future__ import annotations

from functools import cache
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.kernel import votes as functions
from leaveout.kernel.ballots import Ballots
from leaveout.kernel.counting import counts_of
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.schemes import (
    _can_win,
    _prefer,
    passing_gains,
    refuse_scores,
    run_off_answers,
    run_off_falls,
    run_off_radii,
    support_of,
    survived_units,
)
from leaveout.kernel.values import Given

from support.depth import rounds
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
    for _ in range(rounds(120)):
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
    for _ in range(rounds(60)):
        parts, labels = int(rng.integers(2, 40)), int(rng.integers(2, 7))
        votes, _ = random_ballots(rng, 20, parts, labels)
        scores = scored(rng, votes, labels, ties=bool(rng.integers(2)))
        radii = run_off_radii(votes, scores, labels)
        edits = rng.integers(0, parts + 1, 20)
        answers = run_off_answers(votes, scores, labels)
        known = counts_of(votes, labels), answers, support_of(scores, answers)
        assert (run_off_falls(votes, scores, *known, edits) == (edits > radii)).all()


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
            assert functions.count_ballots("run_off", given).kind == "run_off"
        else:
            with pytest.raises(Rejected) as told:
                functions.count_ballots("run_off", given)
            assert str(told.value) == snapshot


def wins_by_some_gain(votes, ahead, counts, pair, edits):
    """Try every number of votes that s gains: whether t then wins against it."""
    t, s = pair
    labels, parts = counts.shape[1], votes.shape[1]
    third = [u for u in range(labels) if u not in pair]
    found = []
    for row in range(len(votes)):
        held = [int(counts[row, u]) for u in third]
        cheap = [int(((votes[row] == u) & ~ahead[row]).sum()) for u in third]
        wins, most = False, int(edits[row])
        for gain_s in range(-min(most, int(counts[row, s])), most + 1):
            gain_t = min(most - max(gain_s, 0), sum(held) - gain_s)
            must = [
                max(0, *(
                    own + (u < each) - int(counts[row, each]) - gain
                    for each, gain in ((t, gain_t), (s, gain_s))
                ))
                for u, own in zip(third, held)
            ]  # fmt: skip
            gained = gain_t + gain_s
            dear = sum(max(a - b, 0) for a, b in zip(must, cheap))
            dear += max(gained - sum(max(a, b) for a, b in zip(must, cheap)), 0)
            wins |= (
                gained >= 0
                and -gain_t <= counts[row, t]
                and all(a <= b for a, b in zip(must, held))
                and sum(must) <= gained
                and 2 * (int(ahead[row].sum()) + gain_t - dear) + (t < s) > parts
            )
        found.append(wins)
    return found


@settings(max_examples=rounds(150), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 25), st.integers(2, 6))
def test_halving_finds_what_trying_every_gain_finds(seed, parts, labels):
    rng = np.random.default_rng(seed)
    votes, _ = random_ballots(rng, 8, parts, labels)
    votes[0] = rng.choice(labels, parts, p=rng.dirichlet(np.full(labels, 0.5)))
    scores = scored(rng, votes, labels, ties=bool(rng.integers(2)))
    counts, edits = counts_of(votes, labels), rng.integers(0, parts + 1, 8)
    for pair in permutations(range(labels), 2):
        ahead = _prefer(scores, np.arange(8), *pair)
        found = _can_win(votes, ahead, counts, pair, edits)
        assert found.tolist() == wins_by_some_gain(votes, ahead, counts, pair, edits)


@settings(max_examples=rounds(100), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 25), st.integers(2, 6))
def test_members_that_are_alike_count_as_one_by_one(seed, parts, labels):
    rng = np.random.default_rng(seed)
    votes, _ = random_ballots(rng, 12, parts, labels)
    scores = scored(rng, votes, labels, ties=bool(rng.integers(2)))
    counts, answers = counts_of(votes, labels), run_off_answers(votes, scores, labels)
    kinds = np.broadcast_to(np.arange(labels), counts.shape)
    needs, limits = rng.integers(-2, 2 * parts + 2, 12), ((0,), (parts,))
    for label in range(labels):
        one_by_one = survived_units(passing_gains(votes, answers, label), needs, *limits)
        alike = survived_units(passing_gains(kinds, answers, label), needs, *limits, counts)
        assert alike.tolist() == one_by_one.tolist()
        wanted = [
            sum((row[label], -label) > (row[answer], -answer) for row in rows)
            for rows, answer in zip(scores.tolist(), answers.tolist())
        ]
        assert support_of(scores, answers)[:, label].tolist() == wanted
