"""From a specification to verdicts, bounds and witnesses."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import jsonschema
import msgspec
import numpy as np
import onnx
import pytest

import leaveout
from leaveout.errors import LeaveoutError, SpecError
from leaveout.models import confidence, load_family_file, load_network
from leaveout.models.train.data import read_data
from leaveout.specs import parse
from leaveout.verifier import Report
from leaveout.verifier.points import network_leaks
from leaveout.verifier.report import exit_code, write_json

from support.files import BOUND, write_question

CLAIM = "forall x in X, M in F: {premise} => label(M, x) == label(N, x)"
HEAD = 'let N = network("full.onnx")\nlet F = family("family.npz")\nlet X = box(0, 1)\n'


def _verify(folder: Path, text: str = BOUND, **options):
    return leaveout.verify(write_question(folder, text=text), workers=1, **options)


def _guarantee(folder: Path, claim: str):
    (result,) = _verify(folder, f"{HEAD}guarantee g: {claim}\n").results
    return result


@pytest.fixture(scope="module")
def bounds(tmp_path_factory):
    return _verify(tmp_path_factory.mktemp("bound")).results


def test_find_per_label_gives_one_closed_entry_a_label(bounds):
    assert [result.label for result in bounds] == [0, 1]
    for result in bounds:
        assert (result.name, result.kind, result.verdict) == ("bound", "find", "proved")
        assert 0.5 < result.lower <= result.upper < result.lower * 1.01
        assert result.reason is None
        assert (result.engine, result.solver, result.members) == ("native", None, 2)
        assert result.box.lower == (0.0, 0.0, 0.0)


def test_every_witness_replays_through_onnxruntime(bounds, tmp_path, snapshot):
    write_question(tmp_path)
    network = load_network(tmp_path / "full.onnx")
    family = load_family_file(tmp_path / "family.npz")
    for result in bounds:
        witness = result.witness
        x = np.asarray([witness.x], np.float32)
        assert x[0].tolist() == list(witness.x)
        own = network.runner().scores(x)[0]
        taken = {k: v[witness.member] for k, v in family.parameters.items()}
        other = network.runner(taken).scores(x)[0]
        assert own.tolist() == list(witness.scores)
        assert other.tolist() == list(witness.member_scores)
        assert witness.label == own.argmax() == result.label
        assert witness.member_label == other.argmax() != result.label
        assert confidence(own.astype(float), result.label) == witness.confidence == result.lower
        assert witness.removed == 40 + witness.member
        assert witness.words == snapshot
        assert f"{witness.removed}" in witness.words
        assert f"{result.label}" in witness.words
        assert f"{1 - result.label}" in witness.words


def test_find_without_per_label_is_the_largest_of_all(tmp_path, bounds):
    text = BOUND.replace(" per label", "")
    (result,) = _verify(tmp_path, text).results
    assert result.label is None
    assert result.upper == pytest.approx(max(b.upper for b in bounds), abs=1e-6)
    assert result.lower == pytest.approx(max(b.lower for b in bounds), rel=1e-3)


def test_one_label_can_be_asked_for(tmp_path, bounds):
    text = HEAD + (
        "find b0: least b such that\n"
        "    forall x in X, M in F: confidence(N, x, 0) > b => label(M, x) == 0\n"
    )
    (result,) = _verify(tmp_path, text).results
    assert result.label == 0
    assert result.upper == pytest.approx(bounds[0].upper, abs=1e-4)


@pytest.mark.parametrize("operator", [">", ">="])
def test_a_guarantee_above_the_bound_is_proved_and_below_it_refuted(tmp_path, bounds, operator):
    upper = max(b.upper for b in bounds)
    above = _guarantee(
        tmp_path, CLAIM.format(premise=f"confidence(N, x) {operator} {upper + 0.01}")
    )
    assert (above.verdict, above.label) == ("proved", None)
    assert above.lower <= above.upper <= upper + 0.01
    below = _guarantee(tmp_path, CLAIM.format(premise=f"confidence(N, x) {operator} 0.3"))
    assert below.verdict == "refuted"
    assert below.witness.confidence == below.lower > 0.3


def test_the_premise_may_be_mirrored_and_constants_named(tmp_path):
    text = HEAD + "let t = 0.2 + 0.1\nguarantee g: " + CLAIM.format(premise="t < confidence(N, x)")
    assert _verify(tmp_path, text).results[0].verdict == "refuted"


def test_an_undecided_guarantee_about_all_labels_claims_nothing_about_one(tmp_path):
    claim = CLAIM.format(premise="confidence(N, x) > 0.84")
    (result,) = _verify(tmp_path, f"{HEAD}guarantee g: {claim}\n", time=0.02).results
    assert (result.verdict, result.label) == ("unknown", None)


def test_without_a_premise_any_leak_refutes(tmp_path):
    result = _guarantee(tmp_path, "forall x in X, M in F: label(M, x) == label(N, x)")
    assert result.verdict == "refuted"


def test_a_family_equal_to_the_network_leaks_nothing(tmp_path):
    spec = write_question(tmp_path)
    network = load_network(tmp_path / "full.onnx")
    same = {name: value[None] for name, value in network.parameters.items()}
    np.savez(tmp_path / "family.npz", removed=np.zeros(1, np.int64), **same)
    report = leaveout.verify(spec, workers=1)
    for result in report.results:
        # float32 rounding hides ties, so the bound is tiny and not zero.
        assert 0 <= result.upper < 1e-3
        assert result.witness is None


def test_two_networks_are_compared_like_a_family_of_one(tmp_path, snapshot):
    text = (
        'let N = network("full.onnx")\nlet Q = network("other.onnx")\nlet X = box(0, 1)\n'
        "find gap: least b such that\n"
        "    forall x in X: confidence(N, x) > b => label(Q, x) == label(N, x)\n"
    )
    spec = write_question(tmp_path, text=text)
    network = load_network(tmp_path / "full.onnx")
    family = load_family_file(tmp_path / "family.npz")
    from leaveout.models.replay import with_parameters

    onnx.save(
        with_parameters(network.model, {k: v[0] for k, v in family.parameters.items()}),
        tmp_path / "other.onnx",
    )
    (result,) = leaveout.verify(spec, workers=1).results
    assert result.members == 1
    assert result.verdict == "proved"
    assert result.lower > 0.1
    assert result.witness.words == snapshot


def test_a_guarantee_after_its_find_costs_no_second_search(tmp_path):
    text = BOUND + "guarantee g: " + CLAIM.format(premise="confidence(N, x) > 0.95")
    *_, guarantee = _verify(tmp_path, text).results
    assert guarantee.verdict == "proved"
    assert guarantee.seconds == 0


def test_a_find_that_knows_no_leak_spares_no_later_guarantee_its_search(tmp_path, monkeypatch):
    real, begun = network_leaks.search_native, []

    def cut_short(instance, label, options, **given):
        begun.append(given["decide"])
        found = real(instance, label, options, **given)
        if given["decide"]:
            return found
        # The lower bound of 0 is known without a leak.
        return replace(found, lower=0.0, witness=None, closed=False, reason="time", detail="")

    monkeypatch.setattr(network_leaks, "search_native", cut_short)
    guarantee = "guarantee g: forall x in X, M in F: label(M, x) == label(N, x)\n"
    results = _verify(tmp_path, BOUND + guarantee).results
    assert True in begun
    assert (results[-1].verdict, results[-1].reason) == ("refuted", None)


def test_time_runs_out_with_finite_bounds_and_a_reason(tmp_path):
    report = _verify(tmp_path, BOUND, time=0.02)
    assert {r.verdict for r in report.results} == {"unknown"}
    for result in report.results:
        assert result.reason.startswith("time")
        assert math.isfinite(result.upper)
        assert result.lower <= result.upper
    assert exit_code(report) == 3


def test_training_data_outside_the_box_is_reported(tmp_path, snapshot):
    report = leaveout.verify(write_question(tmp_path, reach=1.5), workers=1)
    (note,) = report.notes
    assert note == snapshot


def test_rows_without_a_member_are_reported(tmp_path, snapshot):
    report = leaveout.verify(write_question(tmp_path, rows=100), workers=1)
    (note,) = report.notes
    assert note == snapshot


def test_a_tree_is_verified_like_its_file(tmp_path, bounds):
    write_question(tmp_path)
    report = leaveout.verify(parse(BOUND, "built"), folder=tmp_path, workers=1)
    assert [r.upper for r in report.results] == pytest.approx([b.upper for b in bounds], abs=1e-6)


def test_json_is_what_the_schema_says_and_whole(tmp_path, bounds):
    report = Report(leaveout="0", spec="s", results=tuple(bounds))
    schema = json.loads(
        (Path(leaveout.verifier.__file__).parent / "report.schema.json").read_text()
    )
    jsonschema.validate(json.loads(report.to_json()), schema)
    assert msgspec.json.decode(report.to_json(), type=Report) == report
    generated = msgspec.json.schema(Report)
    assert {k: v for k, v in schema.items() if k != "$schema"} == json.loads(json.dumps(generated))
    write_json(report, tmp_path / "r.json")
    assert [file.name for file in tmp_path.iterdir()] == ["r.json"]


SAME = "label(M, x) == label(N, x)"
OVER = "forall x in X, M in F:"
NOT_DECIDED = [
    f"{OVER} confidence(M, x) > 1 => {SAME}",
    f"{OVER} confidence(N, x) < 1 => {SAME}",
    f"{OVER} confidence(N, x) > 1 => label(M, x) != label(N, x)",
    f"{OVER} confidence(N, x) > 1 => label(M, x) == 0",
    f"{OVER} confidence(N, x, 1) > 1 => label(M, x) == 0",
    f"{OVER} confidence(N, x, 1) > -1 => label(M, x) == 1",
    f"{OVER} confidence(N, x, 1) > -1 => {SAME}",
    f"{OVER} confidence(N, x) > 1 => label(N, x) == label(N, x)",
    f"{OVER} confidence(N, x) > 1 => label(M, x) == label(M, x)",
    "forall x in X, y in X, M in F: confidence(N, x) > 1 => label(M, y) == label(N, x)",
    f"{OVER} confidence(N, x) > 1 and 1 > 0 => {SAME}",
    "forall x in X: confidence(N, x) > 1",
]


@pytest.mark.parametrize("claim", NOT_DECIDED)
def test_lucid_refuses_what_is_not_an_idp_statement_and_never_guesses(tmp_path, claim, snapshot):
    with pytest.raises(SpecError) as caught:
        _verify(tmp_path, f"{HEAD}guarantee g: {claim}\n", engine="lucid")
    assert str(caught.value) == snapshot
    assert "test.spec:4:" in str(caught.value)


def test_a_computed_label_must_be_whole(tmp_path, snapshot):
    text = HEAD + (
        "let c = 3 / 2\n"
        "guarantee g: forall x in X, M in F: confidence(N, x, c) > 0.1 => label(M, x) == 1\n"
    )
    with pytest.raises(SpecError) as told:
        _verify(tmp_path, text)
    assert str(told.value) == snapshot


def test_options_out_of_range_are_refused(tmp_path, snapshot):
    spec = write_question(tmp_path)
    for options in (
        {"engine": "natve"},
        {"variant": "x"},
        {"time": 0.0},
        {"time": math.nan},
        {"workers": 0},
        {"solver": "hihgs"},
    ):
        with pytest.raises(LeaveoutError) as told:
            leaveout.verify(spec, **options)
        assert str(told.value) == snapshot


def test_where_rows_of_a_table_stand_is_noted_once_beside_a_witness(tmp_path):
    example = Path(__file__).parents[2] / "examples" / "breast_cancer" / "breast_cancer.spec"
    report = leaveout.verify(example, time=60)
    removed = [each.witness.removed for each in report.results if each.witness is not None]
    assert removed
    said = [each for each in report.notes if "row k is line k + 2" in each]
    assert len(said) == 1
    lines = (example.parent / "patients.csv").read_text().splitlines()
    x = read_data(example.parent / "patients.csv", "diagnosis")
    for row in removed:
        assert x.labels[x.y[row]] == lines[row + 2 - 1].rpartition(",")[2]
    assert not any("row k" in each for each in _verify(tmp_path, BOUND).notes)
