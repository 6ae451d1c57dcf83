"""Finite Aggregation: the published radius is sound and the exact one exact, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

import leaveout.bab.votes.fewest as fewest
from leaveout.bab.votes.fewest import least_whole
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders.votes.programme import fewest_choices_problem
from leaveout.solvers import Outcome, Solution, Solver, Status, find_solver

from support.counted import finite_exact, finite_published, passing_stake, vote_of_arrays
from support.depth import rounds


def ballots(rng, members, labels):
    """Draw one point's votes, at times with a favourite or two."""
    votes = rng.integers(0, labels, members)
    for _ in range(rng.integers(3)):
        votes[rng.random(members) < rng.random()] = rng.integers(labels)
    return votes.astype(np.int32)


def spread(rng, members, most):
    """Draw distinct offsets."""
    return rng.choice(members, int(rng.integers(1, min(most, members) + 1)), replace=False)


def case(rng, most=9):
    labels, members = int(rng.integers(2, 6)), int(rng.integers(2, most + 1))
    return ballots(rng, members, labels), labels, spread(rng, members, 4)


def hard():
    """A point that neither weights nor exchanges close."""
    rng = np.random.default_rng(14)
    votes = np.where(rng.random(60) < 0.7, 0, rng.integers(0, 3, 60)).astype(np.int32)
    return votes, 3, np.sort(rng.choice(60, 10, replace=False))


def bounds_at(votes, labels, offsets):
    """Return bounds of one answer before any search."""
    vote = vote_of_arrays("finite_aggregation", votes[None], labels, offsets=offsets)
    return vote.fewest(0)


@njit
def passes(kept, free, before, target):
    """Whether some votes of the free members put the target, or any label, before the prediction.

    Every vote of theirs is tried, in non-decreasing order.
    """
    turned = np.zeros(free, np.int64)
    while True:
        after = kept.copy()
        for vote in turned:
            after[vote] += 1
        if target < 0 and np.argmax(after) != before:
            return True
        if target >= 0 and after[target] - after[before] >= (target > before):
            return True
        i = free - 1
        while i >= 0 and turned[i] == len(kept) - 1:
            i -= 1
        if i < 0:
            return False
        turned[i:] = turned[i] + 1


@njit
def least_edits(votes, labels, offsets, target):
    """Enumerate every set of buckets, small ones first, and every vote of the members it reaches.

    Returns the size of the smallest set that puts the target before the prediction, or any label
    where the target is -1.
    """
    members = len(votes)
    counts = np.zeros(labels, np.int64)
    for vote in votes:
        counts[vote] += 1
    for size in range(1, members + 1):
        subset = np.arange(size)
        while True:
            reached = np.zeros(members, np.bool_)
            for h in subset:
                for offset in offsets:
                    reached[(h + offset) % members] = True
            kept, free = counts.copy(), 0
            for i in range(members):
                if reached[i]:
                    kept[votes[i]] -= 1
                    free += 1
            if passes(kept, free, np.argmax(counts), target):
                return size
            i = size - 1
            while i >= 0 and subset[i] == members - size + i:
                i -= 1
            if i < 0:
                break
            subset[i:] = np.arange(subset[i] + 1, subset[i] + 1 + size - i)
    return members + 1


def test_radii_are_those_of_every_attack():
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(rounds(1000)):
        votes, labels, offsets = case(rng)
        radius = least_edits(votes, labels, offsets, -1) - 1
        published = finite_published(votes[None], labels, offsets)[0]
        lower, upper = finite_exact(votes[None], labels, offsets)
        assert published <= radius, (votes, offsets)
        assert lower[0] == upper[0] == radius, (votes, offsets)
        seen.add(radius)
    assert len(seen) > 3


def test_radii_are_those_of_every_attack_where_all_buckets_overlap():
    rng = np.random.default_rng(7)
    above = 0
    for _ in range(400):
        votes, offsets = np.zeros(19, np.int32), rng.choice(19, 5, replace=False)
        votes[rng.integers(0, 19, rng.integers(0, 3))] = rng.integers(0, 3)
        radius = least_edits(votes, 3, offsets, -1) - 1
        published = finite_published(votes[None], 3, offsets)[0]
        assert published <= radius
        assert finite_exact(votes[None], 3, offsets) == (radius, radius)
        above += radius > published
    assert above > 5


def test_programmes_agree_with_every_attack_on_a_label():
    rng = np.random.default_rng(2)
    solver = find_solver()
    for _ in range(60):
        votes, labels, offsets = case(rng, most=12)
        before, members = int(np.bincount(votes, minlength=labels).argmax()), len(votes)
        for label in set(range(labels)) - {before}:
            least = least_edits(votes, labels, offsets, label)
            stake = passing_stake(votes, labels, label, members, tuple(offsets.tolist()))
            outcome = solver.solve(fewest_choices_problem(stake, 0, members))
            assert round(outcome.solution.objective) == least
            short = solver.solve(fewest_choices_problem(stake, 0, least - 1))
            assert short.status is Status.INFEASIBLE


@pytest.mark.parametrize("work", [0.0, 2e7])
def test_trees_and_programmes_close_what_greedy_attacks_leave_open(monkeypatch, work):
    monkeypatch.setattr(fewest, "_WORK", work)
    votes, labels, offsets = hard()
    found = bounds_at(votes, labels, offsets)
    found.search(None)
    assert work or found.lower < found.upper
    found.solve(None, find_solver(), NEVER)
    assert found.lower == found.upper == least_edits(votes, labels, offsets, -1) - 1
    stake = found.stake_at(len(found.choices))
    assert len(stake.lost_points(found.choices))


