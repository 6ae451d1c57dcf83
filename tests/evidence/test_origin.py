"""Results name every file that a run read, its training rows, and where its statements stand."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from leaveout.models import load_network
from leaveout.specs import check, expand, parse
from leaveout.verifier import verify
from leaveout.verifier.cli.app import run
from leaveout.verifier.provenance import Origin

from support import networks
from support.files import BOUND, write_question

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def origin_of(spec: Path) -> Origin:
    tree = expand(parse(spec.read_text(), str(spec)), spec.parent, spec)
    return Origin.of(check(tree), spec.parent, spec)


def kinds(origin: Origin) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {each.path: (each.kind, each.called) for each in origin.files()}


def test_the_files_of_six_kinds_of_promises():
    assert kinds(origin_of(EXAMPLES / "six.spec")) == {
        "six.spec": ("specification", ()),
        "deletion/deletion.spec": ("included specification", ()),
        "breast_cancer/family/full.onnx": ("network", ("G", "N")),
        "breast_cancer/family/family.npz": ("family", ("G", "F")),
        "breast_cancer/family/bounds.npz": ("bounds", ("G",)),
        "six/edits.npz": ("ballots", ("V",)),
        "six/relabels.npz": ("ballots", ("W",)),
        "deletion/service.toml": ("service", ("S",)),
        "deletion/forest.npz": ("forest", ("T",)),
        "deletion/audit.npz": ("audit", ("A",)),
        "deletion/deletions.csv": ("rows", ()),
    }


def test_each_digest_is_that_of_the_bytes():
    for each in origin_of(EXAMPLES / "six.spec").files():
        assert each.sha256 == hashlib.sha256((EXAMPLES / each.path).read_bytes()).hexdigest()


def test_training_rows_are_those_of_the_family_and_of_the_forest():
    found = {each.path: each for each in origin_of(EXAMPLES / "six.spec").training()}
    family = found["breast_cancer/family/family.npz"]
    assert (family.rows, family.features, family.labels) == (569, 3, ("benign", "malignant"))
    with np.load(EXAMPLES / family.path) as archive:
        manifest = archive["manifest"].tobytes()
    assert family.manifest_sha256 == hashlib.sha256(manifest).hexdigest()
    assert family.sha256 == json.loads(manifest)["data"]["sha256"]
    forest = found["deletion/forest.npz"]
    assert (forest.rows, forest.features) == (569, 30)


def test_files_of_weights_and_members_and_columns_lie_beside_what_is_named(tmp_path):
    write_question(tmp_path)
    network = load_network(tmp_path / "full.onnx")
    (tmp_path / "members").mkdir()
    onnx.save(
        network.model, tmp_path / "full.onnx",
        save_as_external_data=True, location="weights.bin", size_threshold=0,
    )  # fmt: skip
    for row in (3, 4):
        onnx.save(
            networks.dense(np.random.default_rng(row), (3, 2)), tmp_path / f"members/{row}.onnx"
        )
    shutil.copy(EXAMPLES / "deletion" / "forest.npz", tmp_path / "forest.npz")
    (tmp_path / "forest.json").write_text("{}")
    (tmp_path / "test.spec").write_text(
        BOUND.replace("family.npz", "members")
        + 'let T = forest("forest.npz")\nguarantee kept: caches_sound(T)\n'
    )
    assert kinds(origin_of(tmp_path / "test.spec")) == {
        "test.spec": ("specification", ()),
        "full.onnx": ("network", ("N",)),
        "weights.bin": ("weights", ()),
        "members/3.onnx": ("member", ("F",)),
        "members/4.onnx": ("member", ("F",)),
        "forest.npz": ("forest", ("T",)),
        "forest.json": ("columns", ()),
    }


def test_what_no_statement_uses_is_not_read(tmp_path):
    write_question(tmp_path)
    text = 'let U = network("other.onnx")\nlet S = sharded("s.toml")\n' + BOUND
    (tmp_path / "test.spec").write_text(text)
    (tmp_path / "s.toml").write_text("")
    assert set(kinds(origin_of(tmp_path / "test.spec"))) == {
        "test.spec", "full.onnx", "family.npz",
    }  # fmt: skip


def test_what_is_missing_is_named_and_has_no_record(tmp_path):
    write_question(tmp_path)
    (tmp_path / "family.npz").unlink()
    origin = origin_of(tmp_path / "test.spec")
    assert origin.missing_files() == ["family.npz"]
    assert set(kinds(origin)) == {"test.spec", "full.onnx"}


def test_statements_stand_where_they_are_written(tmp_path, snapshot):
    write_question(tmp_path, text='# One line.\ninclude "in/more.spec"\n' + BOUND)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "more.spec").write_text("param eps = 0.5\n\n  guarantee g: eps < 1\n")
    report = verify(tmp_path / "test.spec", workers=1, params={"eps": 0.25})
    one, other = report.statements
    assert (one.name, one.path, one.line, one.column) == ("g", "in/more.spec", 3, 3)
    assert (other.name, other.path, other.line) == ("bound", "test.spec", 7)
    assert one.names == ("eps",)
    assert other.names == ("N", "F", "X")
    assert other.text.startswith("find bound: least b per label such that")
    assert other.sentence == snapshot


def test_a_specification_built_in_python_has_files_and_no_places(tmp_path):
    write_question(tmp_path)
    report = verify(parse(BOUND, "built"), folder=tmp_path, workers=1)
    assert [each.path for each in report.files] == ["full.onnx", "family.npz"]
    assert [each.path for each in report.statements] == [""]


def test_rows_that_are_given_have_a_digest_too(tmp_path, monkeypatch):
    write_question(tmp_path)
    np.savez(tmp_path / "rows.npz", X=np.zeros((2, 3), np.float32))
    report = verify(tmp_path / "test.spec", workers=1, data=tmp_path / "rows.npz")
    assert report.files[-1].kind == "given rows"
    assert report.files[-1].path == "rows.npz"


def test_a_file_that_changes_during_the_run_has_no_digest_and_a_note(tmp_path):
    spec = write_question(tmp_path)
    origin = origin_of(spec)
    held = (tmp_path / "full.onnx").read_bytes()
    (tmp_path / "full.onnx").write_bytes(held)  # touched, and the same
    assert origin.changed_files() == []
    (tmp_path / "full.onnx").write_bytes(held + b" ")
    assert origin.changed_files() == ["full.onnx"]
    assert [each.path for each in origin.files() if not each.sha256] == ["full.onnx"]


OLD = ("date", "folder", "files", "statements", "training")


@pytest.fixture
def earlier(tmp_path, monkeypatch) -> Path:
    """Results as an earlier version wrote them."""
    write_question(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run(["verify", "test.spec", "--workers", "1", "--json", "r.json"]) == 0
    result = json.loads((tmp_path / "r.json").read_text())
    for field in OLD:
        result.pop(field)
    (tmp_path / "r.json").write_text(json.dumps(result))
    return tmp_path


def test_results_of_earlier_versions_are_attested_with_what_is_there(earlier, capsys, snapshot):
    (earlier / "family.npz").unlink()
    capsys.readouterr()
    assert run(["attest", "r.json"]) == 0
    said = capsys.readouterr().out
    assert said == snapshot
    statement = json.loads((earlier / "attestation.json").read_text())
    assert {each["name"] for each in statement["subject"]} == {"test.spec", "full.onnx", "r.json"}
    assert len(statement["predicate"]["withoutDigest"]) == 2
    assert run(["check", "attestation.json"]) == 3
    assert capsys.readouterr().out == snapshot
    (earlier / "full.onnx").write_bytes(b"")
    assert run(["check", "attestation.json"]) == 1


def test_of_another_specification_nothing_is_taken_for_that_of_earlier_results(
    earlier, capsys, snapshot
):
    (earlier / "test.spec").write_text(BOUND + "\n")
    capsys.readouterr()
    assert run(["attest", "r.json"]) == 0
    assert capsys.readouterr().out == snapshot
    statement = json.loads((earlier / "attestation.json").read_text())
    assert [each["name"] for each in statement["subject"]] == ["r.json"]


def test_results_of_files_that_have_changed_are_not_attested(
    tmp_path, monkeypatch, capsys, snapshot
):
    write_question(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run(["verify", "test.spec", "--workers", "1", "--json", "r.json"]) == 0
    with (tmp_path / "family.npz").open("ab") as file:
        file.write(b" ")
    assert run(["attest", "r.json"]) == 2
    assert capsys.readouterr().err == snapshot
    (tmp_path / "family.npz").unlink()
    assert run(["attest", "r.json"]) == 0  # what is gone was what it was
