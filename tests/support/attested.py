"""Evidence on disk, changed from outside, and from inside by who has the key."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from leaveout.specs import load, params
from leaveout.verifier.cli.app import run
from leaveout.verifier.evidence.attest import Made, seal_statement, statement_of
from leaveout.verifier.evidence.signing import make_keys, read_signer, seal_payload
from leaveout.verifier.evidence.statement import read_report
from leaveout.verifier.page.spec_text import overridden_params
from leaveout.verifier.provenance import Origin
from leaveout.verifier.resolve_names import read_spec

from support.files import BOUND, write_question

INCLUDED = """\
# Another file.

guarantee loose:
    forall x in X, M in F: confidence(N, x) > 0.1 => label(M, x) == label(N, x)
"""
Json = dict[str, Any]


def make_evidence(folder: Path, before: Callable[[], None] = lambda: None) -> Path:
    """Write a specification that includes another one, keys, and evidence in ``proof``.

    ``before`` may change the files before they are verified.
    """
    write_question(folder, text=BOUND + '\ninclude "more/other.spec"\n')
    (folder / "more").mkdir()
    (folder / "more" / "other.spec").write_text(INCLUDED)
    make_keys(folder / "me")
    make_keys(folder / "other")
    before()
    here = Path.cwd()
    os.chdir(folder)
    try:
        command = ["verify", "test.spec", "--workers", "1", "--evidence", "proof"]
        assert run([*command, "--key", "me.key"]) == 1  # one statement is refuted
    finally:
        os.chdir(here)
    return folder


@dataclass(frozen=True)
class Attested:
    """Evidence that may be changed."""

    folder: Path

    @property
    def proof(self) -> Path:
        return self.folder / "proof"

    @property
    def attestation(self) -> Path:
        return self.proof / "attestation.json"

    def envelope(self) -> Json:
        return json.loads(self.attestation.read_text())

    def statement(self) -> Json:
        return json.loads(base64.b64decode(self.envelope()["payload"]))

    def rewrite(self, change: Callable[[Json], None]) -> None:
        """Change the envelope, as anybody may."""
        envelope = self.envelope()
        change(envelope)
        self.attestation.write_text(json.dumps(envelope))

    def restate(self, change: Callable[[Json], None], *, signed: bool = True) -> None:
        """Change the statement; sign it again, as who has the key may, or leave the signature."""
        statement = self.statement()
        change(statement)
        payload = json.dumps(statement).encode()
        if signed:
            self.attestation.write_bytes(seal_payload(payload, read_signer(self.folder / "me.key")))
        else:
            self.rewrite(lambda e: e.update(payload=base64.b64encode(payload).decode()))

    def reresult(self, change: Callable[[Json], None]) -> None:
        """Change the results, and the digest of them that is signed."""
        path = self.proof / "result.json"
        result = json.loads(path.read_text())
        change(result)
        path.write_text(json.dumps(result))
        self.redigest("result.json", path)

    def redigest(self, name: str, path: Path) -> None:
        """Sign the digest of a file as it is now."""

        def change(statement: Json) -> None:
            subject = next(each for each in statement["subject"] if each["name"] == name)
            subject["digest"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()

        self.restate(change)

    def reseal(self, change: Callable[[Json], None] = lambda result: None) -> None:
        """Change the results, and say of them and of every file what is true of them now."""
        path = self.proof / "result.json"
        result = json.loads(path.read_text())
        change(result)
        for each in result["files"]:
            own = hashlib.sha256((self.folder / each["path"]).read_bytes()).hexdigest()
            each["sha256"] = own
            if each["kind"] == "specification":
                result["spec_sha256"] = own
        path.write_text(json.dumps(result))
        report = read_report(path.read_bytes(), path)
        own_files = [each for each in self.statement()["subject"] if is_own(each)]
        made = [
            Made(
                each["annotations"]["kind"],
                each["name"],
                hashlib.sha256((self.proof / each["name"]).read_bytes()).hexdigest(),
            )
            for each in own_files
        ]
        signer = read_signer(self.folder / "me.key")
        self.attestation.write_bytes(seal_statement(statement_of(report, made), signer).content)

    def respec(self, old: str, new: str, name: str) -> None:
        """Change the specification, and what the results say that it says."""
        path = self.folder / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        self.retell(name)

    def retell(self, name: str) -> None:
        """Let the results say of every statement what the specification now says."""

        def follow(result: Json) -> None:
            path = self.folder / name
            values = overridden_params(result["notes"], params(load(path)))
            reading = read_spec(path, values=values)
            told = Origin.of(reading.checked, reading.folder, path).statements()
            result["statements"] = msgspec.to_builtins(told)

        self.reseal(follow)

    def check(self, *options: str) -> int:
        """Run the command as a user does."""
        return run(["check", "proof", "--key", "me.pub", *options])


def is_own(subject: Json) -> bool:
    """Whether an attestation names a file of the evidence itself."""
    return subject["annotations"]["kind"] in ("result", "certificate", "evidence")


def refused(attested: Attested, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """Return the line by which the evidence is rejected."""
    assert attested.check(*options) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err
