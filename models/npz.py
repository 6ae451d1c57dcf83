"""Arrays of an ``.npz``: mapped where they lie in the file, or read."""

from __future__ import annotations

import math
import mmap
import os
import struct
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

__all__ = ["ChangedError", "read_arrays"]

_LOCAL_HEADER = 30
_BLOCK = 2**22
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class ChangedError(ValueError):
    """The file is shorter than its own directory says, or another process is writing to it."""


def read_arrays(path: Path, mapped_from: int) -> dict[str, NDArray[Any]]:
    """Return all arrays of an archive, in its order.

    Float32 arrays in C order that are stored without compression are mapped read-only where they
    lie, so that their size does not matter; all others are read. Checksums are verified of both.

    Parameters
    ----------
    path : Path
    mapped_from : int
        Size of the file, in bytes, from which on arrays are mapped.

    Raises
    ------
    ChangedError
        If the sizes in the file contradict each other.
    OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error
        If it cannot be read, or is not an archive of plain arrays.
    """
    # One descriptor throughout: a file that is replaced meanwhile is still read to its end.
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        content = _map(file) if os.fstat(file.fileno()).st_size >= mapped_from else None
        arrays: dict[str, NDArray[Any]] = {}
        for name in archive.namelist():
            info = archive.getinfo(name)
            array = None if content is None else _mapped(archive, info, file, content)
            arrays[name.removesuffix(".npy")] = _read(archive, info) if array is None else array
        if content is not None and os.fstat(file.fileno()).st_size != len(content):
            raise ChangedError
        return arrays


def _map(file: IO[bytes]) -> mmap.mmap | None:
    try:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError:
        # Some file systems cannot map; reading still works.
        return None


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(info) as stream:
        array: NDArray[Any] = npy.read_array(stream, allow_pickle=False)
        return array


def _mapped(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, file: IO[bytes], content: mmap.mmap
) -> NDArray[np.float32] | None:
    """Return a view of an array in the mapped file, or None where it is not stored plainly."""
    if info.compress_type != zipfile.ZIP_STORED:
        return None
    with archive.open(info) as stream:
        version = npy.read_magic(stream)
        if version not in _HEADERS:
            return None
        shape, fortran, dtype = _HEADERS[version](stream)
        header = stream.tell()
        size = header + math.prod(shape) * dtype.itemsize
        if dtype != np.float32 or fortran or not size == info.file_size == info.compress_size:
            return None
        start = _start(info, file) + header
        if start + size - header > len(content):
            raise ChangedError
        # zipfile compares the checksum when it reaches the end; what is mapped has none.
        while stream.read(_BLOCK):
            pass
    return np.ndarray(shape, np.float32, content, start)


def _start(info: zipfile.ZipInfo, file: IO[bytes]) -> int:
    """Return where a member's bytes begin: its local header may differ from the directory's."""
    file.seek(info.header_offset)
    name, extra = struct.unpack_from("<HH", file.read(_LOCAL_HEADER), _LOCAL_HEADER - 4)
    return info.header_offset + _LOCAL_HEADER + int(name) + int(extra)
