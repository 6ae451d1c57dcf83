"""Where an attestation goes: a file that does not exist yet, or is an attestation itself."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from leaveout.files import write_whole
from leaveout.verifier.evidence.checking import is_attestation
from leaveout.verifier.evidence.dsse import opened
from leaveout.verifier.evidence.errors import EvidenceError, TamperedError
from leaveout.verifier.evidence.reading import read_bytes

__all__ = ["AttestationTarget"]


@dataclass(frozen=True)
class AttestationTarget:
    """A file that may be written.

    Attributes
    ----------
    path : Path
    """

    path: Path

    @staticmethod
    def open(path: Path) -> AttestationTarget:
        """Make sure that a file can be written in the end.

        Raises
        ------
        EvidenceError
            If it cannot, or is something else than an attestation.
        """
        if path.is_dir():
            raise EvidenceError(f"-o {path}: is a folder; give a file name")
        if path.exists() and not _is_one(path):
            raise EvidenceError(
                f"-o {path}: exists and is no attestation; choose another name, or remove it"
            )
        try:
            with tempfile.TemporaryFile(prefix=".leaveout-", dir=path.resolve().parent):
                pass
        except OSError as error:
            raise _failed(path, error) from None
        return AttestationTarget(path)

    def write(self, content: bytes) -> None:
        """Write the attestation, whole or not at all.

        Raises
        ------
        EvidenceError
            If that fails; what was there is still there.
        """
        try:
            write_whole(self.path, content)
        except OSError as error:
            raise _failed(self.path, error) from None


def _failed(path: Path, error: OSError) -> EvidenceError:
    return EvidenceError(f"-o {path}: cannot be written: {error.strerror}")


def _is_one(path: Path) -> bool:
    if not is_attestation(path):
        return False
    try:
        opened(read_bytes(path, "an attestation"), str(path))
    except TamperedError:
        return False
    return True
