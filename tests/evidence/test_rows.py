"""What is said of each row, held against every member asked by itself through onnxruntime."""

from __future__ import annotations

import msgspec
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leaveout
from leaveout.bab import Replayer, make_instance
from leaveout.bab.attack.leak_attack import find_leak
from leaveout.encoders import Box
from leaveout.models import Family, save_family_file
from leaveout.models.replay import with_parameters
from leaveout.verifier.rows.known import rows
from leaveout.verifier.rows.search import search_rows

from support.clinic import write_clinic
from support.files import BOUND, write_question
from support.rows import loaded, margin, points, saved, scores_of


@pytest.mark.parametrize("seed", [4, 6, 8])
def test_no_leak_of_a_member_is_above_its_rows_bound(tmp_path, seed):
    report = saved(leaveout.verify(write_question(tmp_path, seed=seed)), tmp_path / "r.json")
    network, family = loaded(tmp_path)
    found = {each.row: each for each in report.rows()}
    box = Box(np.zeros(network.inputs), np.ones(network.inputs))
    x = points(tmp_path, 600, low=0.0, high=1.0)
    own, members = scores_of(tmp_path, x)
    labels = own.argmax(axis=1)
    confidences = margin(own, labels)
    seen = 0
    for member, removed in enumerate(family.removed.tolist()):
        bounds = {each.label: each.bound for each in found[removed].labels}
        leaks = (confidences > 0) & (margin(members[member], labels) <= 0)
        for label in range(network.labels):
            worst = confidences[leaks & (labels == label)].max(initial=0.0)
            one = make_instance(
                network, Family(family.take([member]), family.removed[[member]]), box
            )
            attacked = find_leak(one, label, Replayer(one))
            worst = max(worst, attacked.confidence if attacked is not None else 0.0)
            assert worst <= bounds[label]
            seen += worst > 0
    assert seen > len(family) // 2


@pytest.mark.parametrize("seed", [4, 6, 8])
def test_the_worst_row_has_the_statements_bound(tmp_path, seed):
    report = leaveout.verify(write_question(tmp_path, seed=seed))
    for result in report.results:
        own = [each for row in report.rows() for each in row.labels if each.label == result.label]
        bounds = [each.bound for each in own if each.bound is not None]
        leaks = [each.leak for each in own if each.leak is not None]
        assert max(bounds) <= result.upper
        assert max(bounds) == pytest.approx(result.upper, rel=2e-3)
        assert max(leaks, default=0.0) == pytest.approx(result.lower, rel=1e-9)


@pytest.mark.parametrize("engine", ["native", "lucid"])
def test_a_known_leak_is_one(tmp_path, engine):
    report = saved(leaveout.verify(write_question(tmp_path), engine=engine), tmp_path / "r.json")
    network, family = loaded(tmp_path)
    known = 0
    for row in report.rows():
        for each in row.labels:
            if each.leak is None:
                continue
            known += 1
            x = np.asarray(each.x, np.float32)[None]
            own = network.runner().scores(x)[0].astype(np.float64)
            assert own.argmax() == each.label
            assert margin(own[None], [each.label])[0] == each.leak <= each.bound
            (member,) = np.flatnonzero(family.removed == row.row)
            taken = {name: stack[0] for name, stack in family.take([member]).items()}
            other = network.runner(taken).scores(x)[0].astype(np.float64)
            assert margin(other[None], [each.label])[0] <= 0
            assert other.argmax() == each.member_label
    assert known


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6))
def test_what_a_row_changes_is_what_its_member_answers_otherwise(tmp_path_factory, seed):
    folder = tmp_path_factory.mktemp("rows")
    report = leaveout.verify(write_question(folder, seed=seed % 40), time=5)
    x = points(folder, 120, seed)
    own, members = scores_of(folder, x)
    labels = own.argmax(axis=1)
    confidences = margin(own, labels)
    _, family = loaded(folder)
    found = {each.row: each for each in report.rows(x) if each.members}
    inside = ((x >= 0) & (x <= 1)).all(axis=1)
    for member, removed in enumerate(family.removed.tolist()):
        changed = (confidences > 0) & (margin(members[member], labels) <= 0)
        given_points = found[removed].points
        assert given_points.changed == tuple(np.flatnonzero(changed).tolist())
        assert given_points.points == len(x)
        bounds = {each.label: each.bound for each in found[removed].labels}
        above = np.array([c > bounds[k] for c, k in zip(confidences, labels, strict=True)])
        assert given_points.not_excluded == (~(inside & above)).sum()
        # What is changed is a leak, and the worst one known is no less.
        worst = confidences[changed & inside].max(initial=0.0)
        assert worst <= (found[removed].leak or 0.0) <= found[removed].bound


