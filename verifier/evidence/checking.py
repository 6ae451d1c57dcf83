"""Checks of an attestation: signature, digests, statements and proofs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from leaveout.files import RESULTS, open_file, sha256_of
from leaveout.kernel.claims.check import Checked, Progress
from leaveout.verifier.certify.check import check
from leaveout.verifier.evidence.asked import resolve_statements
from leaveout.verifier.evidence.certified import Standing, standings
from leaveout.verifier.evidence.parts import ATTESTATION, NAMES
from leaveout.verifier.evidence.signing import Envelope, decode_json, open_envelope, read_public
from leaveout.verifier.evidence.statement import (
    PREDICATE_TYPE,
    STATEMENT_TYPE,
    EvidenceError,
    Places,
    Predicate,
    Proved,
    Statement,
    Subject,
    TamperedError,
    folders,
    predicate_of,
    read_bytes,
    read_report,
    subjects_of,
)
from leaveout.verifier.report import Report

if TYPE_CHECKING:
    from securesystemslib.signer import SSlibKey


_NETWORKS = ("network", "member", "trees")
_LOOKED_AT = 256

_OWN_FILES = ("result", "certificate", "evidence")
"""Kinds of files with names relative to the attestation."""


@dataclass(frozen=True)
class CheckedEvidence:
    """Evidence that passed every check."""

    attestation: Path
    signers: tuple[str, ...]  # ids of the alleged signing keys; empty for a bare statement
    keyid: str  # id of the key whose signature was verified; empty if no key was given
    digests: int  # number of files with the stated digests
    report: Report  # the results
    checked: tuple[Checked, ...]
    standings: tuple[Standing, ...]  # how far the certificate supports each result
    unnamed: tuple[str, ...] = ()
    params: tuple[str, ...] = ()


def is_attestation(path: Path) -> bool:
    """Return whether a file starts like JSON, as no certificate does."""
    try:
        with open_file(path, RESULTS) as stream:
            return stream.read(_LOOKED_AT).lstrip()[:1] == b"{"
    except OSError:
        # Its reader reports what is wrong.
        return path.suffix == ".json"


def check_evidence(
    attestation: Path,
    *,
    key: Path | None = None,
    network: Sequence[Path] = (),
    family: Sequence[Path] = (),
    files: Sequence[Path] = (),
    exact: bool = False,
    progress: Progress | None = None,
) -> CheckedEvidence:
    """Check an attestation, its results, and the certificate that proves them."""
    # An unusable key must fail before any file is read.
    public = None if key is None else (read_public(key), key)
    content = read_bytes(attestation, "an attestation of leaveout attest")
    envelope = open_envelope(content, str(attestation))
    keyid = _check_signature(envelope, public)
    statement = _statement(envelope)
    near = folders(files)
    beside = Places(attestation.parent, "", near)
    result = _one(statement, "result", attestation)
    assert result is not None
    path = beside.find(result.name)
    _check_digest(result, path)
    content = read_bytes(path, "a results file of verify --json")
    report = read_report(content, path)
    _check_against_results(statement, report, attestation)
    places = Places(path.parent, report.folder, near)
    digests = _check_digests(statement, beside, places)
    found = [(each.annotations.kind, path) for each, path in digests]
    others = [path for kind, path in found if kind not in ("family", *_NETWORKS)]
    certificate = _one(statement, "certificate", attestation, needed=False)
    checked: list[Checked] = []
    # The questions are checked before the proof, which may take long.
    with resolve_statements(report, digests, places, str(attestation)) as spec:
        if certificate is not None:
            checked = check(
                beside.find(certificate.name),
                network=_several(found, _NETWORKS, network),
                family=_several(found, ("family", *_NETWORKS), family),
                files=[*places.roots, *files, *others],
                exact=exact,
                progress=progress,
            )
        stand = standings(report, checked, spec, attestation)
    return CheckedEvidence(
        attestation=attestation,
        signers=envelope.keyids,
        keyid=keyid,
        digests=len(statement.subject),
        report=report,
        checked=tuple(checked),
        standings=stand,
        unnamed=_unnamed_files(statement, attestation),
        params=spec.params,
    )


def _check_signature(envelope: Envelope, public: tuple[SSlibKey, Path] | None) -> str:
    """Check the signature; return the key's id, or empty without a key."""
    if public is None:
        return ""
    key, path = public
    envelope.verify(key, path)
    return str(key.keyid)


