"""Digests that identify a question."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders import Box
from leaveout.models import Family, Network
from leaveout.models.architecture import earlier_hash

_BLOCK = 2**24
"""Bytes, about, that are looked at together: a family may be larger than memory."""


def network_digest(network: Network) -> str:
    """Return the digest of a network's operators and parameters."""
    return _digest_parts([network.architecture.encode(), *_named_bytes(network.parameters.items())])


def earlier_digest(network: Network) -> str:
    """Return the digest of earlier versions, which ignored opsets."""
    hashed = earlier_hash(network.model)
    return _digest_parts([hashed.encode(), *_named_bytes(network.parameters.items())])


def family_digest(family: Family) -> str:
    """Return the digest of the members, in order."""
    return _digest_parts([*_array(family.removed), *_named_bytes(family.parameters.items())])


def box_digest(box: Box) -> str:
    """Return the digest of the set of inputs."""
    parts = [*_array(box.lower), *_array(box.upper)]
    for each in box.choices:
        parts += [*_array(each.columns), *_array(each.values)]
    return _digest_parts(parts)


def _digest_parts(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _named_bytes(arrays: Iterable[tuple[str, NDArray[np.generic]]]) -> Iterable[bytes]:
    """Yield the bytes of arrays, each after its name."""
    for name, array in arrays:
        yield f"{name}\0".encode()
        yield from _array(array)


def _array(array: NDArray[np.generic]) -> Iterable[bytes]:
    yield f"{array.dtype.str}{array.shape}".encode()
    rows = array.reshape(len(array) if array.ndim else 1, -1)
    step = max(1, _BLOCK * len(rows) // max(1, rows.nbytes))
    for start in range(0, len(rows), step):
        yield np.ascontiguousarray(rows[start : start + step]).tobytes()
