"""Hashes of samples: exact integers from their bytes, equal on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

_PART = b"leaveout part"
_FAMILY = b"leaveout f"
_TEST = b"leaveout test"
_SPREAD = b"leaveout spread"
_SIGN = np.uint64(1 << 63)
_LENGTH = 8


def array_keys(X: NDArray[np.float64]) -> list[bytes]:
    """Return each row's bytes as float64, ordered as the values are.

    Zero has no sign; sorted keys are rows in lexicographic order.
    """
    bits = np.ascontiguousarray(X + 0.0, dtype=np.float64).view(np.uint64)
    ordered = np.where(bits & _SIGN, ~bits, bits | _SIGN).astype(">u8")
    return [row.tobytes() for row in ordered]


def cell_keys(rows: Iterable[Sequence[str]]) -> list[bytes]:
    """Return each row's bytes: its UTF-8 cells after their lengths, hence unique."""
    return [b"".join(map(_length_prefixed, row)) for row in rows]


def hash_samples(
    keys: Sequence[bytes], key: str = "", labels: Sequence[str] | None = None, family: int = 0
) -> NDArray[np.uint64]:
    """Hash each sample: 64 bits of BLAKE2b."""
    secret = key.encode()
    if labels is not None:
        keys = [
            content + _length_prefixed(label) for content, label in zip(keys, labels, strict=True)
        ]
    person = b"%s%d" % (_FAMILY, family) if family else _PART
    return np.array([_digest(content, secret, person) for content in keys], dtype=np.uint64)


def hash_text(key: str, reads_label: bool, families: int = 1) -> str:
    """Return a description of `hash_samples` for a manifest."""
    several = ""
    if families > 1:
        several = f" of a family; in family f from 1 on the person is {_FAMILY.decode()!r} and f"
    label = " and its label" if reads_label else ", its label not"
    return (
        f"BLAKE2b (8 bytes, little-endian; person {_PART.decode()!r}, key {key!r}) of the sample's "
        f"values{label}, modulo the number of members{several}"
    )


def held_out(keys: Sequence[bytes], share: float, key: str = "") -> NDArray[np.bool_]:
    """Return which samples are held out: those whose own hash falls below ``share``."""
    limit = int(share * 2**64)
    return np.array([_digest(content, key.encode(), _TEST) < limit for content in keys], dtype=bool)


def spread_offsets(members: int, spread: int, seed: int) -> tuple[int, ...]:
    """Return the offsets of Finite Aggregation: distinct numbers below ``members``.

    A sample with hash h reaches members (h + offset) mod members (Wang, Levine and Feizi, 2022).
    Offsets have the lowest hashes with the seed, free of any generator's version.
    """
    secret = str(seed).encode()
    drawn = sorted(
        range(members), key=lambda i: (_digest(i.to_bytes(_LENGTH, "little"), secret, _SPREAD), i)
    )
    return tuple(sorted(drawn[:spread]))


def _length_prefixed(text: str) -> bytes:
    """Return a text as bytes after their length."""
    content = text.encode()
    return len(content).to_bytes(_LENGTH, "little") + content


def _digest(content: bytes, key: bytes, person: bytes) -> int:
    return int.from_bytes(
        hashlib.blake2b(content, digest_size=8, key=key, person=person).digest(), "little"
    )
