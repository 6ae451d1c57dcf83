"""``idp(access(...), epsilon = ...)``: proved anew, refuted by a leak that would be answered."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

import leaveout
from leaveout.errors import SpecError
from leaveout.verifier.guard import Guard
from leaveout.verifier.guard.access import load_bounds, save_bounds

from support.children import HANGS

CLAIM = 'let A = access("served")\nguarantee private: idp(A, epsilon = 0.2)\n'


@pytest.fixture
def folder(leaky, tmp_path):
    shutil.copytree(leaky.folder, tmp_path / "served", ignore=lambda *_: ["answers.sqlite"])
    (tmp_path / "a.spec").write_text(CLAIM)
    return tmp_path


def set_upper(folder, change):
    path = folder / "served" / "bounds.npz"
    bounds = load_bounds(path)
    save_bounds(path, replace(bounds, upper=change(bounds.upper)))


def verify(folder, **options):
    report = leaveout.verify(folder / "a.spec", **options)
    return report.results[0], report.notes


def test_proved(folder, snapshot):
    result, notes = verify(folder, time=HANGS)
    assert result.verdict == "proved"
    assert notes[0] == snapshot
    assert notes == snapshot


@pytest.mark.parametrize(("served_at", "told"), [(0.2, False), (0.5, True)])
def test_a_claim_about_another_epsilon_than_the_one_served_says_so(
    folder, grid, served_at, told, snapshot
):
    with Guard.load(folder / "served", served_at) as guard:
        guard.answers(grid)
    result, notes = verify(folder, time=HANGS)
    assert result.verdict == "proved"
    assert any("epsilon = 0.5" in note for note in notes) is told
    assert notes == snapshot


def test_higher_bounds_are_proved_too(folder):
    set_upper(folder, lambda upper: upper * 2)
    assert verify(folder, time=HANGS)[0].verdict == "proved"


@pytest.mark.parametrize("factor", [0.0, 0.5, 0.97])
def test_lower_bounds_are_refuted_by_what_the_guard_gives_away(folder, leaky, factor, snapshot):
    set_upper(folder, lambda upper: upper * factor)
    result, _ = verify(folder, time=HANGS)
    assert result.verdict == "refuted"
    facts = result.example.facts
    x = np.array(facts["x"].split(), np.float32)
    labels, leaks = leaky.truth(x[None])
    assert leaks[0] and labels[0] == facts["label"]
    with Guard.load(folder / "served", 0.2) as guard:
        assert guard.inspect(x[None]).leaks[0] == np.False_  # it does not see the leak
    assert result.example.words == snapshot


@pytest.mark.parametrize(("label", "member"), [(0, 3), (1, 0), (2, 7)])
def test_one_bound_of_one_member_too_low_is_seen(folder, leaky, grid, label, member, snapshot):
    """It is proved only if that member has no leak with that label at all."""

    def lower(upper):
        changed = upper.copy()
        changed[label, member] = 0.0
        return changed

    set_upper(folder, lower)
    result, _ = verify(folder, time=HANGS)
    network, family = leaky.instance.network, leaky.instance.family
    runner = network.runner({name: stack[0] for name, stack in family.take([member]).items()})
    own = network.runner().scores(grid).argmax(axis=1)
    leaks = (own == label) & (runner.scores(grid).argmax(axis=1) != label)
    if leaks.any():
        assert result.verdict in ("refuted", "unknown")
        if result.verdict == "unknown":
            assert result.reason == snapshot


def test_out_of_time_is_unknown(folder):
    set_upper(folder, lambda upper: upper * 0.999999)
    result, _ = verify(folder, time=1e-3)
    assert (result.verdict, result.reason.split(":")[0]) == ("unknown", "time")


def test_another_network_is_bad_input(folder, snapshot):
    path = folder / "served" / "bounds.npz"
    save_bounds(path, replace(load_bounds(path), network="0" * 64))
    with pytest.raises(SpecError) as told:
        verify(folder)
    # The rest is cut where the path is long.
    assert str(told.value).partition("--bounds")[0] == snapshot


@pytest.mark.parametrize("claim", ["idp(A)", "idp(A, 0.2)", "idp(A, epsilon = -1)"])
def test_it_is_checked(folder, claim):
    (folder / "a.spec").write_text(CLAIM.replace("idp(A, epsilon = 0.2)", claim))
    with pytest.raises(SpecError):
        verify(folder)
