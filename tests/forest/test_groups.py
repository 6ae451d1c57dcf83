"""Forests in which a person is many rows: a member lacks all rows of one."""

from __future__ import annotations

import pickle
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.encoders import Box
from leaveout.errors import ForestError, TrainingError
from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.family import load_forest_family, save_forest_family
from leaveout.models.forest.leave_one_out import leave_one_out
from leaveout.models.forest.scored import ScoredForest
from leaveout.verifier.cli import run
from leaveout.verifier.evidence.exports import sarif
from leaveout.verifier.report import Report

from support.depth import IS_DEEP, rounds
from support.forest_leaks import Asked, greatest_leaks, grouped_rows

VISITS = "patient,age,ill\n" + "".join(
    f"P{at * 7 % 5},{20 + at * 13 % 60},{'yes' if at * 13 % 60 + at * 37 % 20 > 40 else 'no'}\n"
    for at in range(24)
)


def answers(forest, of, X):
    """Return a forest's shares of the labels of another one."""
    shares = np.zeros((len(X), len(of.classes_)))
    shares[:, np.searchsorted(of.classes_, forest.classes_)] = forest.predict_proba(X)
    return shares


@settings(max_examples=500 if IS_DEEP else 80, deadline=None)
@given(st.integers(0, 2**32))
def test_every_member_is_the_forest_trained_without_a_group(seed):
    rng = np.random.default_rng(seed)
    forest, X, y, groups = grouped_rows(rng)
    family = leave_one_out(forest.ensemble(), threads=1)
    first = [int(np.flatnonzero(groups == name)[0]) for name in dict.fromkeys(groups)]
    assert family.removed.tolist() == first
    inputs = np.concatenate((X, rng.integers(0, 32, (60, X.shape[1])) / 4))
    for member, row in enumerate(family.removed.tolist()):
        stays = groups != groups[row]
        trained = DareForestClassifier(**forest.get_params()).fit(X[stays], y[stays])
        expected = answers(trained, forest, inputs)
        assert np.array_equal(family.member(member).probabilities(inputs), expected)
        left = forest.unlearn(forest.rows_of(groups[row]))
        assert left == forest.retrain(forest.rows_of(groups[row]))
        assert np.array_equal(answers(left, forest, inputs), expected)


@settings(max_examples=rounds(40), deadline=None)
@given(st.integers(0, 2**32))
def test_a_forest_is_saved_with_its_groups_and_forgets_them(seed):
    with TemporaryDirectory() as folder:
        _save_and_forget(seed, Path(folder))


def _save_and_forget(seed, folder):
    rng = np.random.default_rng(seed)
    forest, X, y, groups = grouped_rows(rng)
    gone = forest.rows_of(groups[-1])
    more = np.array(["new", "a longer name", "new"])
    for each in (forest, again := forest.retrain(), forest.unlearn([])):
        each.add(X[[0, 0, -1]], y[[0, 0, -1]], groups=more)
        each.delete(gone)
        each.delete(each.rows_of("a longer name"))
    forest.save(folder / "a.npz")
    again.retrain().save(folder / "b.npz")
    assert (folder / "a.npz").read_bytes() == (folder / "b.npz").read_bytes()
    held = DareForestClassifier.load(folder / "a.npz").ensemble()
    stays = groups != groups[-1]
    assert held.groups.cells.tolist() == [*groups[stays], "new", "new"]
    assert pickle.loads(pickle.dumps(forest)).rows_of("new").tolist() == [len(X), len(X) + 2]
    # A row of a group of one leaves alone, others do not.
    family = leave_one_out(held)
    save_forest_family(folder / "f.npz", family, held)
    assert load_forest_family(folder / "f.npz", held).removed.tolist() == held.unit_names.tolist()
    other = DareForestClassifier.load(folder / "a.npz")
    other.delete(int(other.rows_[-1]), part=True)
    assert load_forest_family(folder / "f.npz", other.ensemble()) is None
    assert not other.equals(forest)


def test_rows_of_others_are_not_deleted_alone(snapshot):
    forest = DareForestClassifier(2, random_state=1)
    forest.fit(np.eye(4), [0, 1, 0, 1], groups=["a", "a", "b", "c"])
    said = []
    for refused in (
        lambda: forest.delete(0),
        lambda: forest.delete([2, 1]),
        lambda: forest.add(np.eye(4), [0, 1, 0, 1]),
        lambda: forest.add(np.eye(4), [0, 1, 0, 1], groups=["a"]),
        lambda: forest.fit(np.eye(4), [0, 1, 0, 1], groups=["a", None, "b", "c"]),
        lambda: leave_one_out(forest.unlearn([2, 3]).ensemble()),
        lambda: leave_one_out(forest.ensemble(), np.array([1])),
        lambda: DareForestClassifier(2).fit(np.eye(2), [0, 1]).rows_of("a"),
        lambda: DareForestClassifier(2).fit(np.eye(2), [0, 1]).add([[1, 2]], [1], groups="a"),
    ):
        with pytest.raises(ForestError) as told:
            refused()
        said.append(str(told.value))
    assert said == snapshot
    assert forest.rows_.tolist() == [0, 1, 2, 3]
    assert forest.delete(0, part=True).delete([2, 1]).rows_.tolist() == [3]


