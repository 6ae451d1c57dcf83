"""Certificates of linear models: what is proved is checked, and no forgery proves what is false."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout import verify
from leaveout.bab.linear.search import confidence
from leaveout.errors import LeaveoutError
from leaveout.kernel.model import LinearModel
from leaveout.models.linear.file import load_linear, save_linear
from leaveout.verifier.certify.check import check
from leaveout.verifier.cli.app import run

from support.depth import rounds
from support.linear_models import drawn_model, retrained

SPEC = """let L = linear("linear.npz")
let F = leave_one_out(L)
let X = box(0, 1)
find bound: least b per label such that
    forall x in X, M in F: confidence(L, x) > b => label(M, x) == label(L, x)
guarantee quiet: forall x in X, M in F: confidence(L, x) > 9 => label(M, x) == label(L, x)
guarantee loud: forall x in X, M in F: label(M, x) == label(L, x)
find d: least d such that forall x in X, M in F: difference(L, M, x) <= d
guarantee near: forall x in X, M in F: difference(L, M, x) <= 9
"""
KEPT = """guarantee kept: forall x in X, M in F: score(L, x) >= 9 => score(M, x) >= 0.1
find b: least b such that forall x in X, M in F: score(L, x) > b => score(M, x) > 0.1
find c: greatest c such that forall x in X, M in F: score(L, x) <= c => score(M, x) <= 0.1
"""


class Proved(NamedTuple):
    """A certificate, apart."""

    folder: Path
    manifest: dict
    arrays: dict
    members: list[LinearModel]

    @property
    def part(self) -> dict:
        return self.manifest["linear"]


def make(folder, model, spec=SPEC) -> Proved:
    """Verify, and read the certificate."""
    save_linear(folder / "linear.npz", model)
    (folder / "a.spec").write_text(spec)
    report = verify(folder / "a.spec", certificate=folder / "a.cert")
    with np.load(folder / "a.cert") as archive:
        arrays = dict(archive)
    manifest = json.loads(arrays.pop("manifest").tobytes())
    members = [retrained(model, unit) for unit in range(len(model.unit_names))]
    assert not [note for note in report.notes if "not accept" in note]
    return Proved(folder, manifest, arrays, members)


def write(proved: Proved) -> Path:
    """Write a certificate that was changed."""
    path = proved.folder / "forged.cert"
    text = np.frombuffer(json.dumps(proved.manifest).encode(), np.uint8)
    with path.open("wb") as stream:
        np.savez(stream, manifest=text, **proved.arrays)
    return path


def is_refuted(proved: Proved, claim: dict, model: LinearModel, members) -> bool:
    """Return whether an input of the claim's set shows that it is false."""
    box = proved.part["questions"][claim["question"]]["box"]
    low, high = np.array(box["lower"]), np.array(box["upper"])
    rng = np.random.default_rng(0)
    x = rng.uniform(low, high, (300, len(low)))
    x[:100] = np.where(rng.integers(0, 2, (100, len(low))), high, low)
    own, upper, label = model.scores(x), claim["upper"], claim["label"]
    for member in members:
        theirs = member.scores(x)
        if claim["kind"] == "difference":
            bad = np.abs(own - theirs).max(axis=1) > upper
        elif claim["kind"] == "leaks":
            mine, other = (np.array([confidence(s, label) for s in each]) for each in (own, theirs))
            bad = (mine > upper) & (mine > 0) & (other <= 0)
        else:
            one, two = (claim["sign"] * each.raw_scores(x)[:, label] for each in (model, member))
            bad = (one > upper) & (two <= claim["level"])
        if bad.any():
            return True
    return False


def refute_accepted(proved: Proved, model: LinearModel, members) -> int:
    """Check each claim by itself, fail if one is accepted and false; return how many are."""
    count = 0
    for claim in proved.part["results"]:
        manifest = {**proved.manifest, "linear": {**proved.part, "results": [claim]}}
        try:
            check(write(proved._replace(manifest=manifest)))
        except LeaveoutError:
            continue
        count += 1
        assert not is_refuted(proved, claim, model, members)
    return count


@pytest.fixture(scope="module")
def proved(tmp_path_factory) -> Proved:
    folder = tmp_path_factory.mktemp("linear")
    return make(folder, drawn_model(5, plain=True, rows=20), SPEC + KEPT)


