"""The in-toto statement: digests of all a run rests on, and what it proved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from leaveout.verifier.origin.records import FileRecord, StatementRecord, TrainingRecord
from leaveout.verifier.report import Report, Result
from leaveout.written import as_json

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://leaveout.example/verification/v1"


class Notes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Annotations of a digest: what it is of."""

    kind: str
    called: tuple[str, ...] = ()  # the names that the specification gives it


class Subject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file and its digest: an in-toto resource descriptor."""

    name: str
    digest: dict[str, str]  # ``sha256`` alone
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
    """What a result is about."""

    members: int  # retrained models; 0 where the statement is about no family
    features: int  # of an input; 0 where it is about no inputs
    lower: float | None  # between which every feature lies; None where features differ in it
    upper: float | None  # between which every feature lies; None where features differ in it
    listed: int  # features that take listed values only


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
    notes: tuple[str, ...]  # what a reader of the results should know, such as what is not covered
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
    """Return what a report proved, deterministically."""
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
    """Return the record of a result."""
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