def test_groups_that_differ_make_forests_differ():
    X, y = np.eye(4), [0, 1, 0, 1]

    def fitted(*groups):
        return DareForestClassifier(2, random_state=1).fit(X, y, groups=groups or None)

    assert fitted("a", "a", "b", "c") == fitted("a", "a", "b", "c")
    assert fitted("a", "a", "b", "c") != fitted("a", "b", "b", "c")
    assert fitted("a", "a", "b", "c") != fitted("A", "A", "b", "c")
    assert fitted("a", "b", "c", "d") != fitted()


@pytest.fixture
def clinic(tmp_path, capsys):
    (tmp_path / "visits.csv").write_text(VISITS)
    words = ["forest", "train", str(tmp_path / "visits.csv"), "--label", "ill"]
    size = ["--trees", "5", "--depth", "3", "-o", str(tmp_path / "clinic")]
    assert run([*words, "--group", "patient", *size]) == 0
    assert "5, by 'patient'" in capsys.readouterr().out
    return tmp_path / "clinic"


def test_what_is_proved_is_said_of_persons(clinic, tmp_path, capsys):
    spec, result = clinic / "forest.spec", str(tmp_path / "r.json")
    assert "what any one patient of visits.csv can change" in spec.read_text()
    certificate = str(tmp_path / "c.cert")
    assert run(["verify", str(spec), "--json", result, "--certificate", certificate]) == 0
    out = capsys.readouterr().out
    assert "over 5 members" in out and "without patient P" in out
    assert "'row' and 'record' mean all rows with the same 'patient'" in out
    assert run(["check", certificate]) == 0
    assert "5 forests without all rows of one 'patient'" in capsys.readouterr().out
    report = msgspec.json.decode((tmp_path / "r.json").read_bytes(), type=Report)
    assert report.training[0].rows == 5
    assert "same 'patient'" in sarif(report).decode()
    page = tmp_path / "r.html"
    assert run(["report", result, "-o", str(page)]) == 0
    assert "all that the training table has about one “patient”" in page.read_text()
    capsys.readouterr()
    assert run(["rows", result]) == 0
    shown = capsys.readouterr()
    words = shown.out.split()
    assert all(f"P{at}" in words for at in range(5))
    assert "same 'patient'" in shown.out + shown.err
    assert run(["guard", str(clinic), str(tmp_path / "visits.csv"), "--epsilon", "0.2"]) == 0
    assert "all rows with the same 'patient'" in capsys.readouterr().err


STATEMENTS = """
let T = forest("forest.npz")
let F = leave_one_out(T)
let X = box(20, 80)
guarantee always: forall x in X, M in F: label(M, x) == label(T, x)
guarantee sure:
    forall x in X, M in F: confidence(T, x) > 0.999 => label(M, x) == label(T, x)
find b: least b such that forall x in X, M in F: confidence(T, x) > b => label(M, x) == label(T, x)
guarantee alike: same_function(T, T, X)
"""


def test_every_statement_about_leaks_knows_persons(clinic, tmp_path, capsys):
    (clinic / "s.spec").write_text(STATEMENTS)
    result, certificate = tmp_path / "r.json", tmp_path / "c.cert"
    words = ["verify", str(clinic / "s.spec"), "--json", str(result)]
    run([*words, "--certificate", str(certificate)])
    assert run(["check", str(certificate)]) == 0
    report = msgspec.json.decode(result.read_bytes(), type=Report)
    found = {each.name: each for each in report.results}
    held = DareForestClassifier.load(clinic / "forest.npz")
    family, ensemble = leave_one_out(held.ensemble()), held.ensemble()
    asked = Asked(ScoredForest.of(ensemble), family, Box(np.full(1, 20.0), np.full(1, 80.0)))
    worst = max(greatest_leaks(asked, label).max() for label in range(2))
    assert found["b"].lower <= worst + 1e-9 and worst <= found["b"].upper <= worst + 1e-3
    assert found["always"].verdict == ("refuted" if worst > 0 else "proved")
    assert found["sure"].verdict == ("refuted" if worst > 0.999 else "proved")
    assert found["alike"].verdict == "proved"
    assert found["always"].witness.group == "patient"
    assert found["always"].witness.removed_id.startswith("P")
    capsys.readouterr()


