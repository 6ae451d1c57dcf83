"""Files, read strictly: regular ones only, whole, and archives that unpack to little."""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from .regular_files import open_regular

UNPACKED = 2**32
"""Most bytes of an archive's compressed arrays once decompressed."""

STRANGERS, TIMES = 2**28, 64
"""The same for a stranger's archive: at most so many bytes, or so many times the file size."""

NO_ARRAYS = "is a workbook or a zip file, neither a CSV nor an NPZ; save the table as CSV"

_LOCAL_HEADER = 30
_BLOCK = 2**22
_DAMAGED = (
    EOFError, NotImplementedError, OverflowError, RuntimeError, TypeError, tokenize.TokenError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Errors that damaged array headers can raise, besides ``ValueError``."""
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class ChangedError(ValueError):
    """The file is shorter than its directory says, or is being written to."""


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with open_regular(path) as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def read_archive(
    file: IO[bytes],
    mapped_from: int | None = None,
    only: Collection[str] | None = None,
    *,
    strangers: bool = False,
) -> dict[str, NDArray[Any]]:
    """Return the arrays of an open archive in order, with checksums verified.

    Uncompressed float32 arrays in C order are mapped read-only, so their size does not matter.
    Raises ValueError at damage, and where a stranger's archive would unpack to much.
    """
    with refuse_damage(), zipfile.ZipFile(file) as archive:
        size = file.seek(0, os.SEEK_END)
        refuse_bombs(archive, size, only, strangers=strangers)
        content = None if mapped_from is None or size < mapped_from else _map(file)
        arrays: dict[str, NDArray[Any]] = {}
        names = archive.namelist()
        if len({name.removesuffix(".npy") for name in names}) < len(names):
            raise ValueError("it holds an array twice")
        for name in names:
            if only is not None and name.removesuffix(".npy") not in only:
                continue
            info = archive.getinfo(name)
            array = None if content is None else _map_array(archive, info, file, content)
            arrays[name.removesuffix(".npy")] = _read(archive, info) if array is None else array
        if content is not None and os.fstat(file.fileno()).st_size != len(content):
            raise ChangedError
        return arrays


def array_names(file: IO[bytes]) -> tuple[str, ...]:
    """Return the array names of an open archive."""
    with refuse_damage(), zipfile.ZipFile(file) as archive:
        names = archive.namelist()
    if names and not any(name.endswith(".npy") for name in names):
        raise ValueError(NO_ARRAYS)
    return tuple(name.removesuffix(".npy") for name in names)


def refuse_bombs(
    archive: zipfile.ZipFile,
    size: int,
    only: Collection[str] | None = None,
    *,
    strangers: bool = False,
) -> None:
    """Refuse an archive that would decompress to too much, before decompressing it."""
    infos = archive.infolist()
    plain = sum(each.file_size for each in infos if each.compress_type == zipfile.ZIP_STORED)
    if plain > size:
        raise ChangedError("its arrays are larger than the file")
    packed = [each for each in infos if each.compress_type != zipfile.ZIP_STORED]
    if sum(each.file_size for each in packed) > UNPACKED:
        raise ValueError(
            f"it unpacks to more than {UNPACKED // 2**30} GiB; save large arrays uncompressed"
        )
    read = [each for each in packed if only is None or each.filename.removesuffix(".npy") in only]
    most = max(STRANGERS, TIMES * size)
    if strangers and sum(each.file_size for each in read) > most:
        raise ValueError(f"it unpacks to more than {most // 2**20:,} MiB")


def bytes_of(array: NDArray[Any] | None) -> bytes:
    """Return the text that an array of bytes is."""
    if array is None or array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError("it has no text where there must be one")
    return array.tobytes()


@contextmanager
def refuse_damage() -> Iterator[None]:
    """Turn any zipfile or numpy error on damaged files into a ``ValueError``."""
    try:
        yield
    except _DAMAGED as error:
        raise ValueError(str(error)) from error


def _map(file: IO[bytes]) -> mmap.mmap | None:
    try:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError:
        # Some file systems cannot map; reading still works.
        return None


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(info) as stream:
        version = npy.read_magic(stream)
        if version in _HEADERS:
            shape, _, dtype = _HEADERS[version](stream)
            held = info.file_size - stream.tell()
            if not dtype.hasobject and math.prod(shape) * dtype.itemsize > held:
                raise ChangedError(f"{info.filename} is shorter than its header states")
    with archive.open(info) as stream:
        array: NDArray[Any] = npy.read_array(stream, allow_pickle=False)
        if stream.read(1):
            raise ValueError(f"{info.filename} is longer than its header states")
        return array


def _map_array(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, file: IO[bytes], content: mmap.mmap
) -> NDArray[np.float32] | None:
    """Return a view of an array in the mapped file; None unless stored plainly."""
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
        # zipfile verifies the checksum at the end of a read; mapped bytes would not be verified.
        while stream.read(_BLOCK):
            pass
    return np.ndarray(shape, np.float32, content, start)


def _start(info: zipfile.ZipInfo, file: IO[bytes]) -> int:
    """Return the offset of a member's bytes, read from its local header."""
    file.seek(info.header_offset)
    name, extra = struct.unpack_from("<HH", file.read(_LOCAL_HEADER), _LOCAL_HEADER - 4)
    return info.header_offset + _LOCAL_HEADER + int(name) + int(extra)
