"""Folders of evidence: honest ones are proved again, and no forged one for what is false.

A forger has two specifications of the same files, one that holds and one that may not. Results of
the second are told with verdict, bounds and certificate of the first, from the inside: everything
that a digest or a record can say fits. What is true of the second its own run tells.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import numpy as np
from msgspec import structs

import leaveout
from leaveout.errors import LeaveoutError
from leaveout.verifier.evidence.attest import Made, seal_statement, statement_of
from leaveout.verifier.evidence.certified import Standing
from leaveout.verifier.evidence.checking import check_evidence
from leaveout.verifier.evidence.signing import make_keys, read_signer
from leaveout.verifier.evidence.statement import relocate_report
from leaveout.verifier.records import FileRecord
from leaveout.verifier.report import Report, Result

from attacks.certificate_content import Content
from attacks.evidence_worlds import WORLDS
from attacks.kind import Case, Outcome
from attacks.warm import entry_points_kept, memory_folder

__all__ = ["Evidence"]

_SECONDS = 3.0
_CLOSE = 1e-5
"""Bounds are padded by less in certificates."""

_TOLD = ("verdict", "lower", "upper", "witness", "example", "reason", "facts", "confidence")


class Evidence:
    """A folder of evidence, as written or forged."""

    name = "evidence"

    def __init__(self) -> None:
        entry_points_kept()

    def make(self, rng: np.random.Generator) -> Case:
        """Draw files, two specifications of them, and what the forger does."""
        forgery = str(rng.choice(["honest", *_FORGERIES], p=_CHANCES))
        return {
            "world": str(rng.choice([*WORLDS], p=[0.3, 0.2, 0.08, 0.14, 0.14, 0.1, 0.04])),
            "seed": int(rng.integers(2**31)),
            "forgery": forgery,
            "signed": bool(rng.random() < 0.2),
        }

    def check(self, case: Case) -> Outcome:
        """Make evidence, forge it, and have it checked."""
        with tempfile.TemporaryDirectory(dir=memory_folder()) as name, chdir(name):
            return _Forger(case, Path(name)).outcome()

    def shrink(self, case: Case) -> Iterator[Case]:
        """Yield the same unsigned."""
        if case["signed"]:
            yield {**case, "signed": False}


class _Forger:
    def __init__(self, case: Case, folder: Path) -> None:
        self.case, self.folder, self.proof = case, folder, folder / "proof"
        self.world = WORLDS[case["world"]]
        self.rng = np.random.default_rng(case["seed"])
        self.extra: list[FileRecord] = []
        self.drop: set[str] = set()

    def verified(self, name: str, text: str) -> Report:
        """Verify a specification; its certificate is beside it."""
        (self.folder / name).write_text(text)
        cert = self.folder / f"{name}.cert"
        # Whoever forges has looked at the sample with as many claims as it takes.
        state = {}
        if self.case["world"] == "samples":
            state["XDG_STATE_HOME"] = str(self.folder / "state")
        with mock.patch.dict(os.environ, state):
            report = leaveout.verify(name, time=_SECONDS, workers=1, certificate=cert)
        shutil.rmtree(self.folder / "state", ignore_errors=True)
        for look in self.folder.glob("asked-*"):
            look.unlink()
        return report

    def outcome(self) -> Outcome:
        case = self.case
        self.world.write(self.folder, case["seed"])
        text = self.world.draw(case["seed"], self.rng)
        own = self.verified("s.spec", text)
        if case["forgery"] == "honest":
            self.seal(own, self.folder / "s.spec.cert")
            return self.judged(own, own, honest=True)
        other = text
        for _ in range(20):
            other = self.world.draw(case["seed"], self.rng)
            if other != text:
                break
        written = self.folder / "s.spec.cert"
        if written.exists():
            written.replace(self.folder / "kept.cert")
        # The first is what the forger wants to be told, the second what is true.
        true = self.verified("s.spec", other)
        told = _transplanted(true, own)
        told = _FORGERIES[case["forgery"]](self, told, own)
        kept = self.folder / "kept.cert"
        if self.rng.random() < 0.3:
            kept = self.folder / "s.spec.cert"
        self.seal(told, kept)
        return self.judged(told, true, honest=False)

    def seal(self, report: Report, certificate: Path) -> None:
        """Write results, certificate and an attestation of them as they are."""
        self.proof.mkdir(exist_ok=True)
        report = relocate_report(report, self.proof.resolve())
        report = structs.replace(report, files=(*report.files, *self.extra))
        made = []
        (self.proof / "result.json").write_bytes(report.to_json())
        if certificate.exists():
            # It names files seen from the evidence.
            content = Content.of(certificate)
            _moved(content.manifest)
            content.save(self.proof / "certificate.npz")
            own = _sha(self.proof / "certificate.npz")
            made.append(Made("certificate", "certificate.npz", own))
        made.append(Made("result", "result.json", _sha(self.proof / "result.json")))
        signer = None
        if self.case["signed"]:
            make_keys(self.folder / "me")
            signer = read_signer(self.folder / "me.key")
        statement = statement_of(report, made)
        kept = tuple(each for each in statement.subject if each.name not in self.drop)
        statement = structs.replace(statement, subject=kept)
        (self.proof / "attestation.json").write_bytes(seal_statement(statement, signer).content)

    def judged(self, told: Report, true: Report, *, honest: bool) -> Outcome:
        label = f"{self.case['world']}, {self.case['forgery']}"
        try:
            held = check_evidence(self.proof / "attestation.json")
        except LeaveoutError as error:
            wrong = f"honest evidence is rejected: {error}" if honest else None
            if "\n" in str(error):
                wrong = f"several lines: {str(error)[:80]!r}"
            return Outcome(label, "refused", wrong)
        wrong = None
        for standing in held.standings:
            if honest and not standing.proved and _is_due(standing.result):
                label += ", less was told"
                if not any("certificate" in note for note in told.notes):
                    wrong = f"honest evidence is not proved again: {_words(standing)}"
            if standing.proved and (said := _false(standing.result, true)):
                wrong = f"a false result is proved again: {said}: {_words(standing)}"
        again = all(each.proved for each in held.standings)
        return Outcome(label, "proved" if again else "unknown", wrong)


def _words(standing: Standing) -> str:
    result = standing.result
    return f"{result.name} {result.label} {result.verdict}: {standing.words or standing.why}"


def _is_due(result: Result) -> bool:
    """Whether honest evidence is to prove a result again."""
    if result.verdict == "unknown":
        return False
    # That many members leak is not kept of a sample.
    return not (result.verdict == "refuted" and result.is_sampled)


def _false(result: Result, true: Report) -> str:
    """Return in what a result says what is not so."""
    own = [each for each in true.results if (each.name, each.label) == (result.name, result.label)]
    own = own or [each for each in true.results if each.name == result.name]
    if not own:
        return "there is no such statement"
    found = own[0]
    if {result.verdict, found.verdict} == {"proved", "refuted"}:
        return f"{found.verdict} in truth"
    if (result.members, result.box, result.label_name) != (
        found.members,
        found.box,
        found.label_name,
    ):
        return "other members, inputs or names in truth"
    if result.kind != "find" or found.verdict == "refuted":
        return ""
    low, high = found.claimed_bounds
    if result.upper is not None and low is not None and result.upper < low - _close(low):
        return f"at least {low!r} in truth, not at most {result.upper!r}"
    lower = result.claimed_bounds[0]
    if lower is not None and high is not None and lower > high + _close(high):
        return f"at most {high!r} in truth, not at least {lower!r}"
    return ""


def _close(value: float) -> float:
    return _CLOSE * (1 + abs(value))


def _sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _moved(part: Any) -> None:
    """Let a certificate name files from a folder further down."""
    if isinstance(part, dict):
        if set(part) == {"path", "sha256", "kind"}:
            part["path"] = f"../{part['path']}"
        for each in part.values():
            _moved(each)
    elif isinstance(part, list):
        for each in part:
            _moved(each)


def _transplanted(true: Report, own: Report) -> Report:
    """Return the results of one run told with the outcome of another."""
    results = []
    for at, each in enumerate(true.results):
        best = own.results[min(at, len(own.results) - 1)]
        changes = {name: getattr(best, name) for name in _TOLD}
        if best.kind != each.kind:
            changes |= {"verdict": "proved", "witness": None, "example": None}
        results.append(structs.replace(each, **changes))
    return structs.replace(true, results=tuple(results))


def _each(report: Report, **changes: object) -> Report:
    return structs.replace(
        report, results=tuple(structs.replace(each, **changes) for each in report.results)
    )


def _plain(forger: _Forger, told: Report, own: Report) -> Report:
    return told


def _proved(forger: _Forger, told: Report, own: Report) -> Report:
    return _each(told, verdict="proved", reason=None, witness=None, example=None)


def _refuted(forger: _Forger, told: Report, own: Report) -> Report:
    return _each(told, verdict="refuted", reason=None)


def _tight(forger: _Forger, told: Report, own: Report) -> Report:
    """Say that a find was closed at one of its ends, or far below."""
    end = str(forger.rng.choice(["lower", "upper", "zero"]))
    results = []
    for each in told.results:
        value = 0.0 if end == "zero" else getattr(each, end)
        results.append(structs.replace(each, verdict="proved", lower=value, upper=value))
    return structs.replace(told, results=tuple(results))


def _own_box(forger: _Forger, told: Report, own: Report) -> Report:
    return _each(told, box=own.results[0].box, members=own.results[0].members)


def _no_specification(forger: _Forger, told: Report, own: Report) -> Report:
    forger.drop.add("s.spec")
    kept = tuple(each for each in told.files if each.kind != "specification")
    if forger.rng.random() < 0.5:
        kept = ()
    return structs.replace(told, files=kept)


def _two_specifications(forger: _Forger, told: Report, own: Report) -> Report:
    path = forger.folder / "t.spec"
    path.write_text("guarantee g: 1 > 0\n")
    forger.extra.append(FileRecord(path="t.spec", kind="specification", sha256=_sha(path)))
    return told


def _in_text(forger: _Forger, told: Report, own: Report) -> Report:
    """Put the text into the results, as of a specification built in Python."""
    kept = tuple(each for each in told.files if each.kind != "specification")
    statements = tuple(structs.replace(each, path="") for each in told.statements)
    return structs.replace(
        told, files=kept, spec=(forger.folder / "s.spec").read_text(), statements=statements
    )


def _dummy(forger: _Forger, told: Report, own: Report) -> Report:
    path = forger.folder / "weights.bin"
    path.write_bytes(b"0")
    kind = str(forger.rng.choice(["weights", "member", "family", "network", "file", "columns"]))
    forger.extra.append(FileRecord(path="weights.bin", kind=kind, sha256=_sha(path)))  # type: ignore[arg-type]
    return told


def _called(forger: _Forger, told: Report, own: Report) -> Report:
    """Call the files of the one run as the other calls its own."""
    known = {each.path for each in told.files}
    forger.extra += [each for each in own.files if each.path not in known]
    if not forger.extra:
        return told
    name = forger.extra[-1].called
    files = tuple(
        structs.replace(each, called=()) if each.called == name else each for each in told.files
    )
    return structs.replace(told, files=files)


def _swapped(forger: _Forger, told: Report, own: Report) -> Report:
    """Keep the file that the certificate is about under another name, and put another there."""
    models = [each for each in told.files if each.path.endswith((".npz", ".onnx", ".toml"))]
    if len(models) < 2:
        return told
    places = forger.rng.choice(len(models), 2, replace=False)
    one, two = (forger.folder / models[int(at)].path for at in places)
    kept = forger.folder / "kept.bin"
    shutil.copyfile(one, kept)
    if one.suffix == two.suffix:
        shutil.copyfile(two, one)
    path = forger.folder / "kept.cert"
    if path.exists():
        content = Content.of(path)
        _renamed(content.manifest, one.name, kept.name)
        content.save(path)
    shas = {each.path: _sha(forger.folder / each.path) for each in told.files}
    forger.extra.append(
        FileRecord(path="kept.bin", kind=models[0].kind, sha256=_sha(kept), called=models[0].called)
    )
    return structs.replace(
        told,
        files=tuple(structs.replace(each, sha256=shas[each.path]) for each in told.files),
    )


def _renamed(part: Any, old: str, new: str) -> None:
    if isinstance(part, dict):
        if part.get("path") == old:
            part["path"] = new
        for each in part.values():
            _renamed(each, old, new)
    elif isinstance(part, list):
        for each in part:
            _renamed(each, old, new)


def _certificate(forger: _Forger, told: Report, own: Report) -> Report:
    """Let the certificate claim what the other one does, with the proofs it has."""
    kept, true = forger.folder / "kept.cert", forger.folder / "s.spec.cert"
    if not (kept.exists() and true.exists()):
        return told
    content, wanted = Content.of(kept), Content.of(true).manifest
    for name in ("questions", "claims", "samples", "values", "forests"):
        had, want = content.manifest.get(name), wanted.get(name)
        if had and want and forger.rng.random() < 0.8:
            content.manifest[name] = _blended(want, had)
    content.save(kept)
    return told


_KEPT = ("tree", "proof", "proofs", "upper", "number", "origin", "sums", "near")


def _blended(want: Any, had: Any) -> Any:
    """Return one part of a manifest with the bounds and the proofs of another."""
    if isinstance(want, dict) and isinstance(had, dict):
        return {
            name: had[name] if name in _KEPT and name in had else _blended(each, had.get(name))
            for name, each in want.items()
        }
    if isinstance(want, list) and isinstance(had, list):
        return [
            _blended(each, had[min(at, len(had) - 1)]) if had else each
            for at, each in enumerate(want)
        ]
    return want


def _label_name(forger: _Forger, told: Report, own: Report) -> Report:
    return _each(told, label_name="benign")


def _fewer(forger: _Forger, told: Report, own: Report) -> Report:
    return structs.replace(told, results=told.results[:-1])


def _bare(forger: _Forger, told: Report, own: Report) -> Report:
    """Say nothing of statements, as earlier versions did."""
    return structs.replace(told, statements=())


def _mutated(forger: _Forger, told: Report, own: Report) -> Report:
    """Change one number or text anywhere in the results."""
    plain = json.loads(told.to_json())
    leaves = [*_leaves(plain)]
    for _ in range(int(forger.rng.integers(1, 4))):
        holder, key = leaves[int(forger.rng.integers(len(leaves)))]
        value = holder[key]
        if isinstance(value, bool) or value is None:
            continue
        if isinstance(value, int | float):
            holder[key] = type(value)(value + forger.rng.choice([1, -1, 7]))
        elif value in ("proved", "refuted", "unknown"):
            holder[key] = str(forger.rng.choice(["proved", "refuted"]))
    try:
        return msgspec.convert(plain, Report)
    except msgspec.ValidationError:
        return told


def _leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in items:
        if isinstance(each, dict | list):
            yield from _leaves(each)
        else:
            yield value, key


_FORGERIES: Mapping[str, Callable[[_Forger, Report, Report], Report]] = {
    "transplant": _plain,
    "proved": _proved,
    "refuted": _refuted,
    "tight": _tight,
    "box": _own_box,
    "no specification": _no_specification,
    "two specifications": _two_specifications,
    "in text": _in_text,
    "dummy": _dummy,
    "called": _called,
    "swapped": _swapped,
    "certificate": _certificate,
    "label name": _label_name,
    "fewer": _fewer,
    "bare": _bare,
    "mutated": _mutated,
}

_OFTEN = {"transplant": 3.0, "certificate": 3.0}
_WEIGHTS = np.array([4.0, *(_OFTEN.get(name, 1.0) for name in _FORGERIES)])
_CHANCES = _WEIGHTS / _WEIGHTS.sum()
