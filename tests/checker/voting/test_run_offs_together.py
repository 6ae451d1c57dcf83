"""What the kernel says of attacks on run-offs, against every attack there is."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from leaveout.bab.votes.search import TooLongError
from leaveout.kernel import schemes
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.schemes import published_run_offs, run_off_answers, run_off_stake

from support.kernel_trees import no_more_lost
from support.run_offs import as_bits, lost_sets, run_offs
from support.votes import random_ballots


def run_off_survives(votes, scores, labels, answers, offsets, point, edits):
    budget = min(edits, votes.shape[1])
    at = np.array([point])
    return no_more_lost(run_off_stake(votes, scores, labels, answers, at, budget, offsets), 0)


def test_recounts_and_bounds_are_those_of_every_ranking():
    held = {True: 0, False: 0}
    for case, truth, votes, scores in run_offs(10, 40):
        labels, falls = case["labels"], lost_sets(truth)
        answers = run_off_answers(votes, scores, labels)
        for budget in range(1, min(3, truth.parts) + 1):
            points = np.flatnonzero(truth.right)
            stake = run_off_stake(votes, scores, labels, answers, points, budget, truth.offsets)
            most = 0
            for units in combinations(range(truth.parts), budget):
                freed = np.unique(np.add.outer(units, truth.offsets) % truth.parts)
                lost = [point for point, sets in falls.items() if sets[as_bits(freed)]]
                assert stake.lost_points(np.array(units)).tolist() == lost
                most = max(most, len(lost))
            assert stake.count >= most
            for upper in range(len(points) + 1):
                assert no_more_lost(stake, upper) == (most <= upper)
                held[most <= upper] += 1
    assert min(held.values()) > 100


def test_what_single_points_survive():
    for case, truth, votes, scores in run_offs(11, 30):
        labels = case["labels"]
        answers = run_off_answers(votes, scores, labels)
        known = published_run_offs(votes, scores, labels, answers, truth.offsets)
        for point, radius in enumerate(truth.radii):
            assert known[point] <= radius
            for edits in range(truth.parts + 1):
                survived = run_off_survives(
                    votes, scores, labels, answers, truth.offsets, point, edits
                )
                assert survived == (edits <= radius)


def test_units_that_share_members_are_told_apart():
    offsets, votes, scores = (0, 3, 4, 14, 16), np.ones((1, 19), np.int32), np.zeros((1, 19, 3))
    scores[..., 1], scores[..., 2] = 2.0, 1.0
    answers = np.ones(1, np.int64)
    assert published_run_offs(votes, scores, 3, answers, offsets) == 1
    assert run_off_survives(votes, scores, 3, answers, offsets, 0, 2)
    assert not run_off_survives(votes, scores, 3, answers, offsets, 0, 3)


def test_what_takes_too_long_is_left(monkeypatch):
    rng = np.random.default_rng(0)
    votes, _ = random_ballots(rng, 30, 15, 3)
    scores = rng.random((30, 15, 3))
    np.put_along_axis(scores, votes[:, :, None], 2.0, axis=2)
    answers = run_off_answers(votes, scores, 3)
    stake = run_off_stake(votes, scores, 3, answers, np.arange(30), 3)
    for work in (1.0, 1.1 * stake.gains.size):
        with pytest.raises(TooLongError):
            no_more_lost(stake, stake.count - 1, work)
    monkeypatch.setattr(schemes, "_ROOM", 100)
    with pytest.raises(Rejected):
        run_off_stake(votes, scores, 3, answers, np.arange(30), 3)
