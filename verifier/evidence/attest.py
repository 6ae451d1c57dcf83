"""``attest``: from results to a signed statement of what they depend on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from leaveout.errors import LeaveoutError
from leaveout.files import refuse_unread, sha256_of
from leaveout.verifier.certify.check import refuse_unreadable
from leaveout.verifier.evidence.signing import seal_payload
from leaveout.verifier.evidence.statement import (
    PREDICATE_TYPE,
    EvidenceError,
    Notes,
    Places,
    Statement,
    Subject,
    folders,
    predicate_of,
    read_bytes,
    read_report,
    relative_to,
    subjects_of,
)
from leaveout.verifier.provenance import Origin
from leaveout.verifier.records import FileRecord
from leaveout.verifier.report import Report

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner


@dataclass(frozen=True)
class Made:
    """A file made from the results, or their proof."""

    kind: str
    name: str  # path relative to the attestation
    sha256: str


@dataclass(frozen=True)
class Attestation:
    """An attestation, ready to be written."""

    content: bytes  # DSSE envelope; without a key the bare statement
    keyid: str  # id of the signing key; empty without one
    digests: int  # number of files it names
    notes: tuple[str, ...] = ()  # notes for the author


def attest(
    result: Path,
    target: Path,
    *,
    signer: CryptoSigner | None = None,
    certificate: Path | None = None,
    files: Sequence[Path] = (),
) -> Attestation:
    """Return a statement of what results depend on."""
    content = read_bytes(result, "a results file of verify --json")
    report = read_report(content, result)
    folder = target.resolve().parent
    made = [Made("result", relative_to(folder, result), hashlib.sha256(content).hexdigest())]
    if certificate is not None:
        made.append(_certificate(certificate, folder))
    unknown: list[str] = []
    if not report.files:
        known, unknown = files_of_earlier(report, result, folders(files))
        report = structs.replace(report, files=known)
    else:
        _refuse_changed(report, Places(result.parent, report.folder, folders(files), trusted=True))
    statement = statement_of(report, made, unknown)
    notes = tuple(f"without a digest: {each}" for each in unknown)
    return seal_statement(statement, signer, notes)


def statement_of(report: Report, made: Sequence[Made], unknown: Sequence[str] = ()) -> Statement:
    """Return the in-toto statement of a report."""
    for each in report.files:
        if not each.sha256:
            raise EvidenceError(
                f"{each.path}: changed during verification, so its present contents were not "
                "verified; verify again"
            )
    own = [Subject(each.name, {"sha256": each.sha256}, Notes(each.kind)) for each in made]
    return Statement(
        subject=(*subjects_of(report.files), *own),
        predicate_type=PREDICATE_TYPE,
        predicate=predicate_of(report, unknown),
    )


def seal_statement(
    statement: Statement, signer: CryptoSigner | None, notes: tuple[str, ...] = ()
) -> Attestation:
    """Return a statement as it is written: signed if there is a key."""
    payload, count = statement.to_json(), len(statement.subject)
    if signer is None:
        return Attestation(payload, "", count, notes)
    return Attestation(seal_payload(payload, signer), str(signer.public_key.keyid), count, notes)


def _certificate(path: Path, folder: Path) -> Made:
    # An invalid statement is refused here rather than by its checker.
    refuse_unreadable(path)
    with refuse_unread(EvidenceError, f"--certificate {path}"):
        return Made("certificate", relative_to(folder, path), sha256_of(path))


def _refuse_changed(report: Report, places: Places) -> None:
    """Raise if a file behind the results has changed since."""
    for each in report.files:
        found = places.find(each.path)
        if found.exists() and each.sha256:
            _refuse_other(each, found)


def _refuse_other(record: FileRecord, found: Path) -> None:
    with refuse_unread(EvidenceError, found):
        digest = sha256_of(found)
    if digest != record.sha256:
        raise EvidenceError(
            f"{found}: is not the {record.kind} that was verified (SHA-256 {digest[:12]}, expected "
            f"{record.sha256[:12]}); verify again"
        )


_WHEN = "describes the present file: the results do not record its contents at the time"


def files_of_earlier(
    report: Report, result: Path, given: Sequence[Path]
) -> tuple[tuple[FileRecord, ...], list[str]]:
    """Return the files that results depend on, as far as found, and what is unknown."""
    if "\n" in report.spec:
        return (), ["the specification was built in Python, so the files it reads are unknown"]
    spec = _find_spec(report, result.parent, given)
    if spec is None:
        return (), [f"{report.spec}: missing or changed, and with it every file that it names"]
    # The language is imported only if a specification must be read again.
    from leaveout.verifier.resolve_names import read_spec

    try:
        reading = read_spec(spec)
    except LeaveoutError:
        return (), [f"{report.spec}: no longer readable, and with it every file that it names"]
    origin = Origin.of(reading.checked, reading.folder, spec)
    files = origin.files()
    held = [f"{each.path}: its digest {_WHEN}" for each in files[1:]]
    return files, [*(f"{each}: missing" for each in origin.missing_files()), *held]


def _find_spec(report: Report, folder: Path, given: Sequence[Path]) -> Path | None:
    """Return the specification file with the stored digest; None if missing."""
    for path in _near(report.spec, (folder, *given)):
        try:
            if hashlib.sha256(path.read_bytes()).hexdigest() == report.spec_sha256:
                return path
        except OSError:
            continue
    return None


def _near(spec: str, around: Sequence[Path]) -> Iterator[Path]:
    for folder in around:
        yield from (folder / spec, folder / Path(spec).name)
    yield Path(spec)
