"""Groups: a person is many rows, and a member lacks all rows of one."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import leaveout
from leaveout.errors import TrainingError
from leaveout.models import load_family, load_network
from leaveout.models.reading import Reading
from leaveout.models.train.data import read_data
from leaveout.models.train.draws import Rows, shuffle
from leaveout.verifier.cli import run
from leaveout.verifier.evidence.exports import ml_bom, sarif
from leaveout.verifier.report import Report

pytestmark = pytest.mark.usefixtures("here")

VISITS = "patient,age,ill\n" + "".join(
    f"P{at * 7 % 5},{20 + at * 13 % 60},{'yes' if at * 13 % 60 + at * 37 % 20 > 40 else 'no'}\n"
    for at in range(24)
)


def linear(X, y, seed):
    return LogisticRegression(random_state=seed).fit(X, y)


@given(groups=st.lists(st.integers(0, 5), min_size=1, max_size=30), seed=st.integers(0, 9))
def test_the_rows_of_one_are_missing_and_the_others_keep_their_batches(groups, seed):
    size, total = 1 + seed, len(groups)
    every = np.asarray(groups)
    for removed in [None, *sorted(set(groups))]:
        rows = Rows(total, removed, every)
        kept = [at for at in range(total) if groups[at] != removed]
        assert rows.numbers.tolist() == kept
        assert len(rows) == len(kept)
        order = shuffle(seed, 0, total)
        batches = [order[start : start + size].tolist() for start in range(0, total, size)]
        expected = [[row for row in batch if row in kept] for batch in batches]
        found = [rows.numbers[batch].tolist() for batch in rows.batches(size, seed)]
        assert found == [batch for batch in expected if batch]


@pytest.mark.parametrize("kind", ["array", "frame", "column"])
def test_each_member_is_trained_without_one_person(tmp_path, kind):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    X = rng.random((40, 3)).astype(np.float32)
    y = (X.sum(axis=1) + rng.normal(0, 0.3, 40) > 1.5).astype(int)
    people = np.array([f"P{at}" for at in rng.integers(0, 7, 40)])
    given: object = X
    group: object = people
    if kind != "array":
        # Of the range that scaling leaves as it is.
        X[:2] = [[0, 0, 0], [1, 1, 1]]
        given = pandas.DataFrame(X, columns=["a", "b", "c"])
    if kind == "column":
        given, group = given.assign(who=people), "who"
    report = leaveout.leave_one_out(linear, given, y, out=tmp_path / "f", group=group, workers=1)
    names = list(dict.fromkeys(people))
    network = load_network(tmp_path / "f" / "full.onnx")
    family = load_family(tmp_path / "f" / "family.npz", network)
    assert report.members == len(names)
    facts = family.manifest.data
    assert facts is not None
    assert (facts.ids, facts.rows) == (tuple(names), len(names))
    assert facts.group == ("who" if kind == "column" else "group")
    for member, name in enumerate(names):
        leaveout.leave_one_out(
            linear, X[people != name], y[people != name], out=tmp_path / f"{member}", members=1,
            workers=1,
        )  # fmt: skip
        alone = load_network(tmp_path / f"{member}" / "full.onnx").parameters
        for part, own in alone.items():
            assert np.array_equal(family.parameters[part][member], own)


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("patient,a,ill\nA,1,no\nA,2,yes\n", {}),
        ("patient,a,ill\nA,1,no\n,2,yes\nB,3,no\n", {}),
        ("person,a,ill\nA,1,no\nB,2,yes\n", {}),
        ("patient,visit,a,ill\nA,1,1,no\nB,2,2,yes\n", {"identity": "visit"}),
    ],
)
def test_groups_that_cannot_be_are_refused(tmp_path, text, more, snapshot):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(TrainingError) as told:
        read_data(tmp_path / "t.csv", "ill", reading=Reading(group="patient"), **more)
    assert str(told.value) == snapshot


def test_a_label_of_one_person_is_refused(tmp_path, snapshot):
    with pytest.raises(TrainingError) as told:
        leaveout.leave_one_out(
            linear, np.eye(4), ["a", "a", "b", "b"], out=tmp_path / "f", group=["x", "y", "z", "z"]
        )
    assert str(told.value) == snapshot


def test_a_family_of_other_groups_is_another_family(tmp_path, snapshot):
    rng = np.random.default_rng(2)
    X, y = rng.random((20, 2)), np.arange(20) % 2
    one, other = np.arange(20) % 4, np.array([0, 1, 2, 3] * 3 + [0] * 8)
    leaveout.leave_one_out(linear, X, y, out=tmp_path / "f", group=one, workers=1)
    with pytest.raises(TrainingError) as told:
        leaveout.leave_one_out(linear, X, y, out=tmp_path / "f", group=other, workers=1)
    assert str(told.value) == snapshot


@pytest.mark.parametrize("nobody", [None, "", float("nan"), "NA"])
def test_who_has_no_name_is_no_group(tmp_path, nobody, snapshot):
    with pytest.raises(TrainingError) as told:
        leaveout.leave_one_out(
            linear, np.eye(4), [0, 1, 0, 1], out=tmp_path / "f", group=["a", nobody, "b", nobody]
        )
    assert str(told.value) == snapshot


def test_what_is_proved_is_said_of_persons(tmp_path, capsys, snapshot):
    (tmp_path / "visits.csv").write_text(VISITS)
    folder = tmp_path / "f"
    words = ["train", str(tmp_path / "visits.csv"), "--label", "ill", "--group", "patient"]
    assert run([*words, "--layers", "3", "--epochs", "60", "--batch", "6", "-o", str(folder)]) == 0
    capsys.readouterr()
    result = str(tmp_path / "r.json")
    words = ["verify", str(folder / "idp.spec"), "--bounds", str(folder / "bounds.npz")]
    assert run([*words, "--time", "36000", "--json", result]) == 0
    out = capsys.readouterr().out
    assert "over 5 members" in out and "without patient P" in out
    assert "'row' and 'record' mean all rows with the same 'patient'" in out
    report = msgspec.json.decode((tmp_path / "r.json").read_bytes(), type=Report)
    assert "same 'patient'" in sarif(report).decode()
    page = tmp_path / "r.html"
    assert run(["report", result, "-o", str(page)]) == 0
    text = page.read_text()
    assert "all that the training table has about one “patient”" in text
    assert "one row of the training table" not in text
    capsys.readouterr()
    rows = ["guard", str(folder), str(tmp_path / "visits.csv"), "--epsilon", "0.2"]
    assert run(rows) == 0
    assert "all rows with the same 'patient'" in capsys.readouterr().err
    assert '"name": "leaveout:rows with one", "value": "patient"' in json.dumps(
        json.loads(ml_bom(report))
    )
    listed = tmp_path / "rows.csv"
    assert run(["rows", result, "--csv", str(listed)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("patient")
    assert "5 groups left out" in out
    lines = listed.read_text().splitlines()
    assert lines[0].startswith("group,name,")
    assert all("patient P" in line and "(row " not in line for line in lines[1:])
