"""Bounds of one attack on all points where a search of all attacks does not end."""

from __future__ import annotations

import numpy as np
import pytest

import leaveout.bab.votes.collective_exact as exact
import leaveout.bab.votes.collective_plurality as plurality
import leaveout.bab.votes.collective_plurality as shares
from leaveout.bab.votes.collective import SearchResult
from leaveout.bab.votes.collective_exact import in_batches
from leaveout.bab.votes.collective_plurality import PluralityProblem, search
from leaveout.deadline import Deadline
from leaveout.encoders.votes.collective import stakes_of
from leaveout.encoders.votes.plurality import tally
from leaveout.errors import RejectedError
from leaveout.models.votes import Ballots, Origin, write_ballots
from leaveout.solvers import find_solver
from leaveout.verifier.certify.check import check
from leaveout.verifier.run import verify

from attacks.certificate_content import Content
from support.votes import random_ballots


class Plain:
    """A problem of which nothing is known but what all have; its search of many points gives up."""

    def __init__(self, stakes):
        self.stakes = stakes
        self.whole = PluralityProblem(stakes)

    @property
    def points(self):
        return self.whole.points

    def only(self, points):
        return Plain(self.whole.only(points).stakes)

    def search(self, deadline):
        if len(self.points) > 40:
            return SearchResult((), 0, len(self.points))
        return search(self.stakes, deadline)

    def programme(self, at_least):
        return None

    def attack_in(self, solution):
        raise AssertionError

    def lost_to(self, units):
        return self.whole.lost_to(units)


@pytest.fixture(scope="module")
def stakes():
    votes, truth = random_ballots(np.random.default_rng(3), 150, 14, 3)
    return stakes_of(votes, truth, tally(votes, 3), 4)


def test_batches_bound_any_problem_and_find_attacks(stakes, snapshot):
    told = []
    worst = search(stakes).lost
    found = exact.worst_attack(
        Plain(stakes), find_solver("highs"), Deadline.after(20.0), told.append
    )
    assert worst <= found.upper < stakes.at_stake
    assert 0 < found.lower <= worst
    assert found.proof == snapshot
    assert found.reason.startswith("time: ")
    assert found.upper == found.summed.upper
    assert told[0] == snapshot
    assert f"{stakes.at_stake}" in told[0]
    assert any("batch 1 of" in words for words in told)


def test_shares_and_batches_together_are_no_worse_than_either(stakes):
    problem = PluralityProblem(stakes)
    *_, batches = in_batches(problem, Deadline.after(20.0), lambda words: None)
    alone, both = problem.least_sum(()), problem.least_sum(batches)
    saved = sum(batch.surviving_points for batch in batches)
    assert search(stakes).lost <= both.upper <= min(alone.upper, len(problem.points) - saved)


def test_where_shares_would_fill_memory_batches_have_to_do(stakes, monkeypatch):
    monkeypatch.setattr(shares, "_MOST_GAINS", 10)
    problem = PluralityProblem(stakes)
    assert problem.least_sum(()) is None
    order = problem.hardest_first()
    assert sorted(order) == problem.points.tolist()
    needs = [stakes.needs[stakes.points == point].min() for point in order]
    assert needs == sorted(needs, reverse=True)
    monkeypatch.setattr(plurality, "_LARGEST", 0)
    monkeypatch.setattr(exact, "_SEARCH_SHARE", 0.0)
    found = exact.worst_attack(problem, find_solver("highs"), Deadline.after(20.0))
    assert search(stakes).lost <= found.upper < stakes.at_stake
    assert not found.summed.counted.any()


def test_no_time_leaves_what_single_points_and_shares_survive(stakes):
    found = exact.worst_attack(
        PluralityProblem(stakes), find_solver("highs"), Deadline.after(0.0), lambda words: None
    )
    assert search(stakes).lost <= found.upper <= stakes.at_stake


class Stopped(Plain):
    """The same, where Ctrl-C comes at some search."""

    def __init__(self, stakes, searches):
        super().__init__(stakes)
        self.searches = searches

    def only(self, points):
        return Stopped(super().only(points).stakes, self.searches)

    def search(self, deadline):
        if not self.searches:
            raise KeyboardInterrupt
        self.searches.pop()
        return super().search(deadline)


@pytest.mark.parametrize("searches", [0, 1, 4])
def test_ctrl_c_leaves_what_is_known(stakes, searches, snapshot):
    worst = search(stakes).lost
    problem = Stopped(stakes, [None] * searches)
    found = exact.worst_attack(problem, find_solver("highs"), Deadline.after(20.0))
    assert found.interrupted
    assert found.reason == snapshot
    assert worst <= found.upper <= stakes.at_stake
    assert (found.upper < stakes.at_stake) == (searches == 4)


def test_a_statement_keeps_what_was_known_at_ctrl_c(tmp_path, monkeypatch, stakes):
    def stopped(self, solver, deadline, tell):
        raise KeyboardInterrupt

    monkeypatch.setattr(exact, "_SEARCH_SECONDS", 0.0)
    monkeypatch.setattr(exact._Known, "solve", stopped)
    votes, truth = random_ballots(np.random.default_rng(3), 150, 14, 3)
    write_ballots(Ballots(votes, truth, 3), tmp_path / "b.npz")
    (tmp_path / "a.spec").write_text(
        'let V = ballots("b.npz")\n'
        "guarantee low: collective_accuracy(dpa(V), edits = 4) >= 0.001\n"
        "guarantee high: collective_accuracy(dpa(V), edits = 3) >= 0.9\n"
    )
    report = verify(tmp_path / "a.spec")
    first, second = report.results
    assert 0 < first.lower < first.upper
    assert first.verdict == "proved"
    assert (second.verdict, second.reason) == ("unknown", "time: interrupted")


@pytest.mark.parametrize("sizes", [(), (7, 7)])
def test_a_sum_is_in_the_certificate_and_cannot_be_made_to_say_more(
    tmp_path, monkeypatch, sizes, snapshot
):
    monkeypatch.setattr(exact, "_SEARCH_SECONDS", 0.0)
    monkeypatch.setattr(exact, "_BATCH_SECONDS", 5.0)
    monkeypatch.setattr(plurality, "_LARGEST", 0)
    votes, truth = random_ballots(np.random.default_rng(3), 150, 14, 3)
    write_ballots(Ballots(votes, truth, 3, origin=Origin(families=sizes)), tmp_path / "b.npz")
    vote = "hash_bagging(V)" if sizes else "dpa(V)"
    (tmp_path / "a.spec").write_text(
        f'let V = ballots("b.npz") guarantee g: collective_accuracy({vote}, edits = 2) >= 0.01'
    )
    told = []
    report = verify(
        tmp_path / "a.spec",
        certificate=tmp_path / "a.cert",
        progress=lambda name, each: told.append((name, each.words)),
    )
    (result,) = report.results
    assert result.lower < result.upper
    assert told[0][0] == "g"
    assert told[0][1] == snapshot
    assert [each.name for each in check(tmp_path / "a.cert")] == ["g"]
    forged = 0
    for name in ("upper", "uppers"):
        content = Content.of(tmp_path / "a.cert")
        (place,) = (each for each in content.arrays if each.endswith(name))
        (taken,) = (array for each, array in content.arrays.items() if each.endswith("taken"))
        if content.arrays[place].any() and (name != "uppers" or taken.any()):
            content.arrays[place] = np.zeros_like(content.arrays[place])
            content.save(tmp_path / "false.cert")
            with pytest.raises(RejectedError) as refused:
                check(tmp_path / "false.cert")
            assert str(refused.value) == snapshot
            forged += 1
    assert forged