@settings(max_examples=rounds(25))
@given(
    seed=st.integers(0, 2**20),
    kind=st.sampled_from(["logistic", "softmax", "svm", "ridge"]),
    grouped=st.booleans(),
    labels=st.integers(2, 3),
)
def test_what_is_proved_is_checked(tmp_path_factory, seed, kind, grouped, labels):
    labels = 2 if kind == "logistic" else labels
    folder = tmp_path_factory.mktemp("proved")
    model = drawn_model(seed, kind, grouped=grouped, labels=labels)
    save_linear(folder / "linear.npz", model)
    (folder / "a.spec").write_text(SPEC)
    report = verify(folder / "a.spec", certificate=folder / "a.cert")
    if any("no certificate" in note for note in report.notes):
        return
    found = check(folder / "a.cert")
    names = {name for each in found for name in each.name.split(", ")}
    for result in report:
        if result.verdict != "proved":
            continue
        assert result.name in names
        own = [each for each in found if result.name in each.name.split(", ")]
        if result.kind == "find" and result.label is not None:
            (one,) = (each for each in own if each.label == result.label)
            assert one.upper <= max(result.upper, 0.0) + 1e-9
    for claim in json.loads(np.load(folder / "a.cert")["manifest"].tobytes())["linear"]["results"]:
        box = {"lower": [0.0] * model.inputs, "upper": [1.0] * model.inputs}
        members = [retrained(model, unit) for unit in range(len(model.unit_names))]
        one = Proved(folder, {"linear": {"questions": [{"box": box}]}}, {}, [])
        assert not is_refuted(one, {**claim, "question": 0}, model, members)


def test_commands_check_and_attest(proved, capsys, snapshot):
    folder = proved.folder
    assert run(["check", str(folder / "a.cert")]) == 0
    assert capsys.readouterr().out == snapshot
    result, attestation = str(folder / "r.json"), str(folder / "att.json")
    words = ["verify", str(folder / "a.spec"), "--json", result]
    assert run([*words, "--certificate", str(folder / "a.cert")]) == 1
    assert run(["attest", result, "--certificate", str(folder / "a.cert"), "-o", attestation]) == 0
    capsys.readouterr()
    assert run(["check", attestation]) == 0
    assert "9 of 9 results proved again" in capsys.readouterr().out
    # Results that the certificate contradicts are told apart.
    told = json.loads((folder / "r.json").read_bytes())
    for each in told["results"]:
        if each["name"] == "d":
            each["lower"] = each["upper"] = each["upper"] + 1
    (folder / "r.json").write_text(json.dumps(told))
    attest = ["attest", result, "--certificate", str(folder / "a.cert"), "-o", attestation]
    assert run(attest) == 0
    capsys.readouterr()
    assert run(["check", attestation]) != 0
    assert "d" in capsys.readouterr().err


def change(name, at, value):
    """Return a forgery of a manifest's part."""

    def forge(proved):
        place = proved.part[name][at]
        *path, last = value[0]
        for key in path:
            place = place[key]
        place[last] = value[1](place[last])

    return forge


