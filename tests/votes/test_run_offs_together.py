"""One attack on all run-offs: the worst is the worst of all attacks, votes and preferences."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import leaveout.bab.votes.collective as collective
from leaveout.bab.votes.collective import worst_attack
from leaveout.bab.votes.search import search
from leaveout.deadline import Deadline
from leaveout.encoders.votes.programme import choices_in, most_lost_problem
from leaveout.kernel.schemes import run_off_answers, run_off_radii, run_off_stake
from leaveout.models.votes import Ballots, Origin
from leaveout.solvers import Status, find_solver
from leaveout.verifier.values.votes import Vote

from support.run_offs import as_bits, lost_sets, run_offs


def problem(case, truth, votes, scores, budget):
    winners = run_off_answers(votes, scores, case["labels"])
    points = np.flatnonzero(truth.right)
    return run_off_stake(
        votes, scores, case["labels"], winners, points, budget, tuple(truth.offsets)
    )


def test_what_is_demanded_is_what_every_ranking_of_freed_members_needs():
    seen = {True: 0, False: 0}
    for case, truth, votes, scores in run_offs(0, 40):
        falls = lost_sets(truth)
        budget = min(2, truth.parts)
        whole = problem(case, truth, votes, scores, budget)
        for units in combinations(range(truth.parts), budget):
            freed = np.unique(np.add.outer(units, truth.offsets) % truth.parts)
            lost = [point for point, sets in falls.items() if sets[as_bits(freed)]]
            assert whole.lost_points(np.array(units)).tolist() == lost
            for point in falls:
                seen[point in lost] += 1
    assert min(seen.values()) > 60


def test_the_search_and_the_programme_equal_enumeration():
    solver, below, spread = find_solver("highs"), 0, 0
    for number, (case, truth, votes, scores) in enumerate(run_offs(1, 80)):
        for budget in (1, 2, 3):
            if budget > truth.parts:
                continue
            whole = problem(case, truth, votes, scores, budget)
            worst = int(truth.right.sum()) - truth.collective(budget)
            found = search(whole)
            assert found.lost == found.upper == worst
            assert len(whole.lost_points(np.array(found.choices, np.int64))) == worst
            assert len(found.choices) <= budget
            below += worst < whole.count
            spread += len(truth.offsets) > 1
            if number % 4 == 0 and whole.count:
                outcome = solver.solve(most_lost_problem(whole))
                assert outcome.status is Status.OPTIMAL
                assert round(outcome.dual_bound) == worst
                choices = choices_in(whole, outcome.solution.point)
                assert len(whole.lost_points(choices)) == worst
    assert below >= 5
    assert spread > 30


def larger(seed, points=40, parts=14, labels=4):
    rng = np.random.default_rng(seed)
    lean = rng.uniform(0.2, 0.7, (points, 1))
    votes = rng.integers(0, labels, (points, parts))
    votes = np.where(
        rng.random((points, parts)) < lean, rng.integers(0, labels, (points, 1)), votes
    )
    scores = rng.random((points, parts, labels)).astype(np.float32)
    np.put_along_axis(scores, votes[:, :, None], 2.0, axis=2)
    votes = votes.astype(np.int32)
    return votes, scores, run_off_answers(votes, scores, labels)


@pytest.mark.parametrize(("offsets", "budget"), [((0,), 3), ((0, 3), 1)])
def test_a_search_that_is_cut_short_bounds_from_both_sides(monkeypatch, offsets, budget, snapshot):
    votes, scores, winners = larger(2)
    stake = run_off_stake(votes, scores, 4, winners, np.arange(40), budget, offsets)
    exact = search(stake)
    assert exact.lost == exact.upper < stake.count
    late = search(stake, Deadline.after(0.0))
    assert late.lost <= exact.lost <= late.upper <= stake.count
    monkeypatch.setattr(collective, "_SEARCH_SECONDS", 0.0)
    monkeypatch.setattr(collective, "_LARGEST_SUM", 0)
    solved = worst_attack(stake, find_solver("highs"))
    assert (solved.lower, solved.upper) == (exact.lost, exact.lost)
    assert solved.proof == snapshot


def test_points_alone_and_some_of_them():
    votes, scores, winners = larger(3)
    whole = run_off_stake(votes, scores, 4, winners, np.arange(40), 3)
    radii = run_off_radii(votes, scores, 4)
    # What is at stake is what demands allow, a little more than what single attacks lose.
    assert set(np.flatnonzero(radii < 3)) <= set(whole.points.tolist())
    some = np.unique(whole.points)[::3]
    part = whole.of_pairs(np.isin(whole.points, some))
    choices = np.array(search(whole).choices, np.int64)
    assert part.lost_points(choices).tolist() == [
        p for p in whole.lost_points(choices) if p in some
    ]
    assert search(part).lost <= search(whole).lost


def test_a_vote_leaves_out_what_survives_by_itself():
    votes, scores, winners = larger(4)
    truth = winners.astype(np.int32)
    vote = Vote("run_off", Ballots(votes, truth, 4, scores=scores, origin=Origin(method="dpa")))
    every = np.ones(len(votes), np.bool_)
    radii = run_off_radii(votes, scores, 4)
    at_stake = np.unique(vote.stake(every, 3).points)
    assert at_stake.tolist() == np.flatnonzero(radii < 3).tolist()
    assert search(vote.stake(every, 0)).upper == 0
