"""The in-toto statement: digests of all that a run depends on, and what it proved."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import structs

from leaveout.errors import LeaveoutError
from leaveout.exit_codes import ExitCode
from leaveout.files import RESULTS, read_whole, why_unread
from leaveout.kernel.records import parse
from leaveout.verifier.records import FileRecord, StatementRecord, TrainingRecord
from leaveout.verifier.report import Report, Result
from leaveout.written import as_json

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://leaveout.example/verification/v1"


class Notes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Annotations of a digest, which describe the file."""

    kind: str
    called: tuple[str, ...] = ()  # names of the file in the specification


class Subject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file and its digest, an in-toto resource descriptor."""

    name: str
    digest: dict[str, str]  # only ``sha256``
    annotations: Notes

    @property
    def sha256(self) -> str:
        """The SHA-256 digest; empty if missing."""
        return self.digest.get("sha256", "")


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The position of a statement: file and line, counted from 1."""

    path: str
    line: int
    column: int


class Scope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a result covers."""

    members: int  # number of retrained models; 0 without a family
    features: int  # features of an input; 0 without inputs
    lower: float | None  # common range of all features; None if they differ
    upper: float | None  # common range of all features; None if they differ
    listed: int  # number of features restricted to listed values


class Proved(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The outcome of a statement, or of one label of a ``per label`` statement."""

    name: str
    kind: Literal["guarantee", "find"]
    verdict: Literal["proved", "refuted", "unknown"]
    label: int | None
    label_name: str
    lower: float | None
    upper: float | None
    confidence: float | None
    reason: str | None
    engine: str
    text: str
    definitions: tuple[str, ...]
    sentence: str
    place: Place | None
    scope: Scope


class Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name of the evidence and the version that made it."""

    leaveout: str
    specification: str
    date: str


class Predicate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What was proved."""

    verification: Named
    statements: tuple[Proved, ...]
    training: tuple[TrainingRecord, ...]
    notes: tuple[str, ...]  # remarks for readers of the results, such as what is not covered
    without_digest: tuple[str, ...] = ()


class Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The statement of in-toto, version 1."""

    subject: tuple[Subject, ...]
    predicate_type: str
    predicate: Predicate
    type_: str = msgspec.field(name="_type", default=STATEMENT_TYPE)

    def to_json(self) -> bytes:
        """Encode as JSON, deterministically."""
        return as_json(self)


def subjects_of(files: Iterable[FileRecord]) -> list[Subject]:
    """Return the digests of the files a run read."""
    return [
        Subject(each.path, {"sha256": each.sha256}, Notes(each.kind, each.called)) for each in files
    ]


def predicate_of(report: Report, without_digest: Sequence[str] = ()) -> Predicate:
    """Return what a report proved, in a deterministic form."""
    said = {each.name: each for each in report.statements}
    return Predicate(
        verification=Named(report.leaveout, _name(report), report.date),
        statements=tuple(_proved_record(each, said.get(each.name)) for each in report.results),
        training=report.training,
        notes=report.notes,
        without_digest=tuple(without_digest),
    )


def _name(report: Report) -> str:
    for each in report.files:
        if each.kind == "specification":
            return each.path
    return report.spec.partition("\n")[0]


def _proved_record(result: Result, said: StatementRecord | None) -> Proved:
    return Proved(
        name=result.name,
        kind=result.kind,
        verdict=result.verdict,
        label=result.label,
        label_name=result.label_name,
        lower=result.lower,
        upper=result.upper,
        confidence=result.confidence,
        reason=result.reason,
        engine=result.engine,
        text=said.text if said else "",
        definitions=said.definitions if said else (),
        sentence=said.sentence if said else "",
        place=Place(said.path, said.line, said.column) if said and said.path else None,
        scope=_scope(result),
    )


def _scope(result: Result) -> Scope:
    box = result.box
    return Scope(
        members=result.members,
        features=len(box.lower),
        lower=_common(box.lower),
        upper=_common(box.upper),
        listed=sum(len(each.columns) for each in box.choices),
    )


def _common(ends: tuple[float, ...]) -> float | None:
    return ends[0] if len(set(ends)) == 1 else None


class EvidenceError(LeaveoutError):
    """Evidence that cannot be made or read, or an unusable key."""


class TamperedError(LeaveoutError):
    """Evidence whose signature, digests or claims are inconsistent."""

    exit_code = ExitCode.REFUTED


def read_bytes(path: Path, what: str) -> bytes:
    """Return the content of an evidence file."""
    try:
        return read_whole(path, RESULTS)
    except IsADirectoryError:
        raise EvidenceError(f"{path}: is a folder, expected {what}") from None
    except (OSError, ValueError) as error:
        said = why_unread(error) if isinstance(error, OSError) else str(error)
        raise EvidenceError(f"{path}: {said}, expected {what}") from None


def read_report(content: bytes, path: Path) -> Report:
    """Return the results in a file."""
    try:
        raw = msgspec.json.decode(content)
        # Other programs could read either of two values.
        parse(content)
        if not isinstance(raw, dict) or not {"leaveout", "results"} <= set(raw):
            raise EvidenceError(
                f"{path}: contains no results; expected a results file of verify --json"
            )
        return msgspec.convert(raw, Report)
    except (ValueError, RecursionError) as no:
        raise EvidenceError(
            f"{path}: does not contain results that this version can read: {no}"
        ) from None


@dataclass(frozen=True)
class Places:
    """Finder of files by the names in records."""

    own: Path  # the folder of the results
    folder: str  # folder of the specification, relative to the results
    given: tuple[Path, ...] = ()
    trusted: bool = False

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders whose files may be opened: of the results, working, or given."""
        return (self.own, Path.cwd(), *self.given)

    def find(self, path: str) -> Path:
        """Return the path of a file; it need not exist."""
        said = self.own / self.folder / path
        near = [said, *(each / path for each in self.given)]
        near = [each for each in near if self._may_open(each)]
        if "\0" in path or not near:
            raise EvidenceError(
                f"{path!r}: refers to {str(said)!r}, outside the evidence folder and the working "
                "directory; allow it with --files DIR"
            )
        return _short(next((each for each in near if each.exists()), near[0]))

    def _may_open(self, path: Path) -> bool:
        if self.trusted:
            return True
        where = path.resolve()
        return any(where.is_relative_to(each.resolve()) for each in self.roots)


