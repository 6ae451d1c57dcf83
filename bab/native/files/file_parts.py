"""Entries of a certificate's manifest on files and sets of inputs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from leaveout.encoders import Box
from leaveout.files import ARCHIVE, open_file
from leaveout.models.onnx_external import files_of

_BYTES = 2**22

SERVED = ("full.onnx", "family.npz", "bounds.npz")
"""What a guard's answers rest on, of the folder that it serves."""


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
        digest = _digest(path)
    relative = os.path.relpath(path.resolve(), folder)
    return {"path": Path(relative).as_posix(), "sha256": digest, "kind": kind}


def _digest_of(files: Iterable[Path]) -> str:
    lines = [f"{_digest(file)}  {file.name}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with open_file(path, ARCHIVE) as stream:
        while block := stream.read(_BYTES):
            digest.update(block)
    return digest.hexdigest()
