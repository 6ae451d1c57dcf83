"""A file of named arrays in folders, one folder replaced at a time, all or nothing."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from leaveout.files import ARCHIVE, OWNER_ONLY, open_file, written_whole
from leaveout.models.npz import put_array, refusing_damage

__all__ = ["Archive", "DamagedError", "Writer"]

_INDEX = "index.json"
_COPIED = 2**20


class DamagedError(Exception):
    """The file is not an archive, or not what was written."""


class Writer:
    """Writes one folder."""

    def __init__(self, file: zipfile.ZipFile, folder: str) -> None:
        self._file, self._folder = file, folder

    def array(self, name: str, array: NDArray[Any]) -> None:
        """Write an array; it need not be kept."""
        put_array(self._file, f"{self._folder}/{name}", array)


class Archive:
    """A zip of arrays (nothing in it is ever executed) with an index in JSON.

    Parameters
    ----------
    path : Path
        Need not exist.

    Raises
    ------
    DamagedError
        If it exists and any checksum in it is wrong.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.index: dict[str, Any] = {}
        if not path.exists():
            return
        try:
            with (
                refusing_damage(),
                open_file(path, ARCHIVE) as stream,
                zipfile.ZipFile(stream) as file,
            ):
                bad = file.testzip()
                if bad is not None:
                    raise DamagedError(f"{bad} is damaged")
                self.index = json.loads(file.read(_INDEX))
        except (ValueError, KeyError) as error:
            raise DamagedError(str(error)) from None
        if not isinstance(self.index, dict):
            raise DamagedError("its index is no table")

    def array(self, folder: str, name: str) -> NDArray[Any]:
        """Read an array."""
        try:
            with (
                refusing_damage(),
                zipfile.ZipFile(self.path) as file,
                file.open(f"{folder}/{name}.npy") as stream,
            ):
                return np.asarray(npy.read_array(stream, allow_pickle=False))
        except (ValueError, KeyError) as error:
            raise DamagedError(str(error)) from None

    def replace(self, folder: str, write: Callable[[Writer], None], index: dict[str, Any]) -> None:
        """Put a folder in place of what it was, and a new index; all else stays.

        The file is complete at every moment: a new one takes the place of the old one once it is
        on the disk.
        """
        with written_whole(self.path, OWNER_ONLY) as stream, zipfile.ZipFile(stream, "w") as new:
            self._copy(new, folder)
            write(Writer(new, folder))
            new.writestr(_INDEX, json.dumps(index, allow_nan=True))
        self.index = index

    def _copy(self, new: zipfile.ZipFile, without: str) -> None:
        if not self.path.exists():
            return
        with zipfile.ZipFile(self.path) as old:
            for entry in old.infolist():
                if entry.filename == _INDEX or entry.filename.startswith(f"{without}/"):
                    continue
                with (
                    old.open(entry) as source,
                    new.open(entry.filename, "w", force_zip64=True) as target,
                ):
                    shutil.copyfileobj(source, target, _COPIED)
