"""Races between ways to split: whoever wins, nothing is lost, and a certificate holds."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.bab import NativeOptions, search_native
from leaveout.bab.native import split_race as race
from leaveout.bab.native.explorer import Explorer
from leaveout.bab.native.leaks import Leaks
from leaveout.bab.native.split_race import Race
from leaveout.bab.native.workers.worker import Worker
from leaveout.verifier.checker import check

from support.cases import BruteForce, leaky, question
from support.certificates import write


@pytest.fixture
def often(monkeypatch):
    """Race from the start, and again and again."""
    monkeypatch.setattr(race, "_FIRST", 1)
    monkeypatch.setattr(race, "_AGAIN", 1)
    monkeypatch.setattr(race, "_NODES", 4)
    monkeypatch.setattr(race, "_LENGTH", 16)
    held = []
    adopt = Explorer.adopt

    def counted(self, nodes, side):
        held.append(side.brancher.ties)
        adopt(self, nodes, side)

    monkeypatch.setattr(Explorer, "adopt", counted)
    return held


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_bounds_hold_whoever_wins(often, monkeypatch, start):
    for seed in range(start, start + 10):
        rng = np.random.default_rng(seed)
        monkeypatch.setattr(race, "_is_ahead", lambda *_, rng=rng: bool(rng.random() < 0.5))
        instance = question(seed)
        best = BruteForce.of(instance, 4000).best
        for label in range(instance.labels):
            found = search_native(instance, label, NativeOptions(nodes=5_000))
            assert found.upper >= best[label]
            assert (found.member_upper <= found.upper).all()
            assert not found.contradicted
    assert often


def test_a_certificate_holds_what_the_winners_proved(often, monkeypatch, tmp_path):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        monkeypatch.setattr(race, "_is_ahead", lambda *_, rng=rng: bool(rng.random() < 0.5))
        written = write(tmp_path / str(seed), seed, ties=False)
        worst = BruteForce.of(written.instance, 4000).best
        for each in check(written.path):
            assert each.upper >= worst[each.label], seed
    assert set(often) == {True, False}


def test_the_side_that_is_lower_wins(often):
    instance, label = leaky()
    own_worker = Worker(Leaks(instance, label), NativeOptions(), 0, 1)
    own_worker.start(0.0)
    contest = Race()
    while not often:
        before = own_worker.explorer.value
        contest.step(own_worker.explorer, 0.0, 0.01)
        assert own_worker.explorer.value <= before + 1e-12


def test_a_race_that_is_stopped_keeps_what_its_leader_did(often, monkeypatch):
    monkeypatch.setattr(race, "_LENGTH", 10**6)
    instance, label = leaky()
    worst = BruteForce.of(instance, 4000)
    own_worker = Worker(Leaks(instance, label), NativeOptions(), 0, 1)
    own_worker.start(0.0)
    for _ in range(4):
        own_worker.step(0.0, 0.05)
        bounded = own_worker.explorer.bounded
        state = own_worker.save()
        own_worker.saved()
        assert state.bounded >= bounded
        values = np.maximum(own_worker.member_values(), 0.0)
        assert (values >= np.array(worst.member[label]) - 1e-12).all()
    assert often


def test_members_and_neighbours_of_the_nodes_raced_on_keep_their_bounds(often):
    """What is not raced on stays in the frontier, and counts while a race goes on."""
    for seed in range(6):
        instance = question(seed)
        worst = BruteForce.of(instance, 4000)
        own_worker = Worker(Leaks(instance, 0), NativeOptions(), 0, 1)
        own_worker.start(0.0)
        for _ in range(30):
            own_worker.step(0.0, 0.01)
            values = np.maximum(own_worker.member_values(), 0.0)
            assert (values >= np.array(worst.member[0]) - 1e-12).all()
