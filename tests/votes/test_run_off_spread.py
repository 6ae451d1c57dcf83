"""Run-offs of spread samples: radii against every ranking of the members that units reach."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.bab.votes.run_off_spread import SpreadRunOff, spread_run_off_published
from leaveout.encoders.votes.run_off import run_off_exact, run_off_predictions, run_off_published
from leaveout.errors import BallotError
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.values import Given
from leaveout.kernel.votes import Vote as CountedVote
from leaveout.models.votes import Ballots, Origin
from leaveout.solvers import find_solver
from leaveout.verifier.values.votes import SpreadRunOffVote
from leaveout.verifier.values.votes.targets import toward

from support.run_offs import run_offs
from support.votes import random_ballots


@pytest.mark.parametrize("searching", [True, False])
def test_radii_are_those_of_every_attack(searching, monkeypatch):
    if not searching:
        # So that programmes alone close them.
        monkeypatch.setattr(SpreadRunOff, "search", lambda *given: None)
    solver, points = find_solver("highs"), 0
    for case, truth, votes, scores in run_offs(0, 40, spread=True):
        published = spread_run_off_published(votes, scores, case["labels"], truth.offsets)
        for point, radius in enumerate(truth.radii):
            found = SpreadRunOff(
                votes[point], scores[point].astype(np.float64), truth.offsets, int(published[point])
            )
            found.search(None)
            found.solve(None, solver, None)
            assert published[point] <= found.lowest == found.highest == radius
            assert len(found.units) == radius + 1
            members, cast, scored = found.changed_ballots()
            ballot, turned = votes[point].copy(), scores[point].copy()
            ballot[members], turned[members] = cast, scored
            after = run_off_predictions(ballot[None], turned[None], case["labels"])[0]
            assert after != truth.ballots[point].before
            points += 1
    assert points > 100


@pytest.mark.parametrize("searching", [True, False])
def test_two_units_that_share_a_member_gain_less_than_both(searching, monkeypatch):
    if not searching:
        monkeypatch.setattr(SpreadRunOff, "search", lambda *given: None)
    # Two units would free the 10 members that are needed, but any two share one.
    offsets, scores = (0, 3, 4, 14, 16), np.zeros((19, 3))
    scores[:, 1], scores[:, 2] = 2.0, 1.0
    votes = np.ones(19, np.int32)
    assert spread_run_off_published(votes[None], scores[None], 3, offsets) == 1
    found = SpreadRunOff(votes, scores, offsets)
    found.search(None)
    found.solve(None, find_solver("highs"), None)
    assert (found.lowest, found.highest) == (2, 2)


def test_a_unit_does_not_serve_two_rounds_at_once():
    # As one edit of parts does not: 0 enters only by a member that preferred it already.
    votes = np.array([1, 1, 1, 1, 2, 2], np.int32)
    scores = np.array([[1, 2, 0]] * 4 + [[1, 0, 2]] * 2, np.float64)
    assert spread_run_off_published(votes[None], scores[None], 3, (0,)) == 0
    found = SpreadRunOff(votes, scores, (0,))
    found.search(None)
    found.solve(None, find_solver("highs"), None)
    assert found.lowest == found.highest == run_off_exact(votes[None], scores[None], 3)[0] == 1


def test_whether_some_number_is_survived_is_known_before_the_radius():
    solver = find_solver("highs")
    for _, truth, votes, scores in run_offs(1, 20, spread=True):
        for point, radius in enumerate(truth.radii):
            for need in range(truth.parts + 1):
                found = SpreadRunOff(votes[point], scores[point].astype(np.float64), truth.offsets)
                found.search(need)
                found.solve(need, solver, None)
                assert found.is_settled(need)
                assert found.lowest <= radius <= found.highest
                assert (found.lowest >= need) == (radius >= need)


def test_with_one_member_a_unit_the_published_bound_is_that_of_parts():
    rng = np.random.default_rng(2)
    for _ in range(60):
        labels, parts = int(rng.integers(2, 6)), int(rng.integers(2, 30))
        votes, _ = random_ballots(rng, 10, parts, labels)
        scores = rng.random((10, parts, labels))
        np.put_along_axis(scores, votes[:, :, None], 2.0, axis=2)
        found = spread_run_off_published(votes, scores, labels, (0,))
        assert (run_off_published(votes, scores, labels) <= found).all()
        assert (found <= run_off_exact(votes, scores, labels)).all()


def larger(points=6, parts=31, offsets=(0, 4, 9)):
    rng = np.random.default_rng(3)
    votes, truth = random_ballots(rng, points, parts, 5)
    scores = rng.random((points, parts, 5))
    np.put_along_axis(scores, votes[:, :, None], 2.0, axis=2)
    origin = Origin(method="finite_aggregation", offsets=offsets, hash_reads_label=False)
    return Ballots(votes, truth, 5, scores=scores, origin=origin)


def test_without_time_bounds_are_open_and_hold():
    ballots = larger()
    exact = SpreadRunOffVote(ballots, find_solver("highs")).radii()
    assert (exact.lower == exact.upper).all()
    late = SpreadRunOffVote(ballots, find_solver("highs")).radii(seconds=0.0)
    assert (late.lower <= exact.lower).all()
    assert (exact.upper <= late.upper).all()
    assert (late.lower < late.upper).any()
    published = SpreadRunOffVote(ballots, find_solver("highs"), published=True).radii()
    assert (published.lower <= exact.lower).all()
    for point in range(ballots.points):
        attack = SpreadRunOffVote(ballots, find_solver("highs")).attack(point)
        assert attack.edits == exact.lower[point] + 1
        assert attack.after != attack.before


def test_what_forces_one_answer_is_refused(snapshot):
    ballots = larger()
    with pytest.raises(BallotError) as told:
        toward(SpreadRunOffVote(ballots, find_solver("highs")), 0)
    assert str(told.value) == snapshot
    with pytest.raises(Rejected) as told:
        CountedVote("spread_run_off", ballots).bounds_to(0, Given({}))
    assert str(told.value) == snapshot


def test_offsets_that_are_not_known_are_asked_for(snapshot):
    ballots = larger()
    unknown = Ballots(
        ballots.votes, ballots.truth, 5, scores=ballots.scores,
        origin=Origin(method="finite_aggregation"),
    )  # fmt: skip
    with pytest.raises(BallotError) as told:
        SpreadRunOffVote(unknown, find_solver("highs"))
    assert str(told.value) == snapshot
