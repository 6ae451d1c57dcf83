"""Entries of a certificate's manifest on files and sets of inputs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders import Box
from leaveout.files import sha256_of
from leaveout.models import Family, Network
from leaveout.models.onnx.signature import earlier_hash
from leaveout.models.onnx.values import files_of

SERVED = ("full.onnx", "family.npz", "bounds.npz")
"""Files of a served folder that a guard's answers depend on."""


def family_kind(path: Path) -> str:
    """Return the manifest's name for a kind of family."""
    return "folder" if path.is_dir() else "family"


def box_part(box: Box) -> dict[str, object]:
    """Return the manifest's entry on a set of inputs."""
    return {
        "lower": box.lower.tolist(),
        "upper": box.upper.tolist(),
        "choices": [
            {"columns": each.columns.tolist(), "values": each.values.tolist()}
            for each in box.choices
        ],
    }


def file_part(path: Path, folder: Path, kind: str) -> dict[str, str]:
    """Return the manifest's entry on a file."""
    if kind == "access":
        digest = _digest_of([*files_of(path / SERVED[0]), *(path / name for name in SERVED[1:])])
    elif kind == "folder":
        networks = sorted(path.glob("*.onnx"))
        digest = _digest_of({each: None for file in networks for each in files_of(file)})
    elif kind == "network" and len(files := files_of(path)) > 1:
        digest = _digest_of(files)
    else:
        digest = sha256_of(path)
    relative = os.path.relpath(path.resolve(), folder)
    return {"path": Path(relative).as_posix(), "sha256": digest, "kind": kind}


def _digest_of(files: Iterable[Path]) -> str:
    lines = [f"{sha256_of(file)}  {file.name}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


_BLOCK = 2**24  # approximate number of bytes processed at once: a family may be larger than memory


def network_digest(network: Network) -> str:
    """Return the digest of a network's operators and parameters."""
    return _digest_parts([network.architecture.encode(), *_named_bytes(network.parameters.items())])


def earlier_digest(network: Network) -> str:
    """Return the digest of earlier versions, which ignored opsets."""
    hashed = earlier_hash(network.model)
    return _digest_parts([hashed.encode(), *_named_bytes(network.parameters.items())])


def family_digest(family: Family) -> str:
    """Return the digest of the family's members, in order."""
    return _digest_parts([*_array(family.removed), *_named_bytes(family.parameters.items())])


def box_digest(box: Box) -> str:
    """Return the digest of a set of inputs."""
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
