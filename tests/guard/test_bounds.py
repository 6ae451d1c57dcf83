"""``verify --bounds`` writes what was proved of each member."""

from __future__ import annotations

import re

import numpy as np
import pytest

import leaveout
from leaveout.bab.native.files.manifest_parts import box_digest
from leaveout.errors import GuardError, SpecError
from leaveout.verifier.guard import Guard
from leaveout.verifier.guard.access import ProvedBounds, load_access, load_bounds, save_bounds

from support.samples import write_sample

SPEC = """
let N = network("full.onnx")
let F = family("family.npz")
let X = box(0, 1)
"""
BOUND = """
find bound: least b per label such that
    forall x in X, M in F: confidence(N, x) > b => label(M, x) == label(N, x)
"""


def verify(folder, claims, name="b.npz", **options):
    (folder / "b.spec").write_text(SPEC + claims)
    return leaveout.verify(folder / "b.spec", bounds=folder / name, **options)


@pytest.fixture
def folder(leaky, tmp_path):
    for name in ("full.onnx", "family.npz"):
        (tmp_path / name).write_bytes((leaky.folder / name).read_bytes())
    return tmp_path


def test_each_member_is_bounded_by_the_result(folder, snapshot):
    report = verify(folder, BOUND)
    bounds = load_bounds(folder / "b.npz")
    assert bounds.upper.shape == (3, 8)
    for result, upper in zip(report.results, bounds.thresholds):
        assert upper == pytest.approx(result.upper, rel=1e-12)
        assert result.lower <= upper
    assert report.notes == snapshot


@pytest.mark.parametrize("engine", ["native", "lucid"])
def test_bounds_hold_for_each_member(folder, leaky, grid, engine):
    """No leak of a member on a grid is above what is written of that member."""
    verify(folder, BOUND, engine=engine, time=10)
    bounds = load_bounds(folder / "b.npz")
    network, family = leaky.instance.network, leaky.instance.family
    own = network.runner().scores(grid).astype(np.float64)
    labels = own.argmax(axis=1)
    margin = np.sort(own)[:, -1] - np.sort(own)[:, -2]
    leaks = 0
    for member in range(len(family)):
        runner = network.runner({name: stack[0] for name, stack in family.take([member]).items()})
        other = runner.scores(grid).argmax(axis=1)
        for at in np.flatnonzero(other != labels):
            assert margin[at] <= bounds.upper[labels[at], member]
            leaks += 1
    assert leaks > 50


def test_out_of_time_bounds_are_loose_and_sound(folder):
    verify(folder, BOUND, time=0.01, name="loose.npz")
    verify(folder, BOUND, name="tight.npz")
    loose, tight = load_bounds(folder / "loose.npz"), load_bounds(folder / "tight.npz")
    assert (loose.upper >= tight.upper * (1 - 1e-3)).all()


def test_a_label_that_was_not_asked_about_has_a_bound(folder):
    claim = "find one: least b such that forall x in X, M in F: confidence(N, x, 1) > b => "
    verify(folder, claim + "label(M, x) == 1\n")
    upper = load_bounds(folder / "b.npz").upper
    assert (upper[[0, 2]] > 0).all()
    assert np.isfinite(upper).all()


@pytest.mark.parametrize(
    "claims",
    [
        "guarantee g: forall x in X: label(N, x) == 1\n",
        BOUND + BOUND.replace("bound", "again").replace(" in X", " in box(0, 0.5)"),
    ],
)
def test_one_question_is_needed(folder, claims, snapshot):
    with pytest.raises(SpecError) as told:
        verify(folder, claims)
    assert str(told.value) == snapshot
    assert not (folder / "b.npz").exists()


def test_other_files_are_not_written_over(folder, snapshot):
    (folder / "b.npz").write_bytes(b"something else")
    with pytest.raises(SpecError) as told:
        verify(folder, BOUND)
    assert str(told.value) == snapshot
    with pytest.raises(SpecError) as told:
        verify(folder, BOUND, name=".")
    assert str(told.value) == snapshot
    with pytest.raises(SpecError) as told:
        verify(folder, BOUND, name="none/b.npz")
    assert str(told.value) == snapshot


def test_what_is_read_is_what_was_written(leaky, tmp_path):
    bounds = ProvedBounds.of(leaky.instance, [None] * 3)
    save_bounds(tmp_path / "b.npz", bounds)
    again = load_bounds(tmp_path / "b.npz")
    assert (again.network, again.family) == (bounds.network, bounds.family)
    assert box_digest(again.box) == box_digest(bounds.box)
    assert (again.upper == bounds.upper).all()


def test_members_of_a_sample_are_guarded_as_the_refusal_says(tmp_path, snapshot):
    folder = tmp_path / "family"
    spec = write_sample(folder)
    with pytest.raises(SpecError) as told:
        leaveout.verify(spec, bounds=folder / "bounds.npz")
    assert str(told.value) == snapshot
    with pytest.raises(GuardError) as refused:
        load_access(folder)
    assert str(refused.value) == snapshot
    command = f"leaveout verify {folder / 'drawn.spec'} --bounds {folder / 'bounds.npz'}"
    assert command in str(refused.value)
    text = re.sub(r" but [\d.]+| with confidence [\d.]+", "", spec.read_text())
    (folder / "drawn.spec").write_text(text)
    leaveout.verify(folder / "drawn.spec", bounds=folder / "bounds.npz")
    with Guard.load(folder, epsilon=0.2) as guard:
        assert guard.members == 8
        (note,) = (note for note in guard.notes if "8 of 12" in note)
        assert note == snapshot