def _statement(envelope: Envelope) -> Statement:
    name = envelope.name
    raw = decode_json(envelope.payload, f"{name}: its payload")
    for field, expected in (("_type", STATEMENT_TYPE), ("predicateType", PREDICATE_TYPE)):
        said = raw.get(field) if isinstance(raw, dict) else None
        if said != expected:
            raise TamperedError(f"{name}: {field} is {said!r}, expected {expected!r}")
    try:
        statement = msgspec.convert(raw, Statement)
    except msgspec.ValidationError as error:
        raise TamperedError(f"{name}: not a leaveout statement: {error}") from None
    for subject in statement.subject:
        if set(subject.digest) != {"sha256"}:
            raise TamperedError(f"{name}: {subject.name!r} has a digest other than sha256")
        if not subject.name.isprintable():
            raise TamperedError(f"{name}: {subject.name!r} is not a file name")
    return statement


def _check_against_results(statement: Statement, report: Report, attestation: Path) -> None:
    said = statement.predicate
    _same_files(statement, report, attestation)
    expected = predicate_of(report, said.without_digest)
    if said == expected:
        return
    for own, other in zip(said.statements, expected.statements, strict=False):
        if own != other:
            raise TamperedError(f"{attestation}: {_difference(own, other)}")
    for field in Predicate.__struct_fields__:
        if getattr(said, field) != getattr(expected, field):
            raise TamperedError(f"{attestation}: its {field} differ from those of the results")


def _difference(own: Proved, other: Proved) -> str:
    """Return how a statement of the attestation differs from the results."""
    names = structs.fields(Proved)
    field = next(f for f in names if getattr(own, f.name) != getattr(other, f.name))
    where = own.name if own.label is None else f"{own.name}, label {own.label}"
    said, found = getattr(own, field.name), getattr(other, field.name)
    return f"statement {where!r}: {field.encode_name} is {said!r}, in the results {found!r}"


def _same_files(statement: Statement, report: Report, attestation: Path) -> None:
    if not report.files:
        # Results of earlier versions do not list the files they read.
        return
    named = {
        each.name: each for each in statement.subject if each.annotations.kind not in _OWN_FILES
    }
    expected = {each.name: each for each in subjects_of(report.files)}
    for name in {**expected, **named}:
        if named.get(name) != expected.get(name):
            what = (
                "differs from the results"
                if name in named
                else ("is missing, though the results name it")
            )
            what = what if name in expected else "is not in the results"
            raise TamperedError(f"{attestation}: subject {name!r} {what}")


def _unnamed_files(statement: Statement, attestation: Path) -> tuple[str, ...]:
    """Return evidence files that are present but not named in the statement."""
    named = {each.name for each in statement.subject if each.annotations.kind in _OWN_FILES}
    looked_for = sorted(NAMES - named - {ATTESTATION})
    return tuple(each for each in looked_for if attestation.with_name(each).exists())


def _one(
    statement: Statement, kind: str, attestation: Path, *, needed: bool = True
) -> Subject | None:
    """Return the only file of a kind; None if there is none and none is required."""
    found = [each for each in statement.subject if each.annotations.kind == kind]
    if len(found) > 1 or (needed and not found):
        raise TamperedError(
            f"{attestation}: names {len(found)} files of kind {kind!r}, expected one"
        )
    return found[0] if found else None


def _check_digest(subject: Subject, path: Path) -> None:
    try:
        digest = sha256_of(path)
    except FileNotFoundError:
        raise EvidenceError(
            f"{path}: no such file; the attestation names it as {subject.annotations.kind} "
            f"{subject.name!r}. If it has moved, pass --files DIR"
        ) from None
    except OSError as error:
        raise EvidenceError(f"{path}: cannot read: {error.strerror}") from None
    if digest != subject.sha256:
        raise TamperedError(
            f"{path}: differs from the attested {subject.annotations.kind} (SHA-256 "
            f"{digest[:12]}, expected {subject.sha256[:12]})"
        )


def _check_digests(
    statement: Statement, beside: Places, places: Places
) -> list[tuple[Subject, Path]]:
    """Check every file's digest; return the files read by the run."""
    found = []
    for subject in statement.subject:
        own = subject.annotations.kind in _OWN_FILES
        path = (beside if own else places).find(subject.name)
        _check_digest(subject, path)
        if not own:
            found.append((subject, path))
    return found


def _several(
    found: Sequence[tuple[str, Path]], kinds: Sequence[str], given: Sequence[Path]
) -> list[Path]:
    """Return files of some kinds and member folders, besides the given ones."""
    paths = [path for kind, path in found if kind in kinds]
    paths += [path.parent for kind, path in found if kind == "member" and "family" in kinds]
    return [*given, *dict.fromkeys(paths)]
