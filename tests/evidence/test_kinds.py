"""Evidence of every kind of statement is accepted, and what is proved again is said of each."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from leaveout.verifier.cli.app import run

from support.files import BOUND, write_question
from support.forest_files import SPEC, write_forests
from support.one_operator import one

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


def test_forests(here, capsys, snapshot):
    write_forests(here)
    (here / "s.spec").write_text(SPEC)
    said = told(capsys, here, 1)
    assert said.pop("differ") == snapshot
    assert said.pop("alike") == snapshot
    assert len(said) == 5
    for text in said.values():
        assert text == snapshot


def test_points(here, capsys, snapshot):
    write_question(here)
    text = BOUND.partition("find")[0].replace('let F = family("family.npz")\n', "")
    (here / "s.spec").write_text(text + POINTS)
    said = told(capsys, here, 1)
    assert said["never"] == snapshot
    assert said["most"] == snapshot
    assert said["least_most"] == snapshot


def test_networks_without_hidden_neurons(here, capsys):
    weights = np.array([[1.0, -0.5], [0.25, 2.0], [0.5, 0.0]], np.float32)
    onnx.save(one("MatMul", {"W": weights}), here / "full.onnx")
    (here / "s.spec").write_text(
        'let N = network("full.onnx")\nlet X = box(0, 1)\n' + POINTS.partition("find each")[0]
    )
    said = told(capsys, here, 0)
    assert set(said) == {"most", "least_most"}
    assert all("proved again" in text for text in said.values())


def test_deletions_services_and_audits(here, capsys, snapshot):
    shutil.copytree(EXAMPLES / "deletion", here, dirs_exist_ok=True)
    (here / "deletion.spec").rename("s.spec")
    said = told(capsys, here, 0)
    assert set(said) == {"forgets", "exact", "kept", "hidden"}
    # What is measured on samples says so.
    assert said.pop("hidden") == snapshot
    assert sorted(set(said.values())) == snapshot
