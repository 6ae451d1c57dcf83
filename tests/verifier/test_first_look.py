"""Of a large family something is known of every label early, and no bound is another for it."""

from __future__ import annotations

import numpy as np
import pytest

import leaveout
from leaveout.bab import NativeOptions, SearchResult, make_instance, search_native
from leaveout.encoders import Box
from leaveout.models.onnx.file import network_from
from leaveout.verifier.points.network_leaks import quick_bounds
from leaveout.verifier.points.row_bounds import Kept, with_member_bounds

from support import networks
from support.cases import BruteForce, family_of, question
from support.files import write_question


@pytest.fixture
def large(monkeypatch):
    """Any family counts as large."""
    monkeypatch.setattr("leaveout.bab.native.leaks._BY_PATH", 0)


def test_nothing_is_looked_at_where_a_search_opens_at_once():
    assert quick_bounds(question(3), 0, NativeOptions(), 10.0) is None


@pytest.mark.parametrize("seed", range(4))
def test_a_look_bounds_all_leaks_from_both_sides(large, seed):
    instance = question(seed)
    brute = BruteForce.of(instance, 2000)
    for label in range(instance.labels):
        found = quick_bounds(instance, label, NativeOptions(), None)
        assert found is not None
        assert found.lower <= found.upper
        assert brute.best[label] <= found.upper
        assert (found.member_upper >= found.upper).all()
        assert (found.witness is None) == (found.lower == 0.0)
        assert not found.closed or found.upper == 0.0


def test_labels_that_come_later_are_looked_at_first(large, tmp_path):
    told = []
    file = write_question(tmp_path)
    early = leaveout.verify(
        file, workers=1, progress=lambda name, now: told.append((now.label, now.lower, now.upper))
    )
    assert [each.verdict for each in early.results] == ["proved", "proved"]
    second = [each for each in told if each[0] == 1]
    # Its own search already begins with what was found.
    assert second[0][1] > 0.0
    assert second[0][1] <= early.results[1].upper <= second[0][2]


def test_workers_that_were_started_early_prove_the_same(large):
    rng = np.random.default_rng(2)
    network = network_from(networks.dense(rng, (2, 4, 4, 2), 1.0), "random")
    family = family_of(rng, network, 40, 0.1)
    instance = make_instance(network, family, Box(np.zeros(2), np.ones(2)))
    one, two = (search_native(instance, 0, NativeOptions(workers=count)) for count in (1, 2))
    assert one.closed and two.closed
    assert one.lower <= two.upper and two.lower <= one.upper


def test_what_is_known_of_rows_lowers_bounds_of_members_and_raises_none():
    result = look_like(np.array([3.0, 2.0, 1.0, 0.5]))
    kept = Kept(np.array([2.5, np.inf, -1.0, 0.7]))
    assert with_member_bounds(result, kept).member_upper.tolist() == [2.5, 2.0, 0.0, 0.5]


def look_like(upper):
    return SearchResult(0, 0.0, 3.0, None, False, "time", "", upper, 0, 0.0)
