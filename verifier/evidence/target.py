"""The output path of an evidence file: a new file, or an earlier one of its kind."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import msgspec

from leaveout.files import RESULTS, read_whole, write_whole
from leaveout.verifier.evidence.errors import EvidenceError

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
            raise EvidenceError(f"-o {path}: is a folder; give a file name")
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
    return EvidenceError(f"-o {path}: cannot be written: {error.strerror}")


def _is_one(path: Path, keys: tuple[set[str], ...]) -> bool:
    try:
        held = msgspec.json.decode(read_whole(path, RESULTS))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(held, dict) and any(each <= set(held) for each in keys)