def test_rows_that_were_not_left_out_are_named_and_nothing_is_said_of_them(tmp_path, snapshot):
    spec = write_question(tmp_path, rows=50)
    _, family = loaded(tmp_path)
    found = leaveout.verify(spec).rows(points(tmp_path, 20))
    assert [each.row for each in found] == list(range(50))
    for each in found:
        left_out = each.row in family.removed
        assert (each.members, each.bound is not None) == (left_out, left_out)
        if not left_out:
            assert each.words == snapshot
            assert f"{each.row}" in each.words
            assert each.points is None
            assert each.leak is None


def test_of_several_members_without_a_row_the_worst_counts(tmp_path):
    spec = write_question(tmp_path)
    single = {each.row: each for each in leaveout.verify(spec).rows() if each.members}
    _, family = loaded(tmp_path)
    removed = np.zeros(len(family), np.int64)
    save_family_file(tmp_path / "family.npz", Family(family.parameters, removed, family.manifest))
    x = points(tmp_path, 80)
    found = {each.row: each for each in leaveout.verify(spec).rows(x)}
    assert found[0].members == len(family)
    own, members = scores_of(tmp_path, x)
    labels = own.argmax(axis=1)
    changed = (np.min([margin(each, labels) for each in members], axis=0) <= 0) & (
        margin(own, labels) > 0
    )
    assert found[0].points.changed == tuple(np.flatnonzero(changed).tolist())
    worst = max(each.bound for each in single.values())
    assert found[0].bound == pytest.approx(worst, rel=2e-3)


def test_rows_searched_one_at_a_time_keep_their_leaks_below_lower_bounds(tmp_path):
    report = leaveout.verify(write_clinic(tmp_path, spread=0.3))
    (record,) = report.by_row
    closer, done = search_rows(record, 60.0)
    assert done == len(set(loaded(tmp_path)[1].removed.tolist()))
    after = {each.row: each for each in rows(msgspec.structs.replace(report, by_row=(closer,)))}
    gained = 0
    for before in report.rows():
        now = after[before.row]
        if before.bound is None:
            assert now.bound is None
            continue
        assert now.bound <= before.bound
        assert (now.leak or 0.0) >= (before.leak or 0.0)
        gained += now.bound < before.bound or now.leak != before.leak
        for each in now.labels:
            assert (each.leak or 0.0) <= each.bound
            assert each.bound - (each.leak or 0.0) <= max(2e-3 * each.bound, 1e-4)
    assert gained
    # No time, no change.
    assert search_rows(record, 0.0) == (record, 0)


def test_a_folder_of_members_is_asked_too(tmp_path):
    spec = write_question(tmp_path)
    network, family = loaded(tmp_path)
    x = points(tmp_path, 60)
    before = {each.row: each.points for each in leaveout.verify(spec).rows(x)}
    members = tmp_path / "members"
    members.mkdir()
    for member, removed in enumerate(family.removed.tolist()):
        own = {name: stack[0] for name, stack in family.take([member]).items()}
        onnx.save(with_parameters(network.model, own), members / f"member_{removed:05}.onnx")
    spec.write_text(BOUND.replace("family.npz", "members"))
    report = saved(leaveout.verify(spec), tmp_path / "r.json")
    after = [each for each in report.rows(x) if each.members]
    assert len(after) == len(family)
    assert all(each.points.changed == before[each.row].changed for each in after)


def test_a_deadline_leaves_sound_bounds_of_every_row(tmp_path):
    spec = write_question(tmp_path)
    whole = {each.row: each for each in leaveout.verify(spec).rows()}
    for time in (0.001, 0.05):
        for each in leaveout.verify(spec, time=time).rows():
            if each.members:
                assert each.bound >= (whole[each.row].leak or 0.0)


def test_a_statement_about_one_label_says_nothing_of_others(tmp_path):
    text = BOUND.replace("per label ", "").replace("confidence(N, x)", "confidence(N, x, 1)")
    report = leaveout.verify(write_question(tmp_path, text=text))
    found = [each for each in report.rows(points(tmp_path, 50)) if each.members]
    assert all([own.label for own in each.labels] == [1] for each in found)
    assert all("'kind 1'" in each.words for each in found)
    own, _ = scores_of(tmp_path, points(tmp_path, 50))
    others = int((own.argmax(axis=1) != 1).sum())
    assert all(each.points.not_excluded >= others for each in found)
