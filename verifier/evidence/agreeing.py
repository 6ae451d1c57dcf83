"""Whether an attestation says what the results say."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from leaveout.verifier.evidence.errors import TamperedError
from leaveout.verifier.evidence.statement import (
    Predicate,
    Proved,
    Statement,
    predicate_of,
    subjects_of,
)
from leaveout.verifier.report import Report

__all__ = ["OWN_FILES", "hold_against_results"]

OWN_FILES = ("result", "certificate", "evidence")
"""Kinds of files whose names are seen from the attestation."""


def hold_against_results(statement: Statement, report: Report, attestation: Path) -> None:
    """Hold what an attestation says against the results.

    Raises
    ------
    TamperedError
        If they differ; the first difference is named.
    """
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
            raise TamperedError(f"{attestation}: its {field} are not those of the results")


def _difference(own: Proved, other: Proved) -> str:
    """Say in what a statement of the attestation is another than that of the results."""
    names = structs.fields(Proved)
    field = next(f for f in names if getattr(own, f.name) != getattr(other, f.name))
    where = own.name if own.label is None else f"{own.name}, label {own.label}"
    said, found = getattr(own, field.name), getattr(other, field.name)
    return f"statement {where!r}: {field.encode_name} is {said!r}, in the results {found!r}"


def _same_files(statement: Statement, report: Report, attestation: Path) -> None:
    if not report.files:
        # Results of earlier versions do not say what they read.
        return
    named = {
        each.name: each for each in statement.subject if each.annotations.kind not in OWN_FILES
    }
    expected = {each.name: each for each in subjects_of(report.files)}
    for name in {**expected, **named}:
        if named.get(name) != expected.get(name):
            what = (
                "is not as in the results" if name in named else "is missing, the results name it"
            )
            what = what if name in expected else "is in no record of the results"
            raise TamperedError(f"{attestation}: subject {name!r} {what}")
