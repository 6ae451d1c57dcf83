"""Reports of statements about linear models, and all that is made of them."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout import verify
from leaveout.bab.linear.search import confidence
from leaveout.models.linear.file import save_linear
from leaveout.models.train.encoding import Encoding, NumberColumn
from leaveout.verifier.cli.app import run
from leaveout.verifier.report import Report
from leaveout.verifier.row_records import RowsError

from support.linear_models import drawn_model, retrained

SPEC = """let L = linear("linear.npz")
let F = leave_one_out(L)
let X = box(0, 1)
find bound: least b per label such that
    forall x in X, M in F: confidence(L, x) > b => label(M, x) == label(L, x)
guarantee quiet: forall x in X, M in F: confidence(L, x) > 1e6 => label(M, x) == label(L, x)
guarantee loud: forall x in X, M in F: label(M, x) == label(L, x)
find d: least d such that forall x in X, M in F: difference(L, M, x) <= d
"""
KEPT = """guarantee kept: forall x in X, M in F: score(L, x) >= 1e6 => score(M, x) >= 0
find b: least b such that forall x in X, M in F: score(L, x) > b => score(M, x) >= 0
find c: greatest c such that forall x in X, M in F: score(L, x) < c => score(M, x) < 0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("linear")
    save_linear(folder / "linear.npz", drawn_model(5, plain=True, rows=20))
    (folder / "a.spec").write_text(SPEC + KEPT)
    (folder / "r.json").write_bytes(verify(folder / "a.spec").to_json())
    return folder


@pytest.fixture
def report(folder):
    return msgspec.json.decode((folder / "r.json").read_bytes(), type=Report)


def test_verdicts_and_what_they_rest_on(folder, report, snapshot):
    told = [(each.name, each.label, each.verdict, each.members) for each in report]
    assert told == [
        ("bound", 0, "proved", 20),
        ("bound", 1, "proved", 20),
        ("quiet", None, "proved", 20),
        ("loud", 0, "refuted", 20),
        ("d", None, "proved", 20),
        ("kept", None, "proved", 20),
        ("b", None, "proved", 20),
        ("c", None, "proved", 20),
    ]
    model = drawn_model(5, plain=True, rows=20)
    found = {each.name: each for each in report}
    # What c finds is b of the other label, as scores are one number.
    assert found["c"].lower == pytest.approx(-report["bound"][0].upper, rel=2e-3)
    assert found["b"].upper == pytest.approx(report["bound"][1].upper, rel=2e-3)
    (x,) = found["d"].example.points.values()
    member = retrained(model, found["d"].example.members["M"])
    apart = (member.raw_scores(np.array([x])) - model.raw_scores(np.array([x])))[0, 0]
    assert abs(apart) == pytest.approx(found["d"].lower, abs=1e-6)
    (record,) = report.models
    assert (record.model, record.rows, record.labels) == ("linear", 20, ("l0", "l1"))
    assert record.quality.accuracy == (model.answers(model.X) == model.y).mean()
    (training,) = report.training
    assert (training.rows, training.features) == (20, model.inputs)
    assert ("linear", ("L",)) in {(each.kind, each.called) for each in report.files}
    assert report.notes == snapshot


def test_tables_pages_and_rows(folder, report, capsys, snapshot, tmp_path):
    result = str(folder / "r.json")
    for out in ("r.html", "r.md"):
        assert run(["report", result, "-o", str(tmp_path / out)]) == 0
    assert "linear model" in (tmp_path / "r.html").read_text()
    assert run(["rows", result, "--csv", str(tmp_path / "rows.csv")]) == 0
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 21
    capsys.readouterr()
    assert run(["rows", result, "--time", "1"]) == 2
    assert capsys.readouterr().err == snapshot
    assert run(["verify", str(folder / "a.spec"), "--evidence", str(tmp_path / "ev")]) == 1
    sarif = json.loads((tmp_path / "ev" / "result.sarif").read_text())
    assert [each["kind"] for each in sarif["runs"][0]["results"]].count("fail") == 1


@settings(max_examples=15)
@given(seed=st.integers(0, 2**20), kind=st.sampled_from(["logistic", "softmax", "svm"]))
def test_rows_and_given_points_are_those_of_members(tmp_path_factory, seed, kind):
    folder = tmp_path_factory.mktemp("rows")
    model = drawn_model(seed, kind, grouped=seed % 2 == 0)
    save_linear(folder / "linear.npz", model)
    (folder / "a.spec").write_text(SPEC)
    report = verify(folder / "a.spec")
    x = np.random.default_rng(seed).uniform(-0.2, 1.2, (50, model.inputs))
    own = model.answers(x)
    found = {each.row: each for each in report.rows(x)}
    assert sorted(found) == model.unit_names.tolist()
    for unit, row in enumerate(model.unit_names.tolist()):
        member, bounds = retrained(model, unit), {b.label: b.bound for b in found[row].labels}
        changed = set(found[row].points.changed)
        for point, label in enumerate(own.tolist()):
            margin = confidence(member.scores(x[point][None])[0], label)
            if abs(margin) < 1e-6:
                continue
            assert (point in changed) == (margin < 0)
            inside = ((x[point] >= 0) & (x[point] <= 1)).all()
            if margin < 0 and inside:
                assert confidence(model.scores(x[point][None])[0], label) <= bounds[label]


