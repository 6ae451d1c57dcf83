"""Results in the formats of other programs, chosen by the file's name."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from leaveout.files import RESULTS, read_whole, write_whole
from leaveout.verifier.evidence.mlbom import ml_bom
from leaveout.verifier.evidence.sarif import sarif
from leaveout.verifier.evidence.statement import EvidenceError, read_bytes, read_report
from leaveout.verifier.report import Report

ATTESTED = ("an attestation", ({"payloadType", "payload"}, {"_type", "predicateType"}))
SARIF = ("a SARIF file", ({"version", "runs"},))
BOM = ("a CycloneDX file", ({"bomFormat", "specVersion"},))
"""What files are, and the keys by one set of which they are known."""


@dataclass(frozen=True)
class Target:
    """A file that may be written."""

    path: Path

    @staticmethod
    def open(path: Path, kind: tuple[str, tuple[set[str], ...]]) -> Target:
        """Check that a file can be written."""
        what, keys = kind
        if path.is_dir():
            raise EvidenceError(f"-o {path}: is a folder; name a file")
        if path.exists() and not _is_one(path, keys):
            raise EvidenceError(
                f"-o {path}: exists and is not {what}; choose another name, or remove it"
            )
        try:
            with tempfile.TemporaryFile(prefix=".leaveout-", dir=path.resolve().parent):
                pass
        except OSError as error:
            raise _write_error(path, error) from None
        return Target(path)

    def write(self, content: bytes) -> None:
        """Write the file atomically."""
        try:
            write_whole(self.path, content)
        except OSError as error:
            raise _write_error(self.path, error) from None


def _write_error(path: Path, error: OSError) -> EvidenceError:
    """Return the error for a file that cannot be written."""
    return EvidenceError(f"-o {path}: cannot write: {error.strerror}")


def _is_one(path: Path, keys: tuple[set[str], ...]) -> bool:
    try:
        held = msgspec.json.decode(read_whole(path, RESULTS))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(held, dict) and any(each <= set(held) for each in keys)


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
        raise EvidenceError(f"-o {output}: a bill of materials covers one results file")
    target = Target.open(Path(output), kind)
    reports = []
    for name in results:
        path = Path(name)
        reports.append(read_report(read_bytes(path, "a results file of verify --json"), path))
    target.write(make(reports))
