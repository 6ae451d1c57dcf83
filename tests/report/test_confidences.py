"""``--data``: points against the bounds, counted again here, and what is no file of points."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import leaveout
from leaveout.models import load_network
from leaveout.models.replay import with_parameters
from leaveout.verifier.cli.app import run
from leaveout.verifier.page import Page, PageError, document, load
from leaveout.verifier.page.confidences import confidences
from leaveout.verifier.points.given import DataError, GivenPoints
from leaveout.verifier.report import write_json

from support.files import BOUND, write_question
from support.snapshots import passages

EXAMPLE = Path(__file__).parents[2] / "examples" / "breast_cancer"
PATIENTS = EXAMPLE / "patients.csv"


@pytest.fixture(scope="module")
def question(tmp_path_factory):
    """Return a folder with a small question, its results, and points for it."""
    folder = tmp_path_factory.mktemp("question")
    guarantee = (
        "\nguarantee high: forall x in X, M in F: confidence(N, x) > 9 => "
        "label(M, x) == label(N, x)\n"
    )
    spec = write_question(folder, text=BOUND + guarantee)
    write_json(leaveout.verify(spec, workers=1), folder / "r.json")
    rng = np.random.default_rng(3)
    x = rng.random((400, load_network(folder / "full.onnx").inputs)).astype(np.float32)
    x[:40] += 1.0
    np.savez(folder / "points.npz", X_test=x, y_test=rng.integers(0, 2, 400))
    np.savez(folder / "bare.npz", X=x)
    return folder


@pytest.fixture(scope="module")
def demo():
    return leaveout.verify(EXAMPLE / "breast_cancer.spec")


def found(folder, data):
    runs = load([str(folder / "r.json")])
    answers, left_out = confidences(runs, GivenPoints.open(str(data)))
    assert left_out == ()
    return runs, answers


def shown(folder, data):
    runs, answers = found(folder, data)
    return document(Page(runs, answers, (), Path(data).name))


def test_points_are_counted_as_onnxruntime_answers_them(question):
    runs, answers = found(question, question / "points.npz")
    arrays = np.load(question / "points.npz")
    scores = load_network(question / "full.onnx").runner().scores(arrays["X_test"])
    own = scores.argmax(axis=1)
    margin = np.abs(scores[:, 0].astype(float) - scores[:, 1].astype(float))
    assert [each.label for each in answers] == [0, 1]
    for each in answers:
        mine = own == each.label
        assert np.array_equal(each.values, margin[mine])
        assert np.array_equal(each.inside, np.arange(400)[mine] >= 40)
        assert np.array_equal(each.right, arrays["y_test"][mine] == each.label)
        bounds = [r.upper for r in runs[0].report.results if r.label in (None, each.label)]
        assert each.upper == min(bounds)
        assert each.name == f"kind {each.label}"


def test_the_page_says_how_many_are_protected(question, snapshot):
    text = shown(question, question / "points.npz")
    _, answers = found(question, question / "points.npz")
    for each in answers:
        above = int((each.inside & (each.values > each.upper)).sum())
        outside = int((~each.inside).sum())
        assert passages(text, (f"{above:,}", f"{len(each.values):,}")) == snapshot
        assert passages(text, f"{outside:,}") == snapshot
    bars = re.findall(r'class="filled (?:hollow )?c\d"', text)
    assert bars
    assert passages(text, "points.npz") == snapshot
    assert shown(question, question / "points.npz") == text


def test_the_numbers_of_a_histogram_add_up(question):
    text = shown(question, question / "points.npz")
    for each in found(question, question / "points.npz")[1]:
        title = f"Points of label {each.label} by confidence"
        body = text[text.index(f'<caption class="unseen">{title}') :].partition("</table>")[0]
        rows = re.findall(r"<tr>(.*?)</tr>", body)[1:]
        cells = [re.findall(r">([^<]+)</t[dh]>", row)[2:] for row in rows]
        assert sum(int(cell) for row in cells for cell in row) == len(each.values)


def test_without_labels_nothing_is_right_or_wrong(question):
    text = shown(question, question / "bare.npz")
    assert "answered correctly" not in text
    assert "Answered correctly" not in text


def test_a_table_is_read_in_its_own_units_and_agrees_with_the_training_data(
    tmp_path, demo, snapshot
):
    write_json(demo, tmp_path / "r.json")
    _, answers = found(tmp_path, PATIENTS)
    assert [each.name for each in answers] == ["benign", "malignant"]
    assert sum(len(each.values) for each in answers) == 569
    assert all(each.inside.all() for each in answers)
    assert np.mean(np.concatenate([each.right for each in answers])) > 0.93
    page = shown(tmp_path, PATIENTS)
    assert passages(page, "291") == snapshot
    assert re.search(r"worst radius</th><td class=\"number\">[\d.]+</td>", page)


def test_the_patients_are_those_the_family_was_trained_on():
    from leaveout.models import load_family
    from leaveout.models.train.data import read_data

    network = load_network(EXAMPLE / "family" / "full.onnx")
    facts = load_family(EXAMPLE / "family" / "family.npz", network).manifest.data
    assert read_data(PATIENTS, "diagnosis").facts().sha256 == facts.sha256


def test_a_param_that_the_run_set_is_set_here_too(tmp_path):
    text = 'param file = "gone.onnx"\n' + BOUND.replace('"full.onnx"', "file")
    spec = write_question(tmp_path, text=text)
    report = leaveout.verify(spec, workers=1, params={"file": "full.onnx"})
    write_json(report, tmp_path / "r.json")
    np.savez(tmp_path / "p.npz", X=np.zeros((3, len(report.results[0].box.lower))))
    assert len(found(tmp_path, tmp_path / "p.npz")[1]) == 2


@pytest.mark.parametrize(
    "arrays",
    [
        {"Z": np.zeros((2, 3))},
        {"X": np.zeros(3)},
        {"X": np.array([["a", "b", "c"]])},
        {"X": np.full((2, 3), np.nan)},
        {"X": np.zeros((2, 9))},
        {"X": np.zeros((2, 3)), "y": np.zeros(3)},
        {"X": np.zeros((2, 3)), "y": np.array([0.5, 1])},
    ],
)
def test_arrays_that_are_no_points_are_refused_in_a_line(question, tmp_path, arrays, snapshot):
    np.savez(tmp_path / "p.npz", **arrays)
    with pytest.raises(DataError) as caught:
        found(question, tmp_path / "p.npz")
    assert str(caught.value) == snapshot
    assert str(caught.value).startswith(f"--data {tmp_path / 'p.npz'}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gone.csv", None),
        ("p.npz", "X"),
        ("p.csv", "a,b\n"),
        ("p.csv", "a,b\n1\n"),
        ("p.csv", "a,b\n1,2\n"),
    ],
)
def test_files_that_are_no_points_are_refused_in_a_line(question, tmp_path, name, text, snapshot):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError) as caught:
        found(question, tmp_path / name)
    assert str(caught.value) == snapshot
    assert "\n" not in str(caught.value)


def test_a_table_that_does_not_fit_the_encoding_is_refused_with_its_place(tmp_path, demo, snapshot):
    write_json(demo, tmp_path / "r.json")
    lines = PATIENTS.read_text().splitlines()[:3]
    changes = (("worst radius", "radius"), ("24.99", "much"), ("malignant", "ill"))
    for old, new in changes:
        (tmp_path / "p.csv").write_text("\n".join(lines).replace(old, new, 1))
        with pytest.raises(DataError) as told:
            found(tmp_path, tmp_path / "p.csv")
        assert str(told.value) == snapshot


def test_results_of_other_networks_are_left_out_with_a_word(
    question, tmp_path, capsys, demo, snapshot
):
    write_json(demo, tmp_path / "other.json")
    out = tmp_path / "p.html"
    files = [str(question / "r.json"), str(tmp_path / "other.json")]
    assert run(["report", *files, "--data", str(PATIENTS), "-o", str(out)]) == 0
    text = out.read_text()
    assert passages(text, ("0", "other.json")) == snapshot
    assert passages(text, "patients.csv") == snapshot
    assert capsys.readouterr().err == ""


def test_results_that_bound_no_confidence_have_nothing_to_hold_points_against(made, snapshot):
    np.savez(made.folder / "p.npz", X=np.zeros((2, 3)))
    runs = load([str(made.file(made.result()))])
    with pytest.raises(PageError) as told:
        confidences(runs, GivenPoints.open(str(made.folder / "p.npz")))
    assert str(told.value) == snapshot


def test_two_networks_say_nothing_of_training_points(tmp_path, snapshot):
    text = (
        'let N = network("full.onnx")\nlet K = network("other.onnx")\nlet X = box(0, 1)\n'
        "find b: least b such that forall x in X: confidence(N, x) > b => "
        "label(K, x) == label(N, x)\n"
    )
    spec = write_question(tmp_path, text=text)
    full = load_network(tmp_path / "full.onnx")
    turned = {name: -value for name, value in full.parameters.items()}
    onnx.save(with_parameters(full.model, turned), tmp_path / "other.onnx")
    report = leaveout.verify(spec, workers=1)
    (result,) = report.results
    assert result.witness is not None and result.witness.other
    write_json(report, tmp_path / "r.json")
    runs = load([str(tmp_path / "r.json")])
    page = document(Page(runs, (), (), ""))
    assert passages(page, "<summary>") == snapshot
    np.savez(tmp_path / "p.npz", X=np.zeros((2, full.inputs)))
    with pytest.raises(PageError) as told:
        confidences(runs, GivenPoints.open(str(tmp_path / "p.npz")))
    assert str(told.value) == snapshot


def test_a_network_that_is_not_there_is_said(made, capsys, snapshot):
    np.savez(made.folder / "p.npz", X=np.zeros((2, 3)))
    path, out = made.file(made.leak(), spec=None), made.folder / "p.html"
    words = ["report", str(path), "--data", str(made.folder / "p.npz"), "-o", str(out)]
    assert run(words) == 2
    assert (capsys.readouterr().err) == snapshot
    assert not out.exists()