def test_a_bound_that_no_confidence_exceeds_says_nothing(tmp_path, capsys):
    (tmp_path / "t.csv").write_text(
        "a,ill\n" + "".join(f"{at},{'yn'[at % 2]}\n" for at in range(6))
    )
    words = ["forest", "train", str(tmp_path / "t.csv"), "--label", "ill", "--trees", "1"]
    assert run([*words, "-o", str(tmp_path / "f")]) == 0
    result, page = str(tmp_path / "r.json"), tmp_path / "r.html"
    assert run(["verify", str(tmp_path / "f" / "forest.spec"), "--json", result]) == 0
    said = "no answer of a forest has a confidence above 1"
    assert f"a bound of 1 or more says nothing: {said}" in capsys.readouterr().out
    assert run(["report", result, "-o", str(page)]) == 0
    text = page.read_text()
    assert f"The bounds say nothing: {said}." in text
    assert "an answer of forest.npz with a confidence above" not in text
    capsys.readouterr()
    assert run(["rows", result, "--row", "0"]) == 0
    assert f"row 0: nothing is proved: {said}" in capsys.readouterr().out


def test_a_person_is_deleted_and_added(clinic, tmp_path, capsys, snapshot):
    assert run(["forget", str(clinic), "3"]) == 2
    assert capsys.readouterr().err == snapshot
    (tmp_path / "gone.csv").write_text("patient,visit\nP1,1\nP1,2\n")
    assert run(["forget", str(clinic), "--from", str(tmp_path / "gone.csv")]) == 0
    assert run(["forget", str(clinic), "P3", "--check"]) == 0
    assert "bit for bit" in capsys.readouterr().out
    assert not any(b"P3" in path.read_bytes() for path in clinic.iterdir())
    (tmp_path / "more.csv").write_text("ill,age,patient\nno,30,P1\nyes,40,P2\nyes,41,P1\n")
    assert run(["forest", "add", str(clinic), str(tmp_path / "more.csv")]) == 0
    assert "P1, P2\n" in capsys.readouterr().out
    held = DareForestClassifier.load(clinic / "forest.npz")
    assert held.rows_of("P1").tolist() == [24, 26]
    assert len(held.rows_of("P2")) == 6
    for text in ("ill,age\nno,30\n", "ill,age,patient\nno,30,NA\n"):
        (tmp_path / "more.csv").write_text(text)
        assert run(["forest", "add", str(clinic), str(tmp_path / "more.csv")]) == 2
        assert capsys.readouterr().err == snapshot


def test_one_person_alone_is_refused(tmp_path, snapshot):
    from leaveout.models.forest.folders import train_forest
    from leaveout.models.reading import Reading

    (tmp_path / "t.csv").write_text("patient,a,ill\nA,1,no\nA,2,yes\n")
    with pytest.raises(TrainingError) as told:
        train_forest(
            tmp_path / "t.csv", tmp_path / "f", label="ill", reading=Reading(group="patient")
        )
    assert str(told.value) == snapshot


def test_deletions_in_a_statement_are_of_all_rows_of_a_person(clinic, tmp_path, capsys, snapshot):
    (clinic / "gone.csv").write_text("row\n20 15 10 5 0\n3 8 13 18 23 0 5 10 15 20\n")
    (clinic / "d.spec").write_text(
        'let T = forest("forest.npz")\n'
        'guarantee exact: forall z in points("gone.csv"): unlearn(T, z) == retrain(T, z)\n'
        "guarantee kept: caches_sound(T)\n"
    )
    certificate = str(tmp_path / "c.cert")
    assert run(["verify", str(clinic / "d.spec"), "--certificate", certificate]) == 0
    assert run(["check", certificate]) == 0
    capsys.readouterr()
    (clinic / "gone.csv").write_text("row\n20 15 10 5 0\n3 8\n")
    assert run(["verify", str(clinic / "d.spec")]) == 2
    assert capsys.readouterr().err == snapshot


def test_rows_without_a_label_are_left_out_and_the_others_keep_their_numbers(tmp_path, capsys):
    lines = [f"{at},{'' if at in (2, 5) else 'yn'[at % 2]}" for at in range(12)]
    (tmp_path / "t.csv").write_text("a,ill\n" + "\n".join(lines) + "\n")
    words = ["forest", "train", str(tmp_path / "t.csv"), "--label", "ill", "--trees", "3"]
    assert run([*words, "--missing", "ill=drop", "-o", str(tmp_path / "f")]) == 0
    assert "2 of 12 rows lack a value and are left out" in capsys.readouterr().err
    held = DareForestClassifier.load(tmp_path / "f" / "forest.npz")
    assert held.rows_.tolist() == [0, 1, 3, 4, 6, 7, 8, 9, 10, 11]
    assert held.ensemble().X[:, 0].tolist() == held.rows_.tolist()
    assert run(["forget", str(tmp_path / "f"), "5"]) == 2
    assert run(["forget", str(tmp_path / "f"), "6", "--check"]) == 0
    (tmp_path / "more.csv").write_text("a,ill\n3,n\n")
    assert run(["forest", "add", str(tmp_path / "f"), str(tmp_path / "more.csv")]) == 0
    assert DareForestClassifier.load(tmp_path / "f" / "forest.npz").rows_[-1] == 12
