"""One attack on all run-offs: the worst is the worst of all attacks, votes and preferences."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import leaveout.bab.votes.collective_run_off as together
from leaveout.bab.votes.collective_exact import worst_attack
from leaveout.bab.votes.collective_run_off import RunOffProblem
from leaveout.deadline import Deadline
from leaveout.encoders.votes import run_off_stakes as stakes_file
from leaveout.encoders.votes.run_off import run_off_exact, run_off_predictions
from leaveout.encoders.votes.run_off_stakes import run_off_lost, run_off_stakes
from leaveout.errors import BallotError
from leaveout.models.votes import Ballots, Origin
from leaveout.solvers import Settings, Status, find_solver
from leaveout.verifier.values.votes import RunOffVote

from support.run_offs import as_bits, lost_sets, run_offs


def problem(case, truth, votes, scores, budget):
    winners = run_off_predictions(votes, scores, case["labels"])
    stakes = run_off_stakes(
        votes, scores, case["labels"], winners, np.flatnonzero(truth.right), budget, truth.offsets
    )
    return winners, RunOffProblem(stakes)


def test_what_is_demanded_is_what_every_ranking_of_freed_members_needs():
    seen = {True: 0, False: 0}
    for case, truth, votes, scores in run_offs(0, 40):
        falls = lost_sets(truth)
        budget = min(2, truth.parts)
        winners, whole = problem(case, truth, votes, scores, budget)
        for units in combinations(range(truth.parts), budget):
            freed = np.unique(np.add.outer(units, truth.offsets) % truth.parts)
            lost = [point for point, sets in falls.items() if sets[as_bits(freed)]]
            assert list(whole.lost_to(units)) == lost
            recount = run_off_lost(votes, scores, case["labels"], winners, freed)
            assert np.flatnonzero(recount & truth.right).tolist() == lost
            for point in falls:
                seen[point in lost] += 1
    assert min(seen.values()) > 60


def test_the_search_and_the_programme_equal_enumeration():
    solver, below, spread = find_solver("highs"), 0, 0
    for number, (_case, truth, votes, scores) in enumerate(run_offs(1, 80)):
        for budget in (1, 2, 3):
            if budget > truth.parts:
                continue
            _, whole = problem(_case, truth, votes, scores, budget)
            worst = int(truth.right.sum()) - truth.collective(budget)
            found = whole.search()
            assert found.lost == found.upper == worst == len(whole.lost_to(found.units))
            assert len(found.units) <= budget
            assert worst <= len(whole.points)
            below += worst < len(whole.points)
            spread += len(truth.offsets) > 1
            if number % 4 == 0 and len(whole.points):
                outcome = solver.solve(whole.programme(0), Settings())
                assert outcome.status is Status.OPTIMAL
                assert round(outcome.dual_bound) == worst
                units = whole.attack_in(outcome.solution.point)
                assert len(whole.lost_to(units)) == worst
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
    return votes, scores, run_off_predictions(votes, scores, labels)


@pytest.mark.parametrize(("offsets", "budget"), [((0,), 3), ((0, 3), 1)])
def test_a_search_that_is_cut_short_bounds_from_both_sides(monkeypatch, offsets, budget, snapshot):
    votes, scores, winners = larger(2)
    stakes = run_off_stakes(votes, scores, 4, winners, np.arange(40), budget, offsets)
    whole = RunOffProblem(stakes)
    exact = whole.search()
    assert exact.lost == exact.upper < len(whole.points)
    late = whole.search(Deadline.after(0.0))
    assert late.lost <= exact.lost <= late.upper <= len(whole.points)
    monkeypatch.setattr("leaveout.bab.votes.collective_exact._SEARCH_SECONDS", 0.0)
    solved = worst_attack(whole, find_solver("highs"))
    assert (solved.lower, solved.upper) == (exact.lost, exact.lost)
    assert solved.proof == snapshot
    monkeypatch.setattr(together, "_LARGEST", 10)
    assert whole.programme(0) is None


def test_points_alone_and_some_of_them():
    votes, scores, winners = larger(3)
    whole = RunOffProblem(run_off_stakes(votes, scores, 4, winners, np.arange(40), 3))
    radii = run_off_exact(votes, scores, 4)
    # What is at stake is what demands allow, a little more than what single attacks lose.
    assert set(np.flatnonzero(radii < 3)) <= set(whole.points.tolist())
    some = whole.points[::3]
    part = whole.only(some)
    assert part.points.tolist() == some.tolist()
    units = whole.search().units
    assert part.lost_to(units) == tuple(p for p in whole.lost_to(units) if p in some)
    assert part.search().lost <= whole.search().lost


def test_a_vote_leaves_out_what_survives_by_itself():
    votes, scores, winners = larger(4)
    ballots = Ballots(votes, winners, 4, scores=scores, origin=Origin(method="dpa"))
    vote = RunOffVote(ballots)
    found = vote.together(3).search()
    assert vote.lost_to(found.units) == vote.together(3).lost_to(found.units)
    radii = run_off_exact(votes, scores, 4)
    assert vote.together(3).points.tolist() == np.flatnonzero(radii < 3).tolist()
    assert vote.together(0).search().upper == 0


def test_too_many_ways_to_be_lost_are_refused(monkeypatch, snapshot):
    votes, scores, winners = larger(5)
    monkeypatch.setattr(stakes_file, "_MOST", 1000)
    with pytest.raises(BallotError) as told:
        run_off_stakes(votes, scores, 4, winners, np.arange(40), 3)
    assert str(told.value) == snapshot