class Stopped(Solver):
    """A solver that is always stopped, with the bound and the point it is told to give."""

    name = package = distribution = "stopped"
    features = frozenset()

    def __init__(self, bound, point=None):
        self.bound, self.point, self.problems = bound, point, []

    def solve(self, problem, settings=None):
        self.problems.append(problem)
        point = None if self.point is None else Solution(self.point, problem.value(self.point))
        return Outcome(Status.STOPPED, point, self.bound)


def test_bounds_stay_apart_when_the_time_runs_out(monkeypatch):
    votes, labels, offsets = hard()
    radius = int(finite_exact(votes[None], labels, offsets)[0][0])
    monkeypatch.setattr(fewest, "_WORK", 0.0)
    for solver, seconds in ((Stopped(-np.inf), None), (Stopped(0.5), 60.0), (None, 0.0)):
        lower, upper = finite_exact(votes[None], labels, offsets, solver=solver, seconds=seconds)
        assert lower[0] <= radius <= upper[0]
        assert lower[0] < upper[0]


def test_an_attack_that_fails_when_counted_again_bounds_nothing(monkeypatch):
    monkeypatch.setattr(fewest, "_WORK", 0.0)
    votes, labels, offsets = hard()
    point = np.zeros(2 * len(votes))
    point[3] = 1.0
    found, liar = bounds_at(votes, labels, offsets), Stopped(-np.inf, point)
    found.search(None)
    before = found.lower, found.upper
    found.solve(None, liar, NEVER)
    assert liar.problems
    assert (found.lower, found.upper) == before


def test_a_dual_bound_counts_only_as_far_as_a_solver_can_be_trusted():
    stake = passing_stake(np.array([0, 0, 0, 1], np.int32), 2, 1, 4, (0, 1))
    problem = fewest_choices_problem(stake, 0, 4)
    for bound, least in ((3.0, 3), (3 + 1e-5, 3), (3.01, 4), (2.4, 3), (-np.inf, -np.inf)):
        assert least_whole(problem, Stopped(bound), None) == (least, None)


def test_what_is_needed_is_decided_without_closing_the_rest():
    rng = np.random.default_rng(3)
    votes = np.stack([ballots(rng, 40, 4) for _ in range(60)] + [np.zeros(40, np.int32)])
    offsets = np.array([0, 3, 11, 17])
    radii = finite_exact(votes, 4, offsets)[0]
    for need in (0, 1, 3, 5):
        lower, upper = finite_exact(votes, 4, offsets, need=need)
        assert (lower <= radii).all()
        assert (radii <= upper).all()
        assert ((lower >= need) == (radii >= need)).all()
        assert ((upper < need) == (radii < need)).all()


def test_no_more_is_closed_than_is_needed(monkeypatch):
    monkeypatch.setattr(fewest, "_WORK", 0.0)
    votes, labels, offsets = hard()
    loose, idle = bounds_at(votes, labels, offsets), Stopped(-np.inf)
    loose.search(None)
    assert loose.lower < loose.upper
    for need in (loose.lower, loose.upper + 1):
        lower, upper = finite_exact(votes[None], labels, offsets, need=need, solver=idle)
        assert lower[0] < upper[0]
    assert not idle.problems
    loose.solve(loose.upper, idle, Deadline.after(60.0))
    assert idle.problems
    assert all(problem.row_upper[-1] == loose.upper + 0.5 for problem in idle.problems)


def test_an_attack_of_one_bucket_more_changes_the_prediction():
    rng = np.random.default_rng(4)
    for _ in range(150):
        labels, members = int(rng.integers(2, 6)), int(rng.integers(2, 25))
        votes, offsets = ballots(rng, members, labels), spread(rng, members, 4)
        vote = vote_of_arrays("finite_aggregation", votes[None], labels, offsets=offsets)
        attack = vote.attack(0)
        assert attack.edits == len(set(attack.poisoned)) == vote.radii().lower[0] + 1
        reached = {(h + s) % members for h in attack.poisoned for s in offsets.tolist()}
        assert set(attack.members) <= reached
        turned = votes.copy()
        turned[list(attack.members)] = attack.votes
        before, after = (np.bincount(each, minlength=labels).argmax() for each in (votes, turned))
        assert (before, after) == (attack.before, attack.after)
        assert before != after


def test_a_ballot_survives_more_than_is_published():
    # Two buckets of five members gain 10 each, of the 20 needed, but any two share a member.
    votes, offsets = np.zeros((1, 19), int), [0, 3, 4, 14, 16]
    assert {(s - t) % 19 for s in offsets for t in offsets} == set(range(19))
    assert finite_published(votes, 2, offsets) == 1
    assert finite_exact(votes, 2, offsets) == (2, 2)


def test_a_bucket_a_member_is_the_plurality_radius():
    rng = np.random.default_rng(6)
    votes = np.stack([ballots(rng, 31, 5) for _ in range(50)])
    counts = np.stack([np.bincount(row, minlength=5) for row in votes])
    best = counts.argmax(axis=1)
    gap = counts[np.arange(50), best][:, None] - counts - (np.arange(5) < best[:, None])
    gap[np.arange(50), best] = 99
    expected = gap.min(axis=1) // 2
    for offset in (0, 7):
        assert (finite_published(votes, 5, [offset]) == expected).all()
        assert (np.stack(finite_exact(votes, 5, [offset])) == expected).all()
