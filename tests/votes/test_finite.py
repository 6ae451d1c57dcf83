"""Finite Aggregation: the published radius is sound and the exact one exact, ties included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numba import njit

from leaveout.bab.votes.finite import (
    attack,
    bracket_radius,
    finite_attack,
    finite_exact,
    finite_published,
    least_whole,
    solve,
)
from leaveout.bab.votes.finite_weights import weighted_bound
from leaveout.encoders.votes import finite
from leaveout.encoders.votes.finite import checked_row, finite_problem
from leaveout.errors import SpecError
from leaveout.solvers import Outcome, Solution, Solver, Status, find_solver


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
    labels, members = int(rng.integers(2, 6)), int(rng.integers(1, most + 1))
    return ballots(rng, members, labels), labels, spread(rng, members, 4)


def hard():
    """A point that neither weights nor exchanges close."""
    rng = np.random.default_rng(14)
    votes = np.where(rng.random(60) < 0.7, 0, rng.integers(0, 3, 60)).astype(np.int32)
    return votes, 3, np.sort(rng.choice(60, 10, replace=False))


def bare(bracket):
    """Forget everything but the point itself."""
    edits, members = np.ones_like(bracket.edits), len(bracket.votes)
    edits[bracket.best] = members + 1
    every = np.arange(members, dtype=np.int32)
    other = np.full_like(bracket.votes, int(bracket.best == 0))
    return replace(bracket, edits=edits, cheapest=members, buckets=every, turned=other)


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
    for _ in range(4000):
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


def test_programmes_weights_and_attacks_agree_with_every_attack_on_a_label():
    rng = np.random.default_rng(2)
    solver = find_solver()
    tight = loose = unfit = 0
    for _ in range(150):
        votes, labels, offsets = case(rng, most=12)
        _, spots, best, gap = checked_row(votes, labels, offsets)
        edits, hits = np.zeros(labels, np.int64), np.zeros((labels, len(votes)), np.int32)
        finite.published_edits(votes, spots, best, gap, hits, edits)
        for label in set(range(labels)) - {best}:
            fewest = least_edits(votes, labels, offsets, label)
            outcome = solver.solve(finite_problem(votes, labels, offsets, label))
            assert round(outcome.solution.objective) == fewest
            short = solver.solve(finite_problem(votes, labels, offsets, label, most=fewest - 1))
            assert short.status is Status.INFEASIBLE
            gain = 1 + (votes == best).astype(np.int64) - (votes == label)
            question = (gain, spots, int(gap[label]))
            proved, _ = weighted_bound(*question, 0, len(votes), 80)
            assert edits[label] <= proved <= fewest
            same, fit = weighted_bound(*question, fewest, fewest + 1, 80)
            assert same == fewest
            left = finite_problem(votes, labels, offsets, label, most=fewest, fit=fit)
            assert solver.solve(left).status is Status.OPTIMAL
            unfit += (~fit).sum()
            found = attack(*question, 0, len(votes), 100)
            assert len(found) >= fewest
            tight += len(found) == fewest
            loose += len(found) > fewest
    assert tight > 20 * loose
    assert unfit > 100


def test_programmes_close_what_cheap_bounds_leave_open():
    votes, labels, offsets = hard()
    known = (0, len(votes) - 1)
    loose = bracket_radius(votes, labels, offsets, known, None)
    assert loose.lower < loose.upper
    solve(loose, None, find_solver(), None)
    assert loose.lower == loose.upper
    # Without any cheap bound, programmes alone find the same.
    alone = bare(loose)
    solve(alone, None, find_solver(), None)
    assert (alone.lower, alone.upper) == (loose.lower, loose.upper)
    assert finite_exact(votes[None], labels, offsets) == (loose.lower, loose.upper)


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


def test_bounds_stay_apart_when_the_time_runs_out():
    votes, labels, offsets = hard()
    radius = int(finite_exact(votes[None], labels, offsets)[0][0])
    for solver, seconds in ((Stopped(-np.inf), None), (Stopped(0.5), 60.0), (None, 0.0)):
        lower, upper = finite_exact(votes[None], labels, offsets, solver=solver, seconds=seconds)
        assert lower[0] <= radius <= upper[0]
        assert lower[0] < upper[0]
        buckets, _ = finite_attack(votes, labels, offsets, solver=solver, seconds=seconds)
        assert len(buckets) == upper[0] + 1


def test_an_attack_that_fails_when_counted_again_bounds_nothing():
    votes, labels, offsets = hard()
    point = np.zeros(2 * len(votes))
    point[3] = 1.0
    bracket = bracket_radius(votes, labels, offsets, (0, 59), None)
    before, liar = bracket.upper, Stopped(-np.inf, point)
    solve(bracket, None, liar, None)
    assert liar.problems
    assert bracket.upper == before


def test_a_dual_bound_counts_only_as_far_as_a_solver_can_be_trusted():
    problem = finite_problem(np.array([0, 0, 0, 1]), 2, [0, 1], 1)
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


def test_no_more_is_closed_than_is_needed():
    votes, labels, offsets = hard()
    radius = int(finite_exact(votes[None], labels, offsets)[0][0])
    loose = bracket_radius(votes, labels, offsets, (0, 59), None)
    idle = Stopped(-np.inf)
    for need in (loose.lower, loose.upper + 1):
        lower, upper = finite_exact(votes[None], labels, offsets, need=need, solver=idle)
        assert lower[0] < upper[0]
    assert not idle.problems
    solve(bare(loose), loose.upper, idle, None)
    assert idle.problems
    assert all(problem.row_upper[-1] == loose.upper + 0.5 for problem in idle.problems)
    lower, upper = finite_exact(votes[None], labels, offsets, need=loose.upper)
    assert (lower[0] >= loose.upper) == (radius >= loose.upper)
    assert (upper[0] < loose.upper) == (radius < loose.upper)


def test_given_bounds_are_where_it_starts(snapshot):
    votes, labels, offsets = hard()
    radius = int(finite_exact(votes[None], labels, offsets)[0][0])
    idle = Stopped(-np.inf)
    bounds = finite_exact(votes[None], labels, offsets, solver=idle, lower=[radius], upper=[radius])
    assert bounds == (radius, radius)
    assert not idle.problems
    for wrong in ({"lower": [radius + 9]}, {"upper": [0]}):
        with pytest.raises(SpecError, match="contradict"):
            finite_exact(votes[None], labels, offsets, solver=idle, **wrong)
    for odd in ([1, 2], [0.5]):
        with pytest.raises(SpecError) as told:
            finite_exact(votes[None], labels, offsets, lower=odd)
        assert str(told.value) == snapshot


def test_an_attack_of_one_bucket_more_changes_the_prediction():
    rng = np.random.default_rng(4)
    for _ in range(250):
        labels, members = int(rng.integers(2, 6)), int(rng.integers(1, 25))
        votes, offsets = ballots(rng, members, labels), spread(rng, members, 4)
        buckets, turned = finite_attack(votes, labels, offsets)
        lower, _ = finite_exact(votes[None], labels, offsets)
        assert len(buckets) == len(set(buckets.tolist())) == lower[0] + 1
        reached = {(h + s) % members for h in buckets.tolist() for s in offsets.tolist()}
        assert set(np.flatnonzero(turned != votes).tolist()) <= reached
        before, after = (np.bincount(each, minlength=labels).argmax() for each in (votes, turned))
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
        assert (np.stack(finite_exact(votes, 5, [offset], seconds=0)) == expected).all()


def test_no_points_have_no_radii():
    none = np.zeros((0, 4), int)
    assert finite_published(none, 2, [0, 1]).shape == (0,)
    assert finite_exact(none, 2, [0, 1])[1].shape == (0,)


@pytest.mark.parametrize(
    ("votes", "labels", "offsets"),
    [
        ([0, 1, 1], 2, [0]),
        ([[]], 2, [0]),
        ([[0, 1, 2]], 2, [0]),
        ([[0, 1, -1]], 2, [0]),
        ([[0.0, 1.0]], 2, [0]),
        ([[0, 0, 0]], 1, [0]),
        ([[0, 1, 1]], 2, []),
        ([[0, 1, 1]], 2, [[0, 1]]),
        ([[0, 1, 1]], 2, [0.5]),
        ([[0, 1, 1]], 2, [1, 1]),
        ([[0, 1, 1]], 2, [0, 3]),
        ([[0, 1, 1]], 2, [-1]),
    ],
)
def test_bad_ballots_are_refused_with_one_error(votes, labels, offsets, snapshot):
    for function in (finite_published, finite_exact):
        with pytest.raises(SpecError) as told:
            function(np.array(votes), labels, offsets)
        assert str(told.value) == snapshot


def test_bad_targets_are_refused(snapshot):
    for target in (0, 2, -1):
        with pytest.raises(SpecError) as told:
            finite_problem(np.array([0, 0, 1]), 2, [0], target)
        assert str(told.value) == snapshot
    with pytest.raises(SpecError) as told:
        finite_problem(np.array([0, 0, 1]), 2, [0], 1, least=2, most=1)
    assert str(told.value) == snapshot
