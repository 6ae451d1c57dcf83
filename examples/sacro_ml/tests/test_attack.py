"""The attack counts what every member answers, in the form that SACRO-ML reads."""

from __future__ import annotations

import json
from pathlib import Path

import leaveout_sacro
import numpy as np
import pytest
from numpy.typing import NDArray
from sacroml.attacks import factory
from sacroml.attacks.attack_report_formatter import GenerateTextReport
from sacroml.attacks.target import Target

from leaveout.verifier.cli import run
from leaveout.verifier.guard.loading import load_subject


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a model."""
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 1, (120, 2))
    y = (X.sum(axis=1) + rng.normal(0, 0.1, 120) > 1).astype(int)
    lines = [f"{a},{b},{c}" for (a, b), c in zip(X, y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,ill", *lines]) + "\n")
    train = ["linear", "train", str(tmp_path / "t.csv"), "--label", "ill"]
    assert run([*train, "-o", str(tmp_path / "model")]) == 0
    return tmp_path


def test_the_report_counts_what_members_answer(folder: Path) -> None:
    """Compare with what the guard says of the same questions."""
    subject = load_subject(folder / "model")
    asked = np.random.default_rng(4).uniform(0, 1, (6, 2))
    asked = subject.read_arrays(saved(folder, asked))
    found = factory.attack(
        Target(X_test=asked, y_test=np.zeros(len(asked), int)),
        "leaveoneout", folder=str(folder / "model"), output_dir=str(folder / "out"),
    )  # fmt: skip
    report = folder / "out" / "report.json"
    ((_, held),) = json.loads(report.read_text()).items()
    assert held["metadata"]["global_metrics"] == found["metadata"]["global_metrics"]
    own = held["attack_experiment_logger"]["attack_instance_logger"]["instance_0"]
    leaks = subject.leaks.find_all(asked)
    assert own["n_answers_that_hinge"] == sum(each.leak for each in leaks)
    labels = np.array([each.label for each in leaks])
    by = subject.leaks.dissenters(asked, labels)
    shown = set().union(*(each.tolist() for each in by))
    assert 0 < len(shown) == own["n_records_shown"] < own["n_records"] == 120
    assert own["AUC"] == (1 + len(shown) / 120) / 2
    GenerateTextReport().process_attack_target_json(str(report))


def saved(folder: Path, asked: NDArray[np.float64]) -> Path:
    """Write questions."""
    np.savez(folder / "asked.npz", X_test=asked)
    return folder / "asked.npz"


def test_nothing_is_attacked_without_questions() -> None:
    """A target without test rows."""
    assert not leaveout_sacro.LeaveOneOutAttack.attackable(Target())
