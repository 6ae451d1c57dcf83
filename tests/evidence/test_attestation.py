"""An attestation is accepted as it was made; whatever is changed of it, or of a file, is named."""

from __future__ import annotations

import base64
import json

import pytest

from leaveout.verifier.cli.app import run

from support.attested import Attested, refused
from support.snapshots import passages


def test_what_was_made_is_accepted(attested, capsys, snapshot):
    assert attested.check() == 0
    said = capsys.readouterr().out
    key = attested.envelope()["signatures"][0]["keyid"]
    assert said == snapshot
    assert f"{key}" in said
    assert passages(said, "3", "0.87852") == snapshot


def test_without_a_key_nothing_is_said_to_be_verified(attested, capsys, snapshot):
    assert run(["check", "proof"]) == 0
    assert passages(capsys.readouterr().out, "--key") == snapshot


def test_the_attestation_alone_is_checked_as_its_folder(attested, capsys):
    assert run(["check", "proof/attestation.json", "--key", "me.pub"]) == 0
    assert "verified" in capsys.readouterr().out


def test_every_file_that_the_run_read_has_its_digest(attested):
    subjects = {each["name"]: each["annotations"] for each in attested.statement()["subject"]}
    assert subjects["test.spec"] == {"kind": "specification", "called": []}
    assert subjects["more/other.spec"] == {"kind": "included specification", "called": []}
    assert subjects["full.onnx"] == {"kind": "network", "called": ["N"]}
    assert subjects["family.npz"] == {"kind": "family", "called": ["F"]}
    assert subjects["result.json"]["kind"] == "result"
    assert subjects["certificate.npz"]["kind"] == "certificate"
    made = {each.name for each in attested.proof.iterdir()} - {"attestation.json"}
    assert made <= set(subjects)


def flip(text: str) -> str:
    return ("B" if text[0] == "A" else "A") + text[1:]


@pytest.mark.parametrize(
    "change",
    [
        lambda e: e.update(payloadType="application/json"),
        lambda e: e["signatures"][0].update(sig=flip(e["signatures"][0]["sig"])),
        lambda e: e["signatures"][0].update(sig=""),
        lambda e: e["signatures"][0].update(sig="!"),
        lambda e: e["signatures"][0].update(keyid="0" * 64),
        lambda e: e.update(signatures=[]),
        lambda e: e.update(signatures=e["signatures"] * 2),
        lambda e: e.update(payload="%"),
        lambda e: e.update(payload=base64.b64encode(b"{}").decode()),
        lambda e: e.update(more=1),
        lambda e: e.pop("payload"),
    ],
)
def test_a_changed_envelope_is_rejected(attested, capsys, change, snapshot):
    attested.rewrite(change)
    assert refused(attested, capsys) == snapshot


def test_a_bare_statement_is_not_signed(attested, capsys, snapshot):
    attested.attestation.write_text(json.dumps(attested.statement()))
    assert refused(attested, capsys) == snapshot
    assert run(["check", "proof"]) == 0
    assert capsys.readouterr().out == snapshot


def test_another_key_is_named(attested, capsys, snapshot):
    assert run(["check", "proof", "--key", "other.pub"]) == 1
    said = capsys.readouterr().err
    assert said == snapshot
    assert "(other.pub)" in said


def test_a_key_under_the_id_of_another_does_not_pass(attested, capsys, snapshot):
    own = attested.envelope()["signatures"][0]["keyid"]
    statement = attested.statement()
    payload = json.dumps(statement).encode()
    from leaveout.verifier.evidence.signing import read_signer, seal_payload

    forged = json.loads(seal_payload(payload, read_signer(attested.folder / "other.key")))
    forged["signatures"][0]["keyid"] = own
    attested.attestation.write_text(json.dumps(forged))
    assert refused(attested, capsys) == snapshot


@pytest.mark.parametrize("cut", [0, 1, 100, -1, -3])
def test_a_truncated_attestation_is_rejected(attested, capsys, cut):
    whole = attested.attestation.read_bytes().rstrip()
    attested.attestation.write_bytes(whole[:cut])
    assert "attestation.json" in refused(attested, capsys)


def _first(statement):
    return statement["predicate"]["statements"][0]


STATED = [
    lambda s: s.update(_type="https://in-toto.io/Statement/v0.1"),
    lambda s: s.update(predicateType="https://other.example/v1"),
    lambda s: _first(s).update(name="other"),
    lambda s: _first(s).update(verdict="refuted"),
    lambda s: _first(s).update(upper=0.0),
    lambda s: _first(s).update(lower=None),
    lambda s: _first(s).update(label=1),
    lambda s: _first(s).update(text="guarantee x: 1 > 0"),
    lambda s: _first(s).update(sentence="All is well."),
    lambda s: _first(s)["scope"].update(members=10**6),
    lambda s: _first(s)["place"].update(line=99),
    lambda s: _first(s).update(certified="by nobody"),
    lambda s: s["predicate"]["statements"].pop(),
    lambda s: s["predicate"]["notes"].append("x"),
    lambda s: s["predicate"]["training"].clear(),
    lambda s: s["predicate"]["verification"].update(leaveout="9"),
    lambda s: s["subject"].pop(0),
    lambda s: s["subject"][0].update(name="a.spec"),
    lambda s: s["subject"][0]["annotations"].update(kind="file"),
    lambda s: s["subject"].append({**s["subject"][0], "name": "b"}),
    lambda s: s["subject"][0]["digest"].update(md5="00"),
    lambda s: s["subject"][0].update(name="a\nb"),
]


