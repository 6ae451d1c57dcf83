"""What one attack on all points loses at most, against every attack there is."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from leaveout.bab.votes.collective_plurality import search
from leaveout.encoders.votes.collective import stakes_of
from leaveout.encoders.votes.plurality import tally
from leaveout.verifier.checker.voting import together
from leaveout.verifier.checker.voting.together import (
    TooLongError,
    at_stake,
    lost_to,
    no_more_lost,
    slots_of,
)

from support.votes import random_ballots


def answered(ballot, labels):
    return int(np.bincount(ballot, minlength=labels).argmax())


def enumerated(votes, truth, labels, budget, offsets):
    """Return the most points that any units, and any votes of their members, lose; recounted."""
    parts, most = votes.shape[1], 0
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
        assert np.flatnonzero(lost_to(votes, truth, labels, freed)).tolist() == lost
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


def test_all_attacks_at_once_are_those_one_by_one():
    few = {True: 0, False: 0}
    for votes, truth, labels, budget, _ in cases(3, 300):
        stake = at_stake(votes, truth, labels, budget)
        if not stake.count:
            continue
        slots = slots_of(stake.gains, stake.needs, stake.points, budget)
        worst = enumerated(votes, truth, labels, budget, (0,))
        for most in range(max(0, worst - 2), worst + 2):
            assert slots.lose(most)[0] == (worst > most)
            few[worst > most] += 1
    assert min(few.values()) > 100


@pytest.mark.parametrize("few", [0, 10**9])
def test_both_ways_to_go_through_attacks_agree(few, monkeypatch):
    monkeypatch.setattr(together, "_FEW", few)
    rng = np.random.default_rng(7)
    for _ in range(20):
        parts, labels = int(rng.integers(6, 14)), int(rng.integers(2, 5))
        votes, truth = random_ballots(rng, int(rng.integers(70, 400)), parts, labels)
        budget = int(rng.integers(2, 5))
        stake = at_stake(votes, truth, labels, budget)
        worst = search(stakes_of(votes, truth, tally(votes, labels), budget)).lost
        assert no_more_lost(stake, worst)
        assert not worst or not no_more_lost(stake, worst - 1)


@pytest.mark.parametrize("spread", [1, 2, 3])
def test_larger_bounds_agree_with_another_search(spread):
    rng = np.random.default_rng(spread)
    for _ in range(60):
        parts, labels = int(rng.integers(6, 16)), int(rng.integers(2, 6))
        votes, truth = random_ballots(rng, int(rng.integers(5, 200)), parts, labels)
        budget = int(rng.integers(1, 6 if spread == 1 else 4))
        offsets = tuple(rng.choice(parts, spread, replace=False).tolist())
        stake = at_stake(votes, truth, labels, budget, offsets)
        found = search(stakes_of(votes, truth, tally(votes, labels), budget, offsets))
        assert found.lost == found.upper
        assert no_more_lost(stake, found.lost)
        assert not found.lost or not no_more_lost(stake, found.lost - 1)


def test_too_many_attacks_are_not_told_apart():
    rng = np.random.default_rng(9)
    votes, truth = random_ballots(rng, 200, 30, 3)
    stake = at_stake(votes, truth, 3, 6)
    with pytest.raises(TooLongError):
        no_more_lost(stake, stake.count - 20, work=1e4)