def _short(path: Path) -> Path:
    """Return a path without redundant parts, relative to the working directory if inside."""
    where, here = path.resolve(), Path.cwd()
    return where.relative_to(here) if where.is_relative_to(here) else where


def folders(given: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders among the given paths."""
    return tuple(each for each in given if each.is_dir())


def relative_to(folder: Path, path: Path) -> str:
    """Return a path relative to a folder, with ``/``; links are not followed."""
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:
        # A path on another drive is not relative.
        return path.as_posix()


def relocate_report(report: Report, folder: Path) -> Report:
    """Return results with paths relative to the file they are written to."""
    if not report.folder:
        return report
    own = Path(report.folder)
    # Some files are named by their final location, whatever the specification's path.
    for prefix in dict.fromkeys([own, own.resolve()]):
        if prefix.is_absolute():
            report = _relative(report, f"{prefix}{os.sep}")
    models = tuple(
        structs.replace(each, file=_from(own, each.file), family=_from(own, each.family))
        for each in report.models
    )
    answers = tuple(
        structs.replace(each, network=_from(own, each.network), family=_from(own, each.family))
        for each in report.answers
    )
    by_row = tuple(
        structs.replace(each, network=_from(own, each.network), family=_from(own, each.family))
        for each in report.by_row
    )
    report = structs.replace(report, models=models, answers=answers, by_row=by_row)
    spec = report.spec
    if "\n" not in spec and Path(spec).is_absolute():
        spec = relative_to(folder, Path(spec))
    return structs.replace(report, folder=relative_to(folder, own), spec=spec)


def _from(own: Path, file: str) -> str:
    """Return a file elsewhere relative to the specification's folder, following links."""
    return relative_to(own.resolve(), Path(file)) if Path(file).is_absolute() else file


def _relative(report: Report, prefix: str) -> Report:
    """Remove the specification's folder from all texts except its own path."""
    spec = report.spec
    plain: dict[str, Any] = msgspec.to_builtins(report)
    found = msgspec.convert(_without(plain, prefix), Report)
    return structs.replace(found, spec=spec, folder=report.folder)


def _without(value: Any, prefix: str) -> Any:
    match value:
        case str():
            return value.replace(prefix, "")
        case dict():
            return {key: _without(each, prefix) for key, each in value.items()}
        case list() | tuple():
            return [_without(each, prefix) for each in value]
        case _:
            return value
