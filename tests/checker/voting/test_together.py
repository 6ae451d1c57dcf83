"""What one attack on all points loses at most, against every attack there is."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from leaveout.bab.votes.search import TooLongError
from leaveout.encoders.votes.programme import most_lost_problem
from leaveout.kernel.counting import counts_of
from leaveout.kernel.schemes import answers_of, counted_stake
from leaveout.solvers import Status, find_solver

from support.kernel_trees import no_more_lost
from support.votes import random_ballots


def at_stake(votes, truth, labels, budget, offsets=(0,), sizes=()):
    right = answers_of(counts_of(votes, labels)) == truth
    return counted_stake(votes, labels, right, budget, offsets, sizes)


def answered(ballot, labels):
    return int(np.bincount(ballot, minlength=labels).argmax())


def enumerated(votes, truth, labels, budget, offsets):
    """Return the most points that any units, and any votes of their members, lose; recounted."""
    parts, most = votes.shape[1], 0
    stake = at_stake(votes, truth, labels, budget, offsets)
    for units in combinations(range(parts), budget):
        freed = sorted({(unit + shift) % parts for unit in units for shift in offsets})
        lost = [
            point
            for point, row in enumerate(votes)
            if answered(row, labels) == truth[point]
            and any(
                answered(_turned(row, freed, cast), labels) != truth[point]
                for cast in product(range(labels), repeat=len(freed))
            )
        ]
        assert stake.lost_points(np.array(units)).tolist() == lost
        most = max(most, len(lost))
    return most


def _turned(row, members, cast):
    changed = row.copy()
    changed[members] = cast
    return changed


def cases(seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        parts, labels = int(rng.integers(2, 7)), int(rng.integers(2, 4))
        votes, truth = random_ballots(rng, int(rng.integers(1, 12)), parts, labels)
        truth = np.where(rng.random(len(truth)) < 0.2, rng.integers(0, labels), truth)
        offsets = (int(rng.integers(parts)),)
        if parts > 3 and rng.random() < 0.4:
            offsets = tuple(rng.choice(parts, 2, replace=False).tolist())
        yield votes, truth.astype(np.int32), labels, int(rng.integers(1, min(4, parts))), offsets


def test_bounds_are_those_of_every_attack():
    less = 0
    for votes, truth, labels, budget, offsets in cases(0, 300):
        stake = at_stake(votes, truth, labels, budget, offsets)
        worst = enumerated(votes, truth, labels, budget, offsets)
        assert worst <= stake.count
        less += worst < stake.count
        assert no_more_lost(stake, worst)
        assert no_more_lost(stake, worst + 1)
        assert not worst or not no_more_lost(stake, worst - 1)
    assert less > 20


@pytest.mark.parametrize("spread", [1, 2, 3])
def test_larger_bounds_agree_with_a_programme(spread):
    rng = np.random.default_rng(spread)
    for _ in range(15):
        parts, labels = int(rng.integers(6, 13)), int(rng.integers(2, 6))
        votes, truth = random_ballots(rng, int(rng.integers(5, 40)), parts, labels)
        budget = int(rng.integers(1, 6 if spread == 1 else 4))
        offsets = tuple(rng.choice(parts, spread, replace=False).tolist())
        stake = at_stake(votes, truth, labels, budget, offsets)
        if not stake.count:
            continue
        found = find_solver("highs").solve(most_lost_problem(stake))
        assert found.status is Status.OPTIMAL
        lost = round(found.solution.objective)
        assert no_more_lost(stake, lost)
        assert not lost or not no_more_lost(stake, lost - 1)


def test_too_many_attacks_are_not_told_apart():
    rng = np.random.default_rng(9)
    votes, truth = random_ballots(rng, 200, 30, 3)
    stake = at_stake(votes, truth, 3, 6)
    with pytest.raises(TooLongError):
        no_more_lost(stake, stake.count - 20, work=1e4)
