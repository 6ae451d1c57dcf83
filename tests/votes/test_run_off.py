"""Run-Off Election: the published radius is sound and the exact one exact, ties included."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numba import njit

from leaveout.encoders.votes.programme import fewest_choices_problem
from leaveout.kernel.schemes import (
    published_run_offs,
    run_off_answers,
    run_off_radii,
    run_off_stake,
)
from leaveout.solvers import Status, find_solver

from support.counted import vote_of_arrays
from support.depth import rounds


def run_off_published(votes, scores, labels):
    answers = run_off_answers(votes, scores, labels)
    return published_run_offs(votes, scores, labels, answers, (0,))


def ballots(rng, parts, labels):
    """Draw one point's votes and scores, with many ties and at times a favourite or two."""
    scores = rng.integers(0, int(rng.integers(2, 5)), (parts, labels)).astype(np.float32)
    for _ in range(rng.integers(3)):
        chosen = rng.random(parts) < rng.random()
        scores[chosen, rng.integers(labels)] += rng.integers(1, 4)
    return scores.argmax(axis=1).astype(np.int32), scores


def close_race(rng, parts, labels):
    """Draw votes as even or uneven as may be, and favourites of the run-off who may have few."""
    share = rng.dirichlet(np.full(labels, rng.choice([0.5, 2.0, 20.0])))
    votes = rng.choice(labels, parts, p=share).astype(np.int32)
    scores = rng.standard_normal((parts, labels))
    scores += rng.standard_normal(labels) * rng.choice([0.0, 1.0, 3.0])
    scores[np.arange(parts), votes] = scores.max(axis=1) + 1
    return votes, scores


def elected(votes, scores):
    """Hold the two rounds as they are defined, one member at a time."""
    parts, labels = scores.shape
    standing = sorted(range(labels), key=lambda c: (-int((votes == c).sum()), c))[:2]
    a, b = sorted(standing)
    for_a = sum(scores[i, a] >= scores[i, b] for i in range(parts))
    return a if 2 * for_a >= parts else b


def orders(labels):
    """Return all rankings of the labels, and whether each prefers a to b."""
    every = np.array(list(itertools.permutations(range(labels))))
    place = np.argsort(every, axis=1)
    return every[:, 0].copy(), place[:, :, None] < place[:, None, :]


def rankings(scores, every):
    """Return the number of each member's ranking: best first, ties to the smaller label."""
    known = {tuple(each): i for i, each in enumerate(every)}
    return np.array([known[tuple(row)] for row in np.argsort(-scores, axis=1, kind="stable")])


@njit
def winner_of(counts, support, parts):
    """Return who wins, given how many prefer each label to each other."""
    first, second = finalists(counts)
    a, b = min(first, second), max(first, second)
    return a if 2 * support[a, b] >= parts else b


@njit
def finalists(counts):
    first = np.argmax(counts)
    second = 1 if first == 0 else 0
    for c in range(len(counts)):
        if c != first and counts[c] > counts[second]:
            second = c
    return first, second


@njit
def next_up(chosen, limit):
    """Step to the next non-decreasing row; False after the last."""
    i = len(chosen) - 1
    while i >= 0 and chosen[i] == limit - 1:
        i -= 1
    if i < 0:
        return False
    chosen[i:] = chosen[i] + 1
    return True


@njit
def next_subset(chosen, limit):
    """Step to the next increasing row; False after the last."""
    size = len(chosen)
    i = size - 1
    while i >= 0 and chosen[i] == limit - size + i:
        i -= 1
    if i < 0:
        return False
    chosen[i] += 1
    for j in range(i + 1, size):
        chosen[j] = chosen[j - 1] + 1
    return True


@njit
def radius_by_rankings(members, tops, ahead):
    """Enumerate every subset of members and every ranking each of them may then have."""
    parts, labels = len(members), ahead.shape[1]
    counts, support = np.zeros(labels, np.int64), np.zeros((labels, labels), np.int64)
    for i in members:
        counts[tops[i]] += 1
        support += ahead[i]
    before = winner_of(counts, support, parts)
    for edits in range(1, parts + 1):
        subset = np.arange(edits)
        while True:
            kept, kept_support = counts.copy(), support.copy()
            for j in subset:
                kept[tops[members[j]]] -= 1
                kept_support -= ahead[members[j]]
            turned = np.zeros(edits, np.int64)
            while True:
                for new in turned:
                    kept[tops[new]] += 1
                first, second = finalists(kept)
                a, b = min(first, second), max(first, second)
                for_a = kept_support[a, b]
                for new in turned:
                    for_a += ahead[new, a, b]
                    kept[tops[new]] -= 1
                if (a if 2 * for_a >= parts else b) != before:
                    return edits - 1
                if not next_up(turned, len(tops)):
                    break
            if not next_subset(subset, parts):
                break
    return parts


@njit
def radius_by_votes(members, tops, ahead):
    """Enumerate every subset and every vote; preferences between the two finalists come last.

    That is every attack: given the votes, the finalists are fixed, and a member that votes for
    neither may prefer either of them.
    """
    parts, labels = len(members), ahead.shape[1]
    counts, support = np.zeros(labels, np.int64), np.zeros((labels, labels), np.int64)
    for i in members:
        counts[tops[i]] += 1
        support += ahead[i]
    before = winner_of(counts, support, parts)
    for edits in range(1, parts + 1):
        subset = np.arange(edits)
        while True:
            kept, kept_support = counts.copy(), support.copy()
            for j in subset:
                kept[tops[members[j]]] -= 1
                kept_support -= ahead[members[j]]
            turned = np.zeros(edits, np.int64)
            while True:
                for new in turned:
                    kept[new] += 1
                first, second = finalists(kept)
                a, b = min(first, second), max(first, second)
                for_a, either = kept_support[a, b], 0
                for new in turned:
                    for_a += new == a
                    either += new not in (a, b)
                    kept[new] -= 1
                for more in range(either + 1):
                    if (a if 2 * (for_a + more) >= parts else b) != before:
                        return edits - 1
                if not next_up(turned, labels):
                    break
            if not next_subset(subset, parts):
                break
    return parts


