"""The family file: one ``.npz`` with stacked parameters, ``removed`` and a manifest."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from leaveout.errors import FamilyError
from leaveout.models.family import Family, Manifest

__all__ = ["load_family_file", "save_family_file"]

_REMOVED = "removed"
_MANIFEST = "manifest"


def save_family_file(path: Path | str, family: Family) -> None:
    """Write ``family`` to ``path``, whole or not at all; the same family gives the same bytes.

    Raises
    ------
    FamilyError
        If a parameter is named ``removed`` or ``manifest``, which the format keeps for itself.
    """
    target = Path(path)
    clash = {_REMOVED, _MANIFEST} & set(family.parameters)
    if clash:
        raise FamilyError(f"{target}: a parameter may not be named {sorted(clash)[0]!r}")
    manifest = np.frombuffer(msgspec.json.encode(family.manifest), dtype=np.uint8)
    partial = target.with_name(f".{target.name}.partial")
    with partial.open("wb") as stream:
        arrays: dict[str, Any] = {_REMOVED: family.removed, _MANIFEST: manifest}
        np.savez(stream, allow_pickle=False, **arrays, **family.parameters)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(target)


def load_family_file(path: Path | str) -> Family:
    """Read a family file.

    Raises
    ------
    FamilyError
        If the file is missing, is not a family file, is empty of members, or holds a number
        that is not finite.
    """
    source = Path(path)
    try:
        with zipfile.ZipFile(source):
            pass
        with np.load(source, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise FamilyError(f"{source}: no such file") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        raise FamilyError(f"{source}: not a family file (an .npz of plain arrays)") from None
    if _REMOVED not in arrays:
        raise FamilyError(f"{source}: not a family file: it has no array 'removed'")
    removed = arrays.pop(_REMOVED)
    if removed.ndim != 1 or not np.issubdtype(removed.dtype, np.integer):
        raise FamilyError(f"{source}: 'removed' must be a list of row indices")
    if (removed < 0).any():
        raise FamilyError(f"{source}: 'removed' holds {int(removed.min())}; rows count from 0")
    raw = arrays.pop(_MANIFEST, None)
    try:
        manifest = Manifest() if raw is None else msgspec.json.decode(raw.tobytes(), type=Manifest)
    except msgspec.DecodeError as error:
        raise FamilyError(f"{source}: the manifest is damaged: {error}") from None
    for name, stack in list(arrays.items()):
        if not np.issubdtype(stack.dtype, np.floating):
            raise FamilyError(f"{source}: parameter {name!r} holds {stack.dtype}, expected float32")
        with np.errstate(over="ignore"):
            arrays[name] = stack.astype(np.float32)
        if not np.isfinite(arrays[name]).all():
            member = int(np.argwhere(~np.isfinite(arrays[name]))[0][0])
            raise FamilyError(
                f"{source}: parameter {name!r} of member {member} is not a finite float32"
            )
    try:
        return Family(arrays, removed.astype(np.int64), manifest)
    except FamilyError as error:
        raise FamilyError(f"{source}: {error}") from None
