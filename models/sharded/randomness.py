"""Randomness of shards: keyed hashes of a secret, the shard and the point."""

from __future__ import annotations

import hashlib
import secrets

import numpy as np
from numpy.typing import NDArray

KEY_BYTES = 32
_A_HASH = 8
"""Shards that one hash of 64 bytes draws for."""


def epoch_key(seed: bytes | None, epoch: int) -> bytes:
    """Return the secret from which an epoch is drawn."""
    if seed is None:
        return secrets.token_bytes(KEY_BYTES)
    return _keyed_hash(hashlib.sha256(seed).digest(), b"epoch", epoch, size=KEY_BYTES)


def memberships(
    key: bytes, ids: NDArray[np.int64], shards: int, inclusion: float
) -> NDArray[np.bool_]:
    """Draw which shards hold which points, independently."""
    if inclusion >= 1:
        return np.ones((len(ids), shards), dtype=bool)
    below = np.uint64(int(inclusion * 2.0**64))
    blocks = -(-shards // _A_HASH)
    drawn = b"".join(
        _keyed_hash(key, b"member", point, block)
        for point in ids.tolist()
        for block in range(blocks)
    )
    table = np.frombuffer(drawn, dtype="<u8").reshape(len(ids), blocks * _A_HASH)
    held: NDArray[np.bool_] = table[:, :shards] < below
    return held


def training_seed(key: bytes, shard: int) -> int:
    """Return the random state of a shard's training, below 2^32."""
    return int.from_bytes(_keyed_hash(key, b"train", shard, size=4), "little")


def _keyed_hash(key: bytes, what: bytes, *numbers: int, size: int = 64) -> bytes:
    """Return the keyed hash of numbers."""
    text = b"".join(number.to_bytes(8, "little") for number in numbers)
    return hashlib.blake2b(text, digest_size=size, key=key, person=what).digest()
