"""Evidence of every kind of statement is accepted, and what is proved again is said of each."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sklearn.ensemble import RandomForestClassifier

from leaveout.models.forest import DareForestClassifier, from_sklearn
from leaveout.verifier.cli.app import run

from support.files import BOUND, write_question

FORESTS = """
let T = forest("forest.npz")
let U = forest("other.npz")
let K = forest("learnt.npz")
let F = leave_one_out(T)
let X = integers(box([0, 0, 0], [3, 1, 1]), at = 0)
find bound: least b per label such that
    forall x in X, M in F: confidence(T, x) > b => label(M, x) == label(T, x)
guarantee sure: forall x in X, M in F: confidence(T, x) > 0.95 => label(M, x) == label(T, x)
find apart: least b such that forall x in X: confidence(T, x) > b => label(U, x) == label(T, x)
guarantee alike: same_function(T, forest("copy.npz"), X)
guarantee differ: same_function(T, U, X)
"""
POINTS = """
find most: greatest b such that forall x in X: score(N, x, 0) - score(N, x, 1) >= b
find least_most: least b such that forall x in X: score(N, x, 0) - score(N, x, 1) <= b
find each_label: least b per label such that forall x in X: confidence(N, x) <= b
guarantee never: forall x in X: score(N, x, 0) > 1000
"""
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(capsys, folder: Path, status: int) -> dict[str, str]:
    """Make evidence, check it, and return what is said of each statement."""
    command = ["verify", "s.spec", "--workers", "1", "--evidence", "proof"]
    assert run(command) == status
    capsys.readouterr()
    assert run(["check", "proof"]) == 0
    lines = capsys.readouterr().out.split("\n\n")[1].splitlines()
    return dict(line.split(": ", 1) for line in lines)


def test_forests(here, capsys):
    from checker.test_forest_leaks import rows

    X, y = rows()
    trained = DareForestClassifier(8, k=5, max_depth=4, random_state=0).fit(X, y)
    trained.save(here / "forest.npz")
    trained.save(here / "copy.npz")
    trained.unlearned([3, 9]).save(here / "other.npz")
    learnt = RandomForestClassifier(5, max_depth=3, n_jobs=1, random_state=0).fit(X, y)
    from_sklearn(learnt).save(here / "learnt.npz")
    (here / "s.spec").write_text(FORESTS)
    said = told(capsys, here, 1)
    assert said.pop("differ") == "refuted; refuted again"
    assert said.pop("alike") == "proved; proved again"
    assert len(said) == 4
    for text in said.values():
        assert text.startswith("proved; proved again: at most"), said


def test_points(here, capsys):
    write_question(here)
    text = BOUND.partition("find")[0].replace('let F = family("family.npz")\n', "")
    (here / "s.spec").write_text(text + POINTS)
    said = told(capsys, here, 1)
    assert said["never"].endswith("not in the certificate")
    assert said["most"].startswith("proved; proved again: at least"), said
    assert said["least_most"].startswith("proved; proved again: at most"), said


def test_deletions_services_and_audits(here, capsys):
    shutil.copytree(EXAMPLES / "deletion", here, dirs_exist_ok=True)
    (here / "deletion.spec").rename("s.spec")
    said = told(capsys, here, 0)
    assert set(said) == {"forgets", "exact", "kept", "hidden"}
    assert set(said.values()) == {"proved; proved again"}
