"""A secret key of this user, and files authenticated with it.

Checkpoints, and a guard's bounds and memory, cannot be verified against anything else. So each ends
in a MAC made with the key, which is in ``leaveout/key`` under ``$XDG_STATE_HOME``, or under
``~/.local/state`` by default.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import io
import os
import secrets
import stat
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from leaveout.errors import StateError
from leaveout.files import ARCHIVE, open_file

_BYTES = 32
_DIGITS = 2 * _BYTES
_BLOCK = 2**22


def state_folder() -> Path:
    """Return the folder for this program's per-user state."""
    named = os.environ.get("XDG_STATE_HOME", "")
    # A relative path is ignored, as the XDG specification demands.
    root = Path(named) if Path(named).is_absolute() else Path.home() / ".local" / "state"
    return root / "leaveout"


def mark(purpose: str, parts: Iterable[bytes]) -> bytes:
    """Return the MAC of some bytes, creating the key if there is none."""
    made = hmac.new(_key(), f"leaveout {purpose}\0".encode(), hashlib.sha256)
    for part in parts:
        made.update(part)
    return made.digest()


def leave_room(archive: zipfile.ZipFile) -> None:
    """Reserve room for a MAC at the end of an archive being written."""
    archive.comment = b"0" * _DIGITS


def mark_file(stream: BinaryIO, purpose: str) -> None:
    """Add the MAC to a completely written archive with reserved room; seek to its end."""
    stream.flush()
    # The stream may be write-only.
    with os.fdopen(os.dup(stream.fileno()), "rb") as written:
        size = written.seek(0, io.SEEK_END) - _DIGITS
        digits = mark(purpose, _bytes(written, size)).hex().encode()
    stream.seek(size)
    stream.write(digits)


def bears_mark(stream: BinaryIO, purpose: str) -> bool:
    """Return whether an archive has this user's MAC and is unchanged."""
    size = stream.seek(0, io.SEEK_END) - _DIGITS
    if size < 0:
        return False
    stream.seek(size)
    digits = stream.read(_DIGITS)
    return hmac.compare_digest(digits, mark(purpose, _bytes(stream, size)).hex().encode())


def is_own(path: Path, purpose: str) -> bool:
    """Return whether an archive file has this user's MAC; see `bears_mark`."""
    with open_file(path, ARCHIVE) as stream:
        return bears_mark(stream, purpose)


def _bytes(stream: BinaryIO, size: int) -> Iterator[bytes]:
    stream.seek(0)
    while size and (block := stream.read(min(_BLOCK, size))):
        size -= len(block)
        yield block


def _key() -> bytes:
    path = state_folder() / "key"
    try:
        with contextlib.suppress(FileNotFoundError):
            return _read(path)
        _make(path)
        return _read(path)
    except OSError as error:
        raise StateError(
            f"{path}: cannot create this user's key for marking files: "
            f"{error.strerror or error}; set XDG_STATE_HOME to a writable folder"
        ) from None


def _read(path: Path) -> bytes:
    with path.open("rb") as stream:
        found = os.fstat(stream.fileno())
        key = stream.read(_BYTES + 1)
    if os.name == "posix" and (found.st_mode & 0o077 or found.st_uid != os.geteuid()):
        raise StateError(
            f"{path}: other users can read this key and could forge this user's files; remove it "
            "and recreate the files it marked"
        )
    if not stat.S_ISREG(found.st_mode) or len(key) != _BYTES:
        raise StateError(
            f"{path}: not a key of {_BYTES} bytes; remove it, and a new one is created"
        )
    return key


def _make(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(secrets.token_bytes(_BYTES))
            stream.flush()
            os.fsync(stream.fileno())
        # If several processes try at once, one succeeds.
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()