FORGERIES = {
    "another file's digest": change("questions", 0, (("model", "sha256"), lambda v: "0" * 64)),
    "another file": change("questions", 0, (("model", "path"), lambda v: "a.spec")),
    "a file outside": change("questions", 0, (("model", "path"), lambda v: "../linear.npz")),
    "another kind of file": change("questions", 0, (("model", "kind"), lambda v: "network")),
    "fewer members": change("questions", 0, (("members",), lambda v: v - 1)),
    "a wider box": change("questions", 0, (("box", "upper"), lambda v: [9.0 for _ in v])),
    "another box's size": change("questions", 0, (("box", "upper"), lambda v: v[1:])),
    "other hints": change("questions", 0, (("hints",), lambda v: "proof99")),
    "a lower bound": change("results", 0, (("upper",), lambda v: v - 0.05)),
    "no leak at all": change("results", 0, (("upper",), lambda v: -1.0)),
    "another label": change("results", 0, (("label",), lambda v: 7)),
    "a negative label": change("results", 0, (("label",), lambda v: -1)),
    "no label": change("results", 0, (("label",), lambda v: None)),
    "a level of a leak": change("results", 0, (("level",), lambda v: -3.0)),
    "a sign of a leak": change("results", 0, (("sign",), lambda v: -1)),
    "another kind of claim": change("results", 0, (("kind",), lambda v: "difference")),
    "a kind that is none": change("results", 0, (("kind",), lambda v: "holds")),
    "another question": change("results", 0, (("question",), lambda v: 5)),
    "another claim's proof": change("results", 0, (("proof",), lambda v: "proof99")),
    "a name of two lines": change("results", 0, (("name",), lambda v: "a\nb")),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_forgeries_of_the_manifest_are_rejected(proved, forge, snapshot):
    forged = proved._replace(manifest=copy.deepcopy(proved.manifest))
    forge(forged)
    with pytest.raises(LeaveoutError) as told:
        check(write(forged))
    assert str(told.value).replace(str(proved.folder), "TMP") == snapshot


def ends(proved, ending):
    """Return the names of arrays that end so."""
    return [name for name in proved.arrays if name.rpartition(".")[2].startswith(ending)]


@pytest.fixture(scope="module")
def wide(tmp_path_factory) -> Proved:
    """More members than are refitted."""
    return make(tmp_path_factory.mktemp("wide"), drawn_model(5, plain=True, rows=120), SPEC)


def test_the_claims_as_they_are_hold_one_by_one(wide):
    assert len(wide.arrays[ends(wide, "measured")[0]]) < len(wide.members)
    model = load_linear(wide.folder / "linear.npz")
    assert refute_accepted(wide, model, wide.members) == len(wide.part["results"])


@settings(max_examples=rounds(150))
@given(seed=st.integers(0, 2**31), data=st.data())
def test_forged_numbers_prove_nothing_false(wide, seed, data):
    rng = np.random.default_rng(seed)
    forged = wide._replace(manifest=copy.deepcopy(wide.manifest), arrays=copy.deepcopy(wide.arrays))
    kinds = st.sampled_from(["R", "t", "measured", "centres", "missing", "type", "nan", "none"])
    for kind in data.draw(st.lists(kinds, min_size=1, max_size=2)):
        if kind in ("R", "t", "centres"):
            for name in ends(forged, kind):
                array, size = forged.arrays.get(name), 10.0 ** rng.integers(-9, 3)
                if array is not None and array.dtype == np.float64:
                    forged.arrays[name] = array + size * rng.normal(size=array.shape)
        elif kind == "measured":
            for name in ends(forged, "measured"):
                forged.arrays[name] = np.sort(rng.choice(130, 3, replace=False))
                centres = name.replace("measured", "centres")
                own = wide.arrays[centres]
                forged.arrays[centres] = np.zeros((3, *own.shape[1:]))
        elif kind != "none":
            name = data.draw(st.sampled_from(sorted(forged.arrays)))
            array = forged.arrays[name]
            if kind == "missing":
                del forged.arrays[name]
            elif kind == "type":
                forged.arrays[name] = array.astype(np.float32)
            elif array.size and array.dtype == np.float64:
                forged.arrays[name] = np.full(array.shape, np.nan)
        if not forged.arrays:
            return
    for claim in forged.part["results"]:
        claim["upper"] += float(rng.choice([0.0, -1e-3, -0.1, 0.1, 1.0]))
    model = load_linear(wide.folder / "linear.npz")
    refute_accepted(forged, model, wide.members)


@settings(max_examples=rounds(60))
@given(seed=st.integers(0, 2**31))
def test_another_model_under_the_same_certificate_proves_nothing_false(
    proved, seed, tmp_path_factory
):
    """From the inside: the model's file is forged, and its digest in the certificate with it."""
    import hashlib
    from dataclasses import replace

    rng, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("forged")
    model = load_linear(proved.folder / "linear.npz")
    size = 10.0 ** rng.integers(-6, 1)
    match int(rng.integers(4)):
        case 0:
            noise = size * rng.normal(size=model.coefficients.shape)
            model = replace(model, coefficients=model.coefficients + noise)
        case 1:
            y = model.y.copy()
            y[rng.integers(len(y))] = rng.integers(2)
            model = replace(model, y=y)
        case 2:
            model = replace(model, X=model.X + size * rng.normal(size=model.X.shape))
        case _:
            model = replace(model, penalty=model.penalty * (1 + size))
    save_linear(folder / "linear.npz", model)
    digest = hashlib.sha256((folder / "linear.npz").read_bytes()).hexdigest()
    forged = proved._replace(folder=folder, manifest=copy.deepcopy(proved.manifest))
    for question in forged.part["questions"]:
        question["model"]["sha256"] = digest
    members = [retrained(model, unit) for unit in range(len(model.unit_names))]
    refute_accepted(forged, model, members)


def test_a_unit_left_out_of_the_multipliers_is_rejected(proved):
    forged = proved._replace(arrays={k: v.copy() for k, v in proved.arrays.items()})
    for name in ends(forged, "t"):
        forged.arrays[name] = forged.arrays[name][:-1]
    with pytest.raises(LeaveoutError):
        check(write(forged))


def test_a_file_that_changed_is_rejected(proved, tmp_path):
    (tmp_path / "a.cert").write_bytes((proved.folder / "a.cert").read_bytes())
    model = load_linear(proved.folder / "linear.npz")
    model.y[0] = 1 - model.y[0]
    save_linear(tmp_path / "linear.npz", model)
    with pytest.raises(LeaveoutError, match="not the files that the certificate is about"):
        check(tmp_path / "a.cert")


@pytest.mark.parametrize("name", ["weights", "penalty"])
def test_a_file_with_a_negative_weight_or_penalty_is_no_model(tmp_path, name):
    model = drawn_model(5, plain=True)
    save_linear(tmp_path / "linear.npz", replace(model, **{name: -getattr(model, name)}))
    with pytest.raises(LeaveoutError, match=f"linear.npz.*a {name.rstrip('s')} is negative"):
        load_linear(tmp_path / "linear.npz")
