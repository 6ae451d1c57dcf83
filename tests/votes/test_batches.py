"""Bounds of one attack on all points where a search of all attacks does not end."""

from __future__ import annotations

import numpy as np
import pytest

import leaveout.bab.votes.collective as exact
from leaveout.bab.votes.collective import in_batches, least_sum
from leaveout.bab.votes.search import SearchResult, search
from leaveout.deadline import Deadline
from leaveout.errors import RejectedError
from leaveout.models.votes import Ballots, Origin, write_ballots
from leaveout.solvers import find_solver
from leaveout.verifier.certify.check import check
from leaveout.verifier.run import verify

from attacks.certificate_content import Content
from support.counted import stake_of
from support.votes import random_ballots


@pytest.fixture(scope="module")
def stake():
    votes, truth = random_ballots(np.random.default_rng(3), 150, 14, 3)
    return stake_of(votes, truth, 3, 4)


@pytest.fixture
def gives_up(monkeypatch):
    """The search of many points gives up, and there are neither shares nor a programme."""

    def short(stake, deadline):
        if stake.count > 40:
            return SearchResult((), 0, stake.count, 1.0)
        return search(stake, deadline)

    monkeypatch.setattr(exact, "search", short)
    monkeypatch.setattr(exact, "_LARGEST_SUM", 0)
    monkeypatch.setattr(exact, "_LARGEST_PROGRAMME", 0)


def test_batches_bound_any_problem_and_find_attacks(stake, gives_up, snapshot):
    told = []
    worst = search(stake).lost
    found = exact.worst_attack(stake, find_solver("highs"), Deadline.after(20.0), told.append)
    assert worst <= found.upper < stake.count
    assert 0 < found.lower <= worst
    assert found.proof == snapshot
    assert found.reason.startswith("time: ")
    assert found.upper == found.summed.upper
    assert not found.summed.counted.any()
    assert told[0] == snapshot
    assert f"{stake.count}" in told[0]
    assert any("batch 1 of" in words for words in told)


def test_shares_and_batches_together_are_no_worse_than_either(stake):
    *_, batches = in_batches(stake, Deadline.after(20.0), lambda words: None)
    alone, both = least_sum(stake), least_sum(stake, batches)
    saved = sum(batch.surviving_points for batch in batches)
    assert search(stake).lost <= both.upper <= min(alone.upper, stake.count - saved)


def test_where_shares_would_fill_memory_there_is_no_sum(stake, monkeypatch):
    monkeypatch.setattr(exact, "_LARGEST_SUM", 10)
    assert least_sum(stake) is None


def test_no_time_leaves_what_single_points_and_shares_survive(stake):
    found = exact.worst_attack(stake, find_solver("highs"), Deadline.after(0.0))
    assert search(stake).lost <= found.upper <= stake.count


@pytest.mark.parametrize("searches", [0, 1, 4])
def test_ctrl_c_leaves_what_is_known(stake, gives_up, monkeypatch, searches, snapshot):
    left, short = [None] * searches, exact.search

    def stopped(stake, deadline):
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return short(stake, deadline)

    monkeypatch.setattr(exact, "search", stopped)
    found = exact.worst_attack(stake, find_solver("highs"), Deadline.after(20.0))
    assert found.interrupted
    assert found.reason == snapshot
    assert search(stake).lost <= found.upper <= stake.count
    assert (found.upper < stake.count) == (searches == 4)


def test_a_statement_keeps_what_was_known_at_ctrl_c(tmp_path, monkeypatch):
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
    monkeypatch.setattr(exact, "_LARGEST_PROGRAMME", 0)
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
