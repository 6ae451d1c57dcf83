"""Access keys in a header, compared with digests in a file."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable
from pathlib import Path

from leaveout.errors import GuardError
from leaveout.files import SETTINGS, open_file

_LINE = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._@-]{0,63}):(?P<digest>[0-9a-f]{64})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")

_BYTES = 32  # of randomness in a key: nobody finds one from its digest
_LOOK = 1.0  # seconds after which the file is looked at again

_log = logging.getLogger("leaveout.guard")

Stamp = tuple[int, int, int, int]


class Keys:
    """The keys of a file, which is reread when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: Stamp | None = None
        self._digests: dict[str, bytes] = {}
        self._looked = time.monotonic()
        self._read()

    def __len__(self) -> int:
        return len(self._digests)

    def holder(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """Return the holder of a request's key, or None, in key-independent time."""
        self._follow()
        given = [value for name, value in headers if name == b"authorization"]
        scheme, _, key = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        digest = hashlib.sha256(key.strip(b" ")).digest()
        found = None
        for name, known in self._digests.items():
            if hmac.compare_digest(digest, known):
                found = name
        return found if scheme.lower() == b"bearer" else None

    def _follow(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return
        self._looked = now
        try:
            if _stamp(os.stat(self._path)) != self._stamp:  # noqa: PTH116 (Path.stat is slower)
                self._read()
                _log.info("%s: reloaded, %d keys", self._path, len(self))
        except (OSError, GuardError) as error:
            if self._stamp is not None:
                self._stamp = None
                _log.error("keeping the previous keys: %s", error)

    def _read(self) -> None:
        try:
            with open_file(self._path, SETTINGS) as stream:
                found = os.fstat(stream.fileno())
                text = stream.read().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            said = getattr(error, "strerror", None) or "is not UTF-8 text"
            raise GuardError(f"{self._path}: cannot read keys: {said}") from None
        if os.name == "posix" and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise GuardError(
                f"{self._path}: other users may write to it and add keys; run chmod go-w on it"
            )
        self._digests = _digests(self._path, text)
        self._stamp = _stamp(found)


def add_key(path: Path, name: str) -> str:
    """Make a key and append its digest to a file, owner-only if new."""
    if not _NAME.fullmatch(name):
        raise GuardError(
            f"{name!r} is not a valid key name: use up to 64 letters, digits and . _ @ -, "
            "starting with a letter or digit"
        )
    if path.exists() and name in Keys(path)._digests:
        raise GuardError(f"{path}: already has a key for {name}; remove its line first")
    key = secrets.token_urlsafe(_BYTES)
    line = f"{name}:{hashlib.sha256(key.encode()).hexdigest()}\n"
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with os.fdopen(os.open(path, flags, 0o600), "ab") as stream:
            stream.write(_line_end(path) + line.encode())
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise GuardError(f"{path}: cannot add a key: {error.strerror}") from None
    return key


def _line_end(path: Path) -> bytes:
    """Return the line end missing from a file's last line."""
    before = path.read_bytes()
    return b"" if not before or before.endswith(b"\n") else b"\n"


def _digests(path: Path, text: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        shown = line.strip()
        if not shown or shown.startswith("#"):
            continue
        match = _LINE.fullmatch(shown)
        if match is None:
            # Not what stands there: it may be a key.
            raise GuardError(
                f"{path}, line {number}: not name:digest; create such lines with leaveout guard "
                f"DIR --keys {path} --new-key NAME"
            )
        if match["name"] in found:
            raise GuardError(f"{path}, line {number}: duplicate name {match['name']}")
        found[match["name"]] = bytes.fromhex(match["digest"])
    if not found:
        raise GuardError(
            f"{path}: contains no keys; create one with leaveout guard DIR --keys {path} "
            "--new-key NAME"
        )
    return found


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
