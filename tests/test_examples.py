"""The bundled example proves what the README says it proves."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import leaveout
from leaveout.models import load_family, load_network
from leaveout.models.train import encoding_of

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "breast_cancer"


@pytest.fixture(scope="module")
def report():
    return leaveout.verify(EXAMPLE / "breast_cancer.spec")


def test_the_demo_is_proved(report):
    assert [(r.name, r.label, r.verdict) for r in report.results] == [
        ("bound", 0, "proved"),
        ("bound", 1, "proved"),
        ("confident", None, "proved"),
    ]


def test_the_readme_shows_the_bounds_the_demo_finds(report):
    table = re.findall(
        r"^(bound|confident) +(\d \(\w+\)|all) +proved +([\d.]+) +([\d.]+)",
        (ROOT / "README.md").read_text(),
        re.MULTILINE,
    )
    assert len(table) == len(report.results)
    for (_, _, lower, upper), result in zip(table, report.results, strict=True):
        # Solvers in parallel end on slightly different points within the gap.
        assert result.lower == pytest.approx(float(lower), rel=3e-3)
        assert result.upper == pytest.approx(float(upper), rel=3e-3)


def test_the_family_has_a_member_for_every_patient_in_scikit_learns_data():
    from sklearn.datasets import load_breast_cancer

    network = load_network(EXAMPLE / "family" / "full.onnx")
    family = load_family(EXAMPLE / "family" / "family.npz", network)
    data = load_breast_cancer()
    assert family.removed.tolist() == list(range(len(data.target)))
    assert family.manifest.data.labels == ("benign", "malignant")
    encoding = encoding_of(family.manifest)
    columns = [list(data.feature_names).index(column.name) for column in encoding.columns]
    low = np.asarray([column.minimum for column in encoding.columns])
    high = np.asarray([column.maximum for column in encoding.columns])
    scaled = ((data.data[:, columns] - low) / (high - low)).astype(np.float32)
    predicted = network.runner().scores(scaled).argmax(axis=1)
    names = [family.manifest.data.labels[label] for label in predicted]
    assert np.mean([data.target_names[t] == n for t, n in zip(data.target, names)]) > 0.93


def test_three_kinds_of_deletion_guarantees_are_proved():
    report = leaveout.verify(ROOT / "examples" / "deletion" / "deletion.spec")
    assert [(r.name, r.verdict) for r in report.results] == [
        ("forgets", "proved"),
        ("exact", "proved"),
        ("kept", "proved"),
        ("hidden", "proved"),
    ]


def test_six_guarantees_of_one_training_set_are_proved():
    report = leaveout.verify(ROOT / "examples" / "six.spec")
    assert [r.name for r in report.results] == [
        "private", "bound", "bound", "edits", "together", "flips", "forgets", "exact", "kept",
        "hidden",
    ]  # fmt: skip
    assert {r.verdict for r in report.results} == {"proved"}


def test_the_forest_of_the_example_is_what_its_script_makes():
    from sklearn.datasets import load_breast_cancer

    from leaveout.models.forest import DareForestClassifier

    X, y = load_breast_cancer(return_X_y=True)
    made = DareForestClassifier(10, k=5, d_rmax=1, max_depth=10, random_state=0).fit(X, y)
    kept = DareForestClassifier.load(ROOT / "examples" / "deletion" / "forest.npz")
    assert kept.difference(made) is None


def test_the_walk_from_a_table_to_a_guarded_forest_that_forgets(tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples" / "forest")
    from walk import DELETED, walk

    assert walk(tmp_path / "forest") == 0
    told = capsys.readouterr().out
    commands = re.findall(r"^\$ leaveout (\w+(?: train)?)", told, re.MULTILINE)
    assert commands == [
        "forest train",
        "verify",
        "guard",
        "guard",
        "forget",
        "guard",
        "guard",
    ]
    assert re.findall(r"^bound +\d \((\w+)\) +(\w+)", told, re.MULTILINE) == [
        ("benign", "proved"),
        ("malignant", "proved"),
    ]
    assert "over 569 members" in told
    assert re.search(rf"^forgotten +{DELETED}\nrows left +568$", told, re.MULTILINE)
    assert "bit for bit" in told
    before, after = map(int, re.findall(r"^noised inputs +(\d+)$", told, re.MULTILINE))
    assert 0 < before <= after < 30
    labels = (tmp_path / "forest" / "labels.csv").read_text().split()
    assert labels[0] == "label"
    assert len(labels) == 570
    assert set(labels[1:]) == {"benign", "malignant"}
