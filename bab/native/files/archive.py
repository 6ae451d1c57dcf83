"""A file of named arrays in folders; each folder is replaced atomically."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from leaveout.files import ARCHIVE, OWNER_ONLY, open_atomically, open_file
from leaveout.models.npz import put_array, refuse_damage
from leaveout.user_key import bears_mark, leave_room, mark, mark_file

_INDEX = "index.json"
_COPIED = 2**20
_PURPOSE = "checkpoint"


class DamagedError(Exception):
    """The file is not an archive, or differs from what was written."""


class NotOwnError(Exception):
    """The file was not written by this user here, or was changed since."""


class Writer:
    """Writer of one folder."""

    def __init__(self, file: zipfile.ZipFile, folder: str) -> None:
        self._file, self._folder = file, folder

    def array(self, name: str, array: NDArray[Any]) -> None:
        """Write an array, without keeping it."""
        put_array(self._file, f"{self._folder}/{name}", array)


class Archive:
    """A zip of arrays, never executed, with a JSON index and a user's mark."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.index: dict[str, Any] = {}
        # Before a search, at whose end it would be too late.
        mark(_PURPOSE, ())
        if not path.exists():
            return
        try:
            with (
                refuse_damage(),
                open_file(path, ARCHIVE) as stream,
                zipfile.ZipFile(stream) as file,
            ):
                bad = file.testzip()
                if bad is not None:
                    raise DamagedError(f"{bad} is damaged")
                index = json.loads(file.read(_INDEX))
                if not bears_mark(stream, _PURPOSE):
                    raise NotOwnError
                self.index, self._stamp = index, _stamp(stream)
        except (ValueError, KeyError) as error:
            raise DamagedError(str(error)) from None
        if not isinstance(self.index, dict):
            raise DamagedError("its index is no table")

    def array(self, folder: str, name: str) -> NDArray[Any]:
        """Read an array."""
        try:
            with (
                refuse_damage(),
                self._open_checked() as stream,
                zipfile.ZipFile(stream) as file,
                file.open(f"{folder}/{name}.npy") as array,
            ):
                return np.asarray(npy.read_array(array, allow_pickle=False))
        except (ValueError, KeyError) as error:
            raise DamagedError(str(error)) from None

    def replace(self, folder: str, write: Callable[[Writer], None], index: dict[str, Any]) -> None:
        """Replace one folder and the index; the rest stays.

        The file is complete at every moment: the new one replaces the old once it is on disk.
        """
        with open_atomically(self.path, OWNER_ONLY) as stream:
            with zipfile.ZipFile(stream, "w") as new:
                self._copy(new, folder)
                write(Writer(new, folder))
                new.writestr(_INDEX, json.dumps(index, allow_nan=True))
                leave_room(new)
            mark_file(stream, _PURPOSE)
            stream.flush()
            stamp = _stamp(stream)
        self.index, self._stamp = index, stamp

    def _copy(self, new: zipfile.ZipFile, without: str) -> None:
        if not self.index:
            return
        with self._open_checked() as stream, zipfile.ZipFile(stream) as old:
            for entry in old.infolist():
                if entry.filename == _INDEX or entry.filename.startswith(f"{without}/"):
                    continue
                with (
                    old.open(entry) as source,
                    new.open(entry.filename, "w", force_zip64=True) as target,
                ):
                    shutil.copyfileobj(source, target, _COPIED)

    def _open_checked(self) -> BinaryIO:
        """Open the file whose mark was checked, refusing a substitute."""
        stream = open_file(self.path, ARCHIVE)
        if _stamp(stream) != self._stamp:
            stream.close()
            raise DamagedError("another process has changed it meanwhile")
        return stream


def _stamp(stream: BinaryIO) -> tuple[int, ...]:
    found = os.fstat(stream.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
