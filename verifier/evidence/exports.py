"""Results in the formats of other programs, chosen by the file's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from leaveout.verifier.evidence.errors import EvidenceError
from leaveout.verifier.evidence.mlbom import ml_bom
from leaveout.verifier.evidence.reading import read_bytes, read_report
from leaveout.verifier.evidence.sarif import sarif
from leaveout.verifier.evidence.target import BOM, SARIF, Target
from leaveout.verifier.report import Report

_MADE: Mapping[
    str, tuple[tuple[str, tuple[set[str], ...]], Callable[[Sequence[Report]], bytes]]
] = {
    ".sarif": (SARIF, lambda reports: sarif(*reports)),
    ".sarif.json": (SARIF, lambda reports: sarif(*reports)),
    ".cdx.json": (BOM, lambda reports: ml_bom(reports[0])),
}
"""By how its name ends, what a file is and what makes it."""


def is_export(output: str) -> bool:
    """Return whether a file name asks for another program's format."""
    return output.endswith(tuple(_MADE))


def export(results: Sequence[str], output: str) -> None:
    """Write results in the format that the file's name asks for."""
    kind, make = next(each for end, each in _MADE.items() if output.endswith(end))
    if kind is BOM and len(results) > 1:
        raise EvidenceError(f"-o {output}: a bill of materials is of one file of results")
    target = Target.open(Path(output), kind)
    reports = []
    for name in results:
        path = Path(name)
        reports.append(read_report(read_bytes(path, "what verify --json wrote"), path))
    target.write(make(reports))