def compared(seed, count, shapes, brute):
    """Compare with an enumeration; return how often the exact radius exceeds the published one."""
    rng = np.random.default_rng(seed)
    tables = {
        labels: (orders(labels), list(itertools.permutations(range(labels))))
        for labels, _ in shapes
    }
    above, seen = 0, set()
    for _ in range(count):
        labels, most = shapes[rng.integers(len(shapes))]
        votes, scores = ballots(rng, int(rng.integers(1, most + 1)), labels)
        (tops, ahead), every = tables[labels]
        radius = brute(rankings(scores, every), tops, ahead)
        published = run_off_published(votes[None], scores[None], labels)[0]
        exact = run_off_radii(votes[None], scores[None], labels)[0]
        assert published <= radius, (votes, scores)
        assert exact == radius, (votes, scores)
        above += exact > published
        seen.add(int(radius))
    assert len(seen) > 3
    return above


def test_radii_are_those_of_every_attack_with_full_rankings():
    assert compared(1, rounds(2500), [(2, 9), (3, 9), (4, 6)], radius_by_rankings) > 0


def test_radii_are_those_of_every_attack_on_more_labels():
    assert compared(2, rounds(1500), [(4, 9), (5, 9), (5, 9)], radius_by_votes) > 0


def test_votes_and_preferences_enumerate_what_full_rankings_do():
    rng = np.random.default_rng(3)
    for _ in range(400):
        labels = int(rng.integers(2, 5))
        _, scores = ballots(rng, int(rng.integers(1, 7)), labels)
        tops, ahead = orders(labels)
        members = rankings(scores, list(itertools.permutations(range(labels))))
        assert radius_by_votes(members, tops, ahead) == radius_by_rankings(members, tops, ahead)


def test_predictions_are_those_of_two_rounds_held_as_defined():
    rng = np.random.default_rng(4)
    for _ in range(600):
        labels = int(rng.integers(2, 7))
        votes, scores = ballots(rng, int(rng.integers(1, 12)), labels)
        assert run_off_answers(votes[None], scores[None], labels)[0] == elected(votes, scores)


def test_the_radius_is_that_of_programmes_for_each_pair_of_finalists():
    rng = np.random.default_rng(5)
    solver, seen = find_solver(), set()
    for draw in [ballots, close_race] * 20:
        labels, parts = int(rng.integers(2, 6)), int(rng.integers(10, 31))
        votes, scores = draw(rng, parts, labels)
        answers = run_off_answers(votes[None], scores[None], labels)
        point = np.zeros(1, np.int64)
        stake = run_off_stake(votes[None], scores[None], labels, answers, point, parts)
        least = parts
        for pair in range(len(stake.points)):
            own = stake.of_pairs(np.arange(len(stake.points)) == pair)
            outcome = solver.solve(fewest_choices_problem(own, 0, parts))
            if outcome.status is Status.OPTIMAL:
                least = min(least, round(outcome.solution.objective))
        assert run_off_radii(votes[None], scores[None], labels)[0] == least - 1
        seen.add(least)
    assert len(seen) > 4


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_an_attack_of_one_edit_more_changes_the_prediction(kind):
    rng = np.random.default_rng(7)
    for draw in [ballots, close_race] * 40:
        labels = int(rng.integers(2, 7))
        votes, scores = draw(rng, int(rng.integers(1, 60)), labels)
        scores = scores.astype(kind)
        votes = scores.argmax(axis=1).astype(np.int32)
        if len(votes) < 2:
            continue
        radius = run_off_radii(votes[None], scores[None], labels)[0]
        vote = vote_of_arrays("run_off", votes[None], labels, scores=scores[None])
        attack = vote.attack(0)
        assert attack.edits == len(set(attack.poisoned)) == radius + 1
        changed, changed_scores = votes.copy(), scores.copy()
        changed[list(attack.members)] = attack.votes
        changed_scores[list(attack.members)] = np.eye(labels, dtype=kind)[list(attack.votes)]
        assert elected(changed, changed_scores) == attack.after != elected(votes, scores)


def test_a_ballot_survives_more_than_is_published():
    # One edit lets 0 into the run-off only at the cost of a member that preferred 0 to 1 already.
    votes = np.array([1, 1, 1, 1, 2, 2])
    scores = np.eye(3)[votes]
    assert run_off_published(votes[None], scores[None], 3) == 0
    assert run_off_radii(votes[None], scores[None], 3) == 1


def test_points_are_answered_one_by_one_whatever_their_memory_order():
    rng = np.random.default_rng(8)
    pairs = [ballots(rng, 30, 5) for _ in range(40)]
    votes, scores = (np.stack(each) for each in zip(*pairs))
    exact = run_off_radii(votes, scores, 5)
    assert exact.tolist() == [int(run_off_radii(v[None], s[None], 5)[0]) for v, s in pairs]
    scattered = np.asfortranarray(scores)
    assert (run_off_radii(np.asfortranarray(votes), scattered, 5) == exact).all()
    assert run_off_radii(votes[:0], scores[:0], 5).shape == (0,)


def test_infinite_scores_are_compared_like_any():
    votes = np.array([[0, 0, 1]])
    scores = np.array([[[np.inf, np.inf], [1, -np.inf], [-np.inf, 0]]])
    assert run_off_answers(votes, scores, 2) == 0
    assert run_off_radii(votes, scores, 2) == 0
