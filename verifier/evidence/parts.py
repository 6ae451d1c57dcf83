"""The files of an evidence folder, each made from the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

from leaveout.names import find_reference
from leaveout.verifier.report import Report

RESULT, CERTIFICATE, ATTESTATION = "result.json", "certificate.npz", "attestation.json"


@dataclass(frozen=True)
class Given:
    """The input for making the parts."""

    report: Report  # as written: paths are relative to the folder
    result: Path  # where it was written
    signed: bool  # whether the attestation will be signed


Part: TypeAlias = Callable[[Given], bytes | None]
"""Makes a file; None if the results have no content for it."""

PARTS: Mapping[str, str] = {
    "result.sarif": "leaveout.verifier.evidence.exports:sarif_part",
    "mlbom.json": "leaveout.verifier.evidence.exports:ml_bom_part",
    "rows.csv": "leaveout.verifier.evidence.pages:rows_csv",
    "rows.json": "leaveout.verifier.evidence.pages:rows_json",
    "standards.md": "leaveout.verifier.evidence.standards:part",
    "summary.md": "leaveout.verifier.evidence.pages:summary",
    "report.html": "leaveout.verifier.evidence.pages:page",
}
"""By file name: the function that makes the file."""

NAMES = frozenset({RESULT, CERTIFICATE, ATTESTATION, *PARTS})
"""All files that such a folder can contain."""


def make_part(name: str, given: Given) -> bytes | None:
    """Return the content of a file of the folder; None if it does not apply."""
    return cast("Part", find_reference(PARTS[name]))(given)