@pytest.mark.parametrize("change", STATED)
@pytest.mark.parametrize("signed", [True, False])
def test_a_changed_statement_is_rejected_by_its_signature_and_by_what_it_says(
    attested, capsys, change, signed, snapshot
):
    attested.restate(change, signed=signed)
    assert refused(attested, capsys) == snapshot


def _digests(made):
    return Attested(made).statement()["subject"]


def test_every_digest_is_held_against_its_file(attested, capsys):
    for number, subject in enumerate(_digests(attested.folder)):
        whole = attested.attestation.read_bytes()

        def change(statement, number=number):
            digest = statement["subject"][number]["digest"]
            digest["sha256"] = "0" * 64

        attested.restate(change)
        said = refused(attested, capsys)
        assert subject["name"].rpartition("/")[2] in said, said
        attested.attestation.write_bytes(whole)


def test_every_file_is_held_against_its_digest(attested, capsys, snapshot):
    for subject in _digests(attested.folder):
        own = subject["annotations"]["kind"] in ("result", "certificate", "evidence")
        path = (attested.proof if own else attested.folder) / subject["name"]
        whole = path.read_bytes()
        for changed in (whole[:-1], whole + b"\n", b""):
            path.write_bytes(changed)
            assert refused(attested, capsys) == snapshot
        path.unlink()
        assert attested.check() == 2
        assert capsys.readouterr().err == snapshot
        path.write_bytes(whole)
    assert attested.check() == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["results"][0].update(verdict="unknown"),
        lambda r: r["results"][0].update(upper=0.1),
        lambda r: r["results"].pop(),
        lambda r: r["results"].reverse(),
        lambda r: r["files"].pop(),
        lambda r: r["files"][0].update(sha256="00"),
        lambda r: r["statements"][0].update(text="find bound: 1"),
        lambda r: r.update(notes=["nothing to see"]),
    ],
)
def test_results_that_say_something_else_are_rejected(attested, capsys, change, snapshot):
    attested.reresult(change)
    assert refused(attested, capsys) == snapshot


def test_files_that_were_moved_are_found_where_the_caller_says(attested, capsys, monkeypatch):
    elsewhere = attested.folder.parent / "elsewhere"
    attested.proof.rename(elsewhere)
    (attested.folder / "me.pub").rename(elsewhere.parent / "me.pub")
    monkeypatch.chdir(elsewhere)
    command = ["check", ".", "--key", "../me.pub"]
    assert run(command) == 2
    assert "--files DIR" in capsys.readouterr().err
    assert run([*command, "--files", str(attested.folder)]) == 0


def test_files_elsewhere_are_not_opened_unasked(attested, capsys, snapshot):
    secret = attested.folder.parent / "secret"
    secret.write_text("x")
    attested.reresult(lambda r: r["files"].append(
        {"path": "../secret", "kind": "file", "sha256": "00", "called": []}
    ))  # fmt: skip
    attested.restate(lambda s: s["subject"].append(
        {"name": "../secret", "digest": {"sha256": "00"},
         "annotations": {"kind": "file", "called": []}}
    ))  # fmt: skip
    assert attested.check() == 2
    assert capsys.readouterr().err == snapshot


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "proof", "--key", "me.key"],
        ["check", "proof", "--key", "none.pub"],
        ["check", "proof", "--key", "test.spec"],
        ["check", "proof/certificate.npz", "--key", "me.pub"],
        ["check", "more"],
        ["attest", "proof/result.json", "--key", "me.pub"],
        ["attest", "proof/result.json", "--key", "test.spec"],
        ["attest", "full.onnx"],
        ["attest", "none.json"],
        ["attest"],
        ["attest", "--new-key", "me"],
        ["attest", "r.json", "--new-key", "you"],
        ["attest", "proof/result.json", "-o", "test.spec"],
        ["attest", "proof/result.json", "--certificate", "full.onnx"],
    ],
)
def test_bad_input_is_one_line(attested, capsys, arguments, snapshot):
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert said == snapshot
    assert said.count("\n") == 1


def test_what_looks_like_evidence_and_is_not_attested_is_named(attested, capsys, snapshot):
    assert attested.check() == 0
    assert "not attested" not in capsys.readouterr().out
    attested.restate(
        lambda s: s.update(subject=[e for e in s["subject"] if e["name"] != "summary.md"])
    )
    assert attested.check() == 0
    assert capsys.readouterr().out == snapshot
