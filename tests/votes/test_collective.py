"""The worst attack on a whole test set is the worst of all attacks."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from leaveout.bab.votes import collective_plurality
from leaveout.bab.votes.collective_exact import worst_attack
from leaveout.bab.votes.collective_kernels import counters_of
from leaveout.bab.votes.collective_plurality import PluralityProblem, search
from leaveout.deadline import Deadline
from leaveout.encoders.votes.collective import collective_problem, lost_points, stakes_of
from leaveout.encoders.votes.plurality import plurality_radii, tally
from leaveout.solvers import Status, find_solver

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


def test_search_equals_enumeration():
    different = 0
    for votes, truth, labels, budget, offsets in cases(0, 1_500):
        tallied = tally(votes, labels)
        stakes = stakes_of(votes, truth, tallied, budget, offsets)
        found = search(stakes)
        worst = enumerated(votes, truth, labels, budget, offsets)
        assert found.lost == found.upper == worst
        different += worst < stakes.at_stake
        assert len(found.units) <= budget
        freed = stakes.reach[list(found.units)].ravel()
        assert len(lost_points(votes, truth, tallied, freed)) == worst
    assert different > 50


def test_every_attack_in_turn_equals_the_search_by_bounds(monkeypatch):
    rng = np.random.default_rng(8)
    for _ in range(60):
        parts, labels = int(rng.integers(4, 15)), int(rng.integers(2, 6))
        votes, truth = random_ballots(rng, int(rng.integers(1, 300)), parts, labels)
        budget = int(rng.integers(1, min(parts, 5) + 1))
        stakes = stakes_of(votes, truth, tally(votes, labels), budget)
        monkeypatch.setattr(collective_plurality, "_MOST_WORDS", 0.0)
        expected = search(stakes)
        monkeypatch.setattr(collective_plurality, "_MOST_WORDS", 1e9)
        monkeypatch.setattr(collective_plurality, "_BRIEF", 0.0)
        found = search(stakes)
        assert (found.lost, found.upper) == (expected.lost, expected.upper)
        freed = stakes.reach[list(found.units)].ravel()
        assert len(lost_points(votes, truth, tally(votes, labels), freed)) == found.lost
        order = rng.permutation(parts)
        counters, units = counters_of(stakes, order), np.full(budget, -1)
        if len(stakes.needs):
            best = 0
            for first in range(parts):
                best = counters.task(first, units, best)
            assert best == expected.lost


def test_milp_equals_search():
    solver = find_solver("highs")
    for votes, truth, labels, budget, offsets in cases(1, 200):
        stakes = stakes_of(votes, truth, tally(votes, labels), budget, offsets)
        if not len(stakes.needs):
            continue
        found = search(stakes)
        outcome = solver.solve(collective_problem(stakes))
        assert outcome.status is Status.OPTIMAL
        assert outcome.solution.objective == pytest.approx(found.lost, abs=1e-6)


def test_larger_cases_agree_with_the_milp():
    solver = find_solver("highs")
    rng = np.random.default_rng(2)
    for _ in range(6):
        votes, truth = random_ballots(rng, 25, 15, 4)
        stakes = stakes_of(votes, truth, tally(votes, 4), 3)
        outcome = solver.solve(collective_problem(stakes))
        assert outcome.solution.objective == pytest.approx(search(stakes).lost, abs=1e-6)


def test_a_member_that_is_wrong_already_still_helps_the_attacker():
    votes, truth = np.array([[1, 1, 0], [2, 1, 0]], np.int32), np.array([1, 0], np.int32)
    found = worst_attack(
        PluralityProblem(stakes_of(votes, truth, tally(votes, 3), 1)), find_solver("highs")
    )
    assert found.attack.lost == (0, 1)
    assert found.lower == found.upper == 2


def test_a_tie_goes_to_the_smaller_label():
    votes, truth = np.array([[1, 1, 1, 1]], np.int32), np.array([1], np.int32)
    assert search(stakes_of(votes, truth, tally(votes, 2), 2)).lost == 1
    assert search(stakes_of(votes, truth, tally(votes, 2), 1)).lost == 0


def test_points_that_survive_any_attack_are_left_out():
    rng = np.random.default_rng(3)
    votes, truth = random_ballots(rng, 200, 21, 5)
    tallied = tally(votes, 5)
    for budget in (1, 3, 7):
        stakes = stakes_of(votes, truth, tallied, budget)
        falls = (plurality_radii(tallied) < budget) & (tallied.predictions == truth)
        assert np.unique(stakes.points).tolist() == np.flatnonzero(falls).tolist()


def test_out_of_time_the_bound_is_sound_and_said_to_be_one():
    rng = np.random.default_rng(4)
    votes, truth = random_ballots(rng, 150, 40, 5)
    stakes = stakes_of(votes, truth, tally(votes, 5), 6)
    exact = search(stakes)
    assert exact.lost == exact.upper < stakes.at_stake
    found = worst_attack(
        PluralityProblem(stakes), find_solver("highs"), deadline=Deadline.after(0.0)
    )
    assert found.lower <= exact.lost <= found.upper
    assert found.reason.startswith("time")
    assert found.lower < found.upper


def test_a_milp_takes_over_from_the_search(monkeypatch):
    import leaveout.bab.votes.collective_exact as exact

    monkeypatch.setattr(exact, "_SEARCH_SECONDS", 0.0)
    for votes, truth, labels, budget, offsets in cases(5, 40):
        stakes = stakes_of(votes, truth, tally(votes, labels), budget, offsets)
        found = worst_attack(PluralityProblem(stakes), find_solver("highs"))
        assert found.lower == found.upper == search(stakes).lost
        assert found.reason == ""


def test_the_milp_is_sparse():
    rng = np.random.default_rng(6)
    votes, truth = random_ballots(rng, 600, 30, 10)
    stakes = stakes_of(votes, truth, tally(votes, 10), 10)
    problem = collective_problem(stakes)
    assert len(stakes.needs) > 2_000
    assert problem.matrix.nnz < 4 * stakes.gains.size + 8 * len(stakes.needs)