def test_points_of_files_and_tables(folder, report, tmp_path, snapshot):
    model = drawn_model(5, plain=True, rows=20)
    x = np.random.default_rng(0).random((40, model.inputs))
    changed = [each.points.changed for each in report.rows(x)]
    np.savez(tmp_path / "x.npz", X=x)
    assert changed == [each.points.changed for each in report.rows(tmp_path / "x.npz")]
    head = ",".join(map(str, range(model.inputs)))
    rows = "".join(",".join(map(repr, each)) + "\n" for each in x.tolist())
    (tmp_path / "x.csv").write_text(f"{head}\n{rows}")
    assert changed == [each.points.changed for each in report.rows(tmp_path / "x.csv")]
    with pytest.raises(RowsError) as told:
        report.rows(np.zeros((2, model.inputs + 1)))
    assert str(told.value) == snapshot
    (tmp_path / "a.spec").write_text(SPEC)
    save_linear(tmp_path / "linear.npz", model)
    again = verify(tmp_path / "a.spec")
    save_linear(tmp_path / "linear.npz", drawn_model(6, plain=True, rows=20))
    with pytest.raises(RowsError) as told:
        again.rows(x)
    assert "differs from the verified linear model" in str(told.value)


def test_groups_leave_together_and_have_their_names(tmp_path):
    model = drawn_model(7, plain=True, grouped=True, rows=20)
    save_linear(tmp_path / "linear.npz", model)
    (tmp_path / "a.spec").write_text(SPEC)
    report = verify(tmp_path / "a.spec")
    units = len(set(model.groups.cells.tolist()))
    assert {each.members for each in report} == {units}
    (record,) = report.by_row
    assert (record.group, len(record.rows)) == ("who", units)
    assert set(record.ids) == set(model.groups.cells.tolist())
    assert any("who" in note for note in report.notes)
    leaks = [each.witness for each in report if each.witness is not None]
    assert leaks
    assert all(each.group == "who" and each.removed_id for each in leaks)


def test_words_of_columns_and_rows_beside_it(tmp_path):
    model = drawn_model(5, plain=True, rows=20)
    save_linear(tmp_path / "linear.npz", model)
    names = [f"dose{k}" for k in range(model.inputs)]
    columns = tuple(NumberColumn(name=n, minimum=0.0, maximum=1.0, scaled=False) for n in names)
    encoding = Encoding(label="y", columns=columns)
    known = {"source": "t.csv", "encoding": msgspec.to_builtins(encoding), "ids": {0: "P-0"}}
    text = {"format": "leaveout linear columns", "version": 1, "columns": known}
    (tmp_path / "linear.json").write_bytes(msgspec.json.encode(text))
    (tmp_path / "a.spec").write_text(SPEC)
    report = verify(tmp_path / "a.spec")
    (record,) = report.models
    assert [each.name for each in record.columns] == names
    assert report.by_row[0].ids[0] == "P-0"
    assert all("dose0 = " in each.witness.words for each in report if each.witness is not None)


def test_a_tolerance_and_rows_outside_are_said(tmp_path, snapshot):
    model = drawn_model(5, plain=True, rows=20)
    far = model.X.copy()
    far[0] = 2.0
    save_linear(tmp_path / "linear.npz", replace(model, X=far, tolerance=1e-7))
    (tmp_path / "a.spec").write_text(SPEC)
    assert verify(tmp_path / "a.spec").notes == snapshot


def test_without_time_nothing_wrong_is_said(folder, report):
    whole = {each.name: each for each in report}
    late = verify(folder / "a.spec", time=1e-6)
    for each in late:
        assert each.verdict in ("unknown", "proved", "refuted")
        if each.kind == "find" and each.verdict == "unknown":
            assert each.reason.startswith("time")
        if each.upper is not None and each.name == "d":
            assert each.upper >= whole["d"].lower


def test_a_part_of_the_run_is_ended_by_ctrl_c(folder, monkeypatch):
    def interrupt(self, t):
        raise KeyboardInterrupt

    monkeypatch.setattr("leaveout.bab.linear.search.Search.start", interrupt)
    report = verify(folder / "a.spec")
    assert {each.verdict for each in report} <= {"unknown", "proved"}
    assert "unknown" in {each.verdict for each in report}
