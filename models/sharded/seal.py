"""A chain of digests that exposes an older copy of an account beside its points.

The account counts its charges and changes; each link of the chain covers what is counted. The last
link the file of points knows stands at its end, as the comment of the archive.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from leaveout.errors import ShardedError

DIGEST_BYTES = 32
_SERIAL = 8
_CHECK = 8
_SLOT = _SERIAL + DIGEST_BYTES + _CHECK


@dataclass(frozen=True)
class Seal:
    """A link of the chain."""

    serial: int  # charges and changes before
    digest: bytes  # of them all

    @classmethod
    def of(cls, serial: int, previous: bytes, salt: bytes, content: bytes) -> Seal:
        """Return the link after the one of a digest."""
        found = hashlib.sha256(previous + salt + serial.to_bytes(_SERIAL, "big") + content)
        return cls(serial, found.digest())


def begin_seals(stream: BinaryIO, seal: Seal) -> None:
    """Append a seal to a newly written archive."""
    # The length of the comment, none so far, is the last thing in an archive (APPNOTE, 4.3.16).
    stream.seek(-2, os.SEEK_END)
    stream.write((2 * _SLOT).to_bytes(2, "little") + 2 * _encode(seal))


def note_seal(path: Path, seal: Seal) -> None:
    """Overwrite the older of two seals durably; the other survives a crash."""
    with path.open("r+b", buffering=0) as stream:
        stream.seek(-_SLOT * (1 + seal.serial % 2), os.SEEK_END)
        stream.write(_encode(seal))
        os.fsync(stream.fileno())


def read_seal(path: Path) -> Seal:
    """Return the last seal of a file."""
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - 2 * _SLOT))
        end = stream.read()
    slots = [end[:_SLOT], end[_SLOT:]]
    found = [seal for seal in map(_decode, slots) if seal is not None]
    if not found:
        raise ShardedError(
            f"{path}: is damaged, or of a version without seals: what ties it to the ledger is "
            "missing; fit again in another folder"
        )
    return max(found, key=lambda seal: seal.serial)


def _encode(seal: Seal) -> bytes:
    """Return a seal as bytes with a checksum."""
    content = seal.serial.to_bytes(_SERIAL, "big") + seal.digest
    return content + hashlib.sha256(content).digest()[:_CHECK]


def _decode(slot: bytes) -> Seal | None:
    """Return the seal in a slot; None if it is damaged."""
    seal = Seal(int.from_bytes(slot[:_SERIAL], "big"), slot[_SERIAL : _SERIAL + DIGEST_BYTES])
    return seal if len(slot) == _SLOT and _encode(seal) == slot else None
