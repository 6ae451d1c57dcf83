"""The worst attack on a whole test set is the worst of all attacks."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

import leaveout.bab.votes.collective as exact
import leaveout.bab.votes.search as searching
from leaveout.bab.votes.collective import worst_attack
from leaveout.bab.votes.search import search
from leaveout.deadline import Deadline
from leaveout.encoders.votes.programme import choices_in, most_lost_problem
from leaveout.solvers import Status, find_solver

from support.counted import plurality_radii, stake_of, tally
from support.votes import random_ballots


def enumerated(votes, truth, labels, budget, offsets):
    """Lose as many points as any units and any votes of their members can."""
    parts = votes.shape[1]
    right = tally(votes, labels).predictions == truth
    most = 0
    for units in combinations(range(parts), min(budget, parts)):
        freed = sorted({(unit + shift) % parts for unit in units for shift in offsets or (0,)})
        lost = 0
        for point in np.flatnonzero(right):
            for cast in product(range(labels), repeat=len(freed)):
                changed = votes[point].copy()
                changed[freed] = cast
                if np.bincount(changed, minlength=labels).argmax() != truth[point]:
                    lost += 1
                    break
        most = max(most, lost)
    return most


def cases(seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        parts, labels = int(rng.integers(2, 9)), int(rng.integers(2, 5))
        votes, truth = random_ballots(rng, int(rng.integers(1, 16)), parts, labels)
        truth = np.where(rng.random(len(truth)) < 0.2, rng.integers(0, labels), truth)
        offsets = ()
        if parts > 3 and rng.random() < 0.4:
            offsets = tuple(sorted(rng.choice(parts, 2, replace=False).tolist()))
        budget = int(rng.integers(1, 3 if offsets else 4))
        yield votes, truth.astype(np.int32), labels, budget, offsets


@pytest.mark.parametrize("few", [None, 0.0])
def test_search_equals_enumeration(few, monkeypatch):
    if few is not None:  # so that trees are grown even where all attacks are soon tried
        monkeypatch.setattr(searching, "FEW", few)
        monkeypatch.setattr(searching, "_PATIENCE", np.inf)
    different = 0
    for votes, truth, labels, budget, offsets in cases(0, 500):
        stake = stake_of(votes, truth, labels, budget, offsets)
        found = search(stake)
        worst = enumerated(votes, truth, labels, budget, offsets)
        assert found.lost == found.upper == worst
        different += worst < stake.count
        assert len(found.choices) <= budget
        assert len(stake.lost_points(np.array(found.choices, np.int64))) == worst
    assert different > 20


def test_every_attack_in_turn_equals_the_search_by_bounds(monkeypatch):
    rng = np.random.default_rng(8)
    for _ in range(60):
        parts, labels = int(rng.integers(4, 15)), int(rng.integers(2, 6))
        votes, truth = random_ballots(rng, int(rng.integers(1, 300)), parts, labels)
        stake = stake_of(votes, truth, labels, int(rng.integers(1, min(parts, 5) + 1)))
        expected = search(stake)
        with monkeypatch.context() as patch:
            patch.setattr(searching, "FEW", 0.0)
            patch.setattr(searching, "_PATIENCE", np.inf)
            found = search(stake)
        assert (found.lost, found.upper) == (expected.lost, expected.upper)


def test_milp_equals_search():
    solver = find_solver("highs")
    for votes, truth, labels, budget, offsets in cases(1, 200):
        stake = stake_of(votes, truth, labels, budget, offsets)
        if not len(stake.needs):
            continue
        found = search(stake)
        outcome = solver.solve(most_lost_problem(stake))
        assert outcome.status is Status.OPTIMAL
        assert outcome.solution.objective == pytest.approx(found.lost, abs=1e-6)
        choices = choices_in(stake, outcome.solution.point)
        assert len(stake.lost_points(choices)) == found.lost


def test_larger_cases_agree_with_the_milp():
    solver = find_solver("highs")
    rng = np.random.default_rng(2)
    for _ in range(6):
        votes, truth = random_ballots(rng, 25, 15, 4)
        stake = stake_of(votes, truth, 4, 3)
        outcome = solver.solve(most_lost_problem(stake))
        assert outcome.solution.objective == pytest.approx(search(stake).lost, abs=1e-6)


def test_a_member_that_is_wrong_already_still_helps_the_attacker():
    votes, truth = np.array([[1, 1, 0], [2, 1, 0]], np.int32), np.array([1, 0], np.int32)
    found = worst_attack(stake_of(votes, truth, 3, 1), find_solver("highs"))
    assert found.lost == (0, 1)
    assert found.lower == found.upper == 2


def test_a_tie_goes_to_the_smaller_label():
    votes, truth = np.array([[1, 1, 1, 1]], np.int32), np.array([1], np.int32)
    assert search(stake_of(votes, truth, 2, 2)).lost == 1
    assert search(stake_of(votes, truth, 2, 1)).lost == 0


def test_points_that_survive_any_attack_are_left_out():
    rng = np.random.default_rng(3)
    votes, truth = random_ballots(rng, 200, 21, 5)
    tallied = tally(votes, 5)
    for budget in (1, 3, 7):
        stake = stake_of(votes, truth, 5, budget)
        falls = (plurality_radii(tallied) < budget) & (tallied.predictions == truth)
        assert np.unique(stake.points).tolist() == np.flatnonzero(falls).tolist()


def test_out_of_time_the_bound_is_sound_and_said_to_be_one():
    rng = np.random.default_rng(4)
    votes, truth = random_ballots(rng, 150, 40, 5)
    stake = stake_of(votes, truth, 5, 6)
    known = search(stake)
    assert known.lost == known.upper < stake.count
    found = worst_attack(stake, find_solver("highs"), deadline=Deadline.after(0.0))
    assert found.lower <= known.lost <= found.upper
    assert found.reason.startswith("time")
    assert found.lower < found.upper


def test_a_milp_takes_over_from_the_search(monkeypatch):
    monkeypatch.setattr(exact, "_SEARCH_SECONDS", 0.0)
    for votes, truth, labels, budget, offsets in cases(5, 40):
        stake = stake_of(votes, truth, labels, budget, offsets)
        found = worst_attack(stake, find_solver("highs"))
        assert found.lower == found.upper == search(stake).lost
        assert found.reason == ""


def test_the_milp_is_sparse():
    rng = np.random.default_rng(6)
    votes, truth = random_ballots(rng, 600, 30, 10)
    stake = stake_of(votes, truth, 10, 10)
    problem = most_lost_problem(stake)
    assert len(stake.needs) > 2_000
    assert problem.matrix.nnz < 4 * stake.gains.size + 8 * len(stake.needs)
