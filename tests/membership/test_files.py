"""Audit files come back as they were, and what is wrong with one is said."""

import zipfile

import numpy as np
import pytest

from leaveout.errors import AuditError
from leaveout.verifier.audits.membership import Events, Views, join_arms, read_audit, write_audit


def arrays(**changes):
    posteriors = np.array([[0.25, 0.75], [0.5, 0.5], [1, 0], [0.125, 0.875]])
    good = {
        "trial": np.array([0, 0, 7, 7]),
        "forgotten": np.array([True, False, True, False]),
        "label": np.array([0, 1, 1, 0]),
        "unlearned": posteriors,
        "retrained": posteriors[::-1].copy(),
        "original": posteriors,
    }
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def events(**changes):
    good = {
        "event": np.array(["says member"]),
        "unlearned_hits": np.array([1]),
        "unlearned_trials": np.array([5]),
        "retrained_hits": np.array([2]),
        "retrained_trials": np.array([5]),
    }
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def read(tmp_path, content):
    path = tmp_path / "audit.npz"
    np.savez(path, **content)
    return read_audit(path)


def test_what_is_written_is_read(tmp_path):
    views = read(tmp_path, arrays())
    write_audit(views, tmp_path / "again.npz", {"seed": 3})
    again = read_audit(tmp_path / "again.npz")
    assert isinstance(again, Views)
    for name in ("trial", "forgotten", "label", "unlearned", "retrained", "original"):
        assert np.array_equal(getattr(views, name), getattr(again, name))
    assert again.trials.tolist() == [0, 7]
    assert again.place.tolist() == [0, 0, 1, 1]
    counted = read(tmp_path, events())
    write_audit(counted, tmp_path / "events.npz")
    back = read_audit(tmp_path / "events.npz")
    assert isinstance(back, Events)
    assert back.names == ("says member",)
    assert back.retrained_hits.tolist() == [2]


def test_the_same_audit_gives_the_same_bytes(tmp_path):
    views = read(tmp_path, arrays())
    for name in ("a.npz", "b.npz"):
        write_audit(views, tmp_path / name, {"seed": 1})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"retrained": None},
        {"retrainded": np.zeros(4)},
        {"trial": np.array([0.5, 0, 1, 1])},
        {"trial": np.array([0, 0, 1])},
        {"forgotten": np.array([0, 1, 2, 0])},
        {"forgotten": np.array([True, False, False, False])},
        {"forgotten": np.array([True, False, True, True])},
        {"label": np.array([0, 1, 2, 0])},
        {"unlearned": np.full((4, 2), 0.7)},
        {"unlearned": np.full((4, 2), np.nan)},
        {"unlearned": np.array([[1.5, -0.5]] * 4)},
        {"unlearned": np.full((4, 1), 1.0), "retrained": np.full((4, 1), 1.0)},
        {"retrained": np.full((4, 3), 1 / 3)},
        {"retrained": np.ones((4, 2), dtype=int)},
        {name: np.zeros((0, 2)) for name in ("unlearned", "retrained", "original")},
        {"manifest": np.frombuffer(b'{"version": 9}', dtype=np.uint8)},
        {"manifest": np.frombuffer(b"no", dtype=np.uint8)},
    ],
)
def test_views_that_cannot_be_are_refused(tmp_path, changes, snapshot):
    with pytest.raises(AuditError) as raised:
        read(tmp_path, arrays(**changes))
    assert str(raised.value) == snapshot
    assert "audit.npz" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"unlearned_hits": np.array([6])},
        {"retrained_trials": np.array([0])},
        {"retrained_hits": np.array([1, 1])},
        {"event": np.array([3])},
        {"unlearned_trials": None},
        {"unlearned": np.zeros(3)},
    ],
)
def test_events_that_cannot_be_are_refused(tmp_path, changes, snapshot):
    with pytest.raises(AuditError) as told:
        read(tmp_path, events(**changes))
    assert str(told.value) == snapshot


def test_two_events_of_one_name_are_refused(tmp_path, snapshot):
    twice = {name: np.repeat(value, 2) for name, value in events().items()}
    with pytest.raises(AuditError) as told:
        read(tmp_path, twice)
    assert str(told.value) == snapshot


def test_files_that_are_no_archives_are_refused(tmp_path, snapshot):
    with pytest.raises(AuditError) as told:
        read_audit(tmp_path / "absent.npz")
    assert str(told.value) == snapshot
    (tmp_path / "text.npz").write_text("trial,forgotten\n")
    with pytest.raises(AuditError) as told:
        read_audit(tmp_path / "text.npz")
    assert str(told.value) == snapshot
    np.savez(tmp_path / "objects.npz", event=np.array([None]))
    with pytest.raises(AuditError) as told:
        read_audit(tmp_path / "objects.npz")
    assert str(told.value) == snapshot
    with zipfile.ZipFile(tmp_path / "header.npz", "w") as archive:
        archive.writestr("trial.npy", b"\x93NUMPY\x01\x00\x0d\x00{'descr':((((\n")
    with pytest.raises(AuditError) as told:
        read_audit(tmp_path / "header.npz")
    assert str(told.value) == snapshot
    with pytest.raises(AuditError) as told:
        read_audit(tmp_path)
    assert str(told.value) == snapshot


def arm(tmp_path, name, **changes):
    content = arrays(unlearned=None, retrained=None, original=None)
    content["posteriors"] = arrays()["unlearned"]
    np.savez(tmp_path / name, **{**content, **changes})
    return tmp_path / name


def test_posteriors_of_any_method_are_joined(tmp_path):
    original = arrays()["original"]
    first, second = arm(tmp_path, "u.npz", original=original), arm(tmp_path, "r.npz")
    joined = join_arms(first, second)
    assert joined.original is not None
    assert np.array_equal(joined.unlearned, joined.retrained)


@pytest.mark.parametrize(
    "changes",
    [
        {"trial": np.array([0, 0, 7, 8])},
        {"label": np.array([1, 1, 1, 0])},
        {"posteriors": np.full((3, 2), 0.5)},
    ],
)
def test_arms_of_different_rows_are_refused(tmp_path, changes, snapshot):
    first, second = arm(tmp_path, "u.npz"), arm(tmp_path, "r.npz", **changes)
    with pytest.raises(AuditError) as told:
        join_arms(first, second)
    assert str(told.value) == snapshot
