"""Run-offs of spread samples: radii against every ranking of the members that units reach."""

from __future__ import annotations

import numpy as np
import pytest

import leaveout.bab.votes.fewest as fewest
from leaveout.deadline import NEVER
from leaveout.errors import BallotError
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.schemes import published_run_offs, run_off_answers, run_off_radii
from leaveout.kernel.values import Given
from leaveout.kernel.voting import Vote as CountedVote
from leaveout.models.votes import Ballots, Origin
from leaveout.solvers import find_solver
from leaveout.verifier.values.votes import Vote
from leaveout.verifier.values.votes.targets import toward
from leaveout.verifier.values.votes.vote import kernel_ballots

from support.counted import vote_of_arrays
from support.run_offs import run_offs
from support.votes import random_ballots


def spread(votes, scores, labels, offsets):
    given = {"scores": scores, "offsets": tuple(offsets)}
    return vote_of_arrays("spread_run_off", votes, labels, **given)


def published_of(votes, scores, labels, offsets):
    answers = run_off_answers(votes, scores, labels)
    return published_run_offs(votes, scores, labels, answers, tuple(offsets))


@pytest.fixture(params=[True, False])
def searching(request, monkeypatch):
    """Whether greedy attacks and trees are tried; else programmes alone close bounds."""
    if not request.param:
        monkeypatch.setattr(fewest.Fewest, "search", lambda *given: None)


def test_radii_are_those_of_every_attack(searching):
    solver, points = find_solver("highs"), 0
    for case, truth, votes, scores in run_offs(0, 40, spread=True):
        vote = spread(votes, scores.astype(np.float64), case["labels"], truth.offsets)
        published = vote.counted.radii
        for point, radius in enumerate(truth.radii):
            found = vote.fewest(point)
            assert published[point] <= radius
            found.search(None)
            found.solve(None, solver, NEVER)
            assert found.lower == found.upper == radius
            assert len(found.choices) == radius + 1
            attack = vote.attack(point)
            ballot, turned = votes[point].copy(), scores[point].copy()
            members = list(attack.members)
            ballot[members] = attack.votes
            turned[members] = np.eye(case["labels"])[list(attack.votes)]
            after = run_off_answers(ballot[None], turned[None], case["labels"])[0]
            assert after == attack.after != truth.ballots[point].before
            points += 1
    assert points > 100


def test_two_units_that_share_a_member_gain_less_than_both(searching):
    # Two units would free the 10 members that are needed, but any two share one.
    offsets, scores = (0, 3, 4, 14, 16), np.zeros((1, 19, 3))
    scores[..., 1], scores[..., 2] = 2.0, 1.0
    vote = spread(np.ones((1, 19), np.int32), scores, 3, offsets)
    assert vote.counted.radii.tolist() == [1]
    found = vote.fewest(0)
    found.search(None)
    found.solve(None, find_solver("highs"), NEVER)
    assert (found.lower, found.upper) == (2, 2)


def test_a_unit_does_not_serve_two_rounds_at_once():
    # As one edit of parts does not: 0 enters only by a member that preferred it already.
    votes = np.array([[1, 1, 1, 1, 2, 2]], np.int32)
    scores = np.array([[[1, 2, 0]] * 4 + [[1, 0, 2]] * 2], np.float64)
    vote = spread(votes, scores, 3, (0,))
    assert vote.counted.radii.tolist() == [0]
    assert vote.radii().lower == vote.radii().upper == run_off_radii(votes, scores, 3) == 1


def test_whether_some_number_is_survived_is_known_before_the_radius():
    solver = find_solver("highs")
    for case, truth, votes, scores in run_offs(1, 12, spread=True):
        for point, radius in enumerate(truth.radii):
            for need in range(truth.parts + 1):
                vote = spread(votes, scores.astype(np.float64), case["labels"], truth.offsets)
                found = vote.fewest(point)
                found.search(need)
                found.solve(need, solver, NEVER)
                assert found.is_settled(need)
                assert found.lower <= radius <= found.upper
                assert (found.lower >= need) == (radius >= need)


def test_with_one_member_a_unit_the_published_bound_is_no_more_than_that_of_parts():
    rng = np.random.default_rng(2)
    for _ in range(60):
        labels, parts = int(rng.integers(2, 6)), int(rng.integers(2, 30))
        votes, _ = random_ballots(rng, 10, parts, labels)
        scores = rng.random((10, parts, labels))
        np.put_along_axis(scores, votes[:, :, None], 2.0, axis=2)
        found = published_of(votes, scores, labels, (0,))
        assert (found <= run_off_radii(votes, scores, labels)).all()


def larger(points=6, parts=31, offsets=(0, 4, 9)):
    rng = np.random.default_rng(3)
    votes, truth = random_ballots(rng, points, parts, 5)
    scores = rng.random((points, parts, 5))
    np.put_along_axis(scores, votes[:, :, None], 2.0, axis=2)
    origin = Origin(method="finite_aggregation", offsets=offsets, hash_reads_label=False)
    return Ballots(votes, truth, 5, scores=scores, origin=origin)


def test_without_time_bounds_are_open_and_hold():
    ballots = larger()
    exact = Vote("spread_run_off", ballots, find_solver("highs")).radii()
    assert (exact.lower == exact.upper).all()
    late = Vote("spread_run_off", ballots, find_solver("highs")).radii(seconds=0.0)
    assert (late.lower <= exact.lower).all()
    assert (exact.upper <= late.upper).all()
    assert (late.lower < late.upper).any()
    published = Vote("spread_run_off", ballots, find_solver("highs"), published=True).radii()
    assert (published.lower <= exact.lower).all()
    for point in range(ballots.points):
        attack = Vote("spread_run_off", ballots, find_solver("highs")).attack(point)
        assert attack.edits == exact.lower[point] + 1
        assert attack.after != attack.before


def test_what_forces_one_answer_is_refused(snapshot):
    ballots = larger()
    with pytest.raises(BallotError) as told:
        toward(Vote("spread_run_off", ballots, find_solver("highs")), 0)
    assert str(told.value) == snapshot
    with pytest.raises(Rejected) as told:
        CountedVote("spread_run_off", kernel_ballots(ballots)).bounds_to(0, Given({}))
    assert str(told.value) == snapshot


def test_offsets_that_are_not_known_are_asked_for(snapshot):
    ballots = larger()
    unknown = Ballots(
        ballots.votes, ballots.truth, 5, scores=ballots.scores,
        origin=Origin(method="finite_aggregation"),
    )  # fmt: skip
    with pytest.raises(BallotError) as told:
        Vote("spread_run_off", unknown, find_solver("highs"))
    assert str(told.value) == snapshot
