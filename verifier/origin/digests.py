"""Digests of files, and detection of files that change during a run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from leaveout.files import ARCHIVE, open_file

_BLOCK = 2**22


@dataclass(frozen=True)
class FileDigest:
    """The digest of a file, and what reveals a later change."""

    path: Path
    sha256: str  # in hexadecimal
    _marks: tuple[int, ...]

    def is_same(self) -> bool:
        """Return whether the file is unchanged."""
        try:
            return _marks(self.path) == self._marks or sha256_of(self.path) == self.sha256
        except OSError:
            return False


def take_digest(path: Path) -> FileDigest:
    """Return the digest of a file."""
    marks = _marks(path)
    return FileDigest(path, sha256_of(path), marks)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a regular file, in hexadecimal."""
    digest = hashlib.sha256()
    with open_file(path, ARCHIVE) as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _marks(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev
