"""An ``.npz`` of arrays with a manifest: atomic writes, one-line error messages."""

from __future__ import annotations

import math
import mmap
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from leaveout.errors import LeaveoutError
from leaveout.files import ARCHIVE, open_atomically, open_file, why_unread
from leaveout.names import hint
from leaveout.user_key import leave_room, mark_file

UNPACKED = 2**32
"""Most bytes of an archive's compressed arrays once decompressed."""

_STRANGERS, _TIMES = 2**28, 64
"""The same for a stranger's archive: at most so many bytes, or so many times the file size."""

_LOCAL_HEADER = 30
_LARGE = 2**30
_BLOCK = 2**22
_DAMAGED = (
    EOFError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    TypeError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Errors that damaged array headers can raise, besides ``ValueError``."""
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class ChangedError(ValueError):
    """The file is shorter than its directory says, or is being written to."""


@dataclass(frozen=True, eq=False)
class Streamed:
    """An array that is written in parts, so that it need not fit into memory."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    parts: Callable[[], Iterator[NDArray[Any]]]

    @property
    def nbytes(self) -> int:
        """Size of the array in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def write(self, stream: IO[bytes]) -> None:
        """Write the array as numpy does, in C order."""
        described = {
            "descr": npy.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": self.shape,
        }
        npy.write_array_header_1_0(stream, described)
        rows = 0
        for part in self.parts():
            if part.shape[1:] != self.shape[1:] or part.dtype != self.dtype:
                raise ValueError(
                    f"an array part of shape {part.shape} and type {part.dtype} does not fit {self}"
                )
            stream.write(np.ascontiguousarray(part).data.cast("B") if part.size else b"")
            rows += len(part)
        if rows != self.shape[0]:
            raise ValueError(f"array parts with {rows} rows do not add up to {self}")


def read_arrays(
    path: Path,
    mapped_from: int | None = None,
    only: Collection[str] | None = None,
    *,
    strangers: bool = False,
) -> dict[str, NDArray[Any]]:
    """Return the arrays of an archive in order, with checksums verified.

    Uncompressed float32 arrays in C order are mapped read-only, so their size does not matter.
    """
    # One descriptor throughout: if the file is replaced meanwhile, the old one is read to its end.
    with refuse_damage(), open_file(path, ARCHIVE) as file, zipfile.ZipFile(file) as archive:
        size = os.fstat(file.fileno()).st_size
        refuse_bombs(archive, size, only, strangers=strangers)
        content = None if mapped_from is None or size < mapped_from else _map(file)
        arrays: dict[str, NDArray[Any]] = {}
        for name in archive.namelist():
            if only is not None and name.removesuffix(".npy") not in only:
                continue
            info = archive.getinfo(name)
            array = None if content is None else _map_array(archive, info, file, content)
            arrays[name.removesuffix(".npy")] = _read(archive, info) if array is None else array
        if content is not None and os.fstat(file.fileno()).st_size != len(content):
            raise ChangedError
        return arrays


def put_array(
    archive: zipfile.ZipFile, name: str, array: NDArray[Any] | Streamed, *, packed: bool = False
) -> None:
    """Write an array into an archive in numpy's format, without a copy in memory."""
    info = zipfile.ZipInfo(f"{name}.npy")
    info.compress_type = zipfile.ZIP_DEFLATED if packed else archive.compression
    # The compressed size is unknown, so it may be large; numpy assumes the same.
    with archive.open(info, "w", force_zip64=not packed or array.nbytes >= _LARGE) as stream:
        if isinstance(array, Streamed):
            array.write(stream)
        else:
            npy.write_array(stream, array, allow_pickle=False)


def array_names(path: Path) -> tuple[str, ...]:
    """Return the array names of an archive; errors are those of `read_arrays`."""
    with refuse_damage(), open_file(path, ARCHIVE) as file, zipfile.ZipFile(file) as archive:
        names = archive.namelist()
    if names and not any(name.endswith(".npy") for name in names):
        raise ValueError(_NO_ARRAYS)
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
    most = max(_STRANGERS, _TIMES * size)
    if strangers and sum(each.file_size for each in read) > most:
        raise ValueError(f"it unpacks to more than {most // 2**20:,} MiB")


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


MANIFEST = "manifest"
"""The array with everything that is not an array, as JSON."""

M = TypeVar("M")

_ZIP = b"PK"
_NO_ARRAYS = "is a workbook or a zip file, neither a CSV nor an NPZ; save the table as CSV"


class _Versioned(msgspec.Struct):
    version: int


def write_archive(
    path: Path,
    arrays: Mapping[str, NDArray[Any] | Streamed],
    kind: type[LeaveoutError],
    *,
    compressed: bool = False,
    most: int = 0o666,
    purpose: str | None = None,
) -> None:
    """Write arrays atomically in numpy's format; equal arrays give equal bytes."""
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    try:
        with open_atomically(path, most) as stream:
            with zipfile.ZipFile(stream, "w", method) as archive:
                for name, array in arrays.items():
                    put_array(archive, name, array)
                if purpose is not None:
                    leave_room(archive)
            if purpose is not None:
                mark_file(stream, purpose)
    except OSError as error:
        raise kind(f"{path}: cannot write: {error.strerror or error}") from None


def manifest_array(manifest: object) -> NDArray[np.uint8]:
    """Return a manifest as an array of bytes, encoded as JSON by msgspec."""
    return np.frombuffer(msgspec.json.encode(manifest), dtype=np.uint8)


def holds_archive(path: Path, kind: type[LeaveoutError]) -> bool:
    """Return whether a file starts with the first bytes of an archive."""
    try:
        with open_file(path, ARCHIVE) as stream:
            start = stream.read(len(_ZIP))
    except OSError as error:
        raise kind(f"{path}: {why_unread(error)}") from None
    if start != _ZIP and path.suffix.lower() == ".npz":
        what = (
            "is not an NPZ file; write it with numpy.savez"
            if start
            else ("is empty, not an NPZ file")
        )
        raise kind(f"{path}: {what}")
    return start == _ZIP


def read_archive(
    path: Path, kind: type[LeaveoutError], only: Collection[str] | None = None
) -> dict[str, NDArray[Any]]:
    """Return the arrays of an archive."""
    with _refuse_unreadable(path, kind):
        return read_arrays(path, only=only)


def archive_names(path: Path, kind: type[LeaveoutError]) -> tuple[str, ...]:
    """Return the array names of an archive; errors are those of `read_archive`."""
    with _refuse_unreadable(path, kind):
        return array_names(path)


def holds_arrays(path: Path, names: Collection[str]) -> bool:
    """Return whether a file is an archive that includes the named arrays."""
    try:
        return set(names) <= set(archive_names(path, LeaveoutError))
    except LeaveoutError:
        return False


@contextmanager
def _refuse_unreadable(path: Path, kind: type[LeaveoutError]) -> Iterator[None]:
    """Turn errors of reading an archive into refusals."""
    try:
        yield
    except OSError as error:
        raise kind(f"{path}: {why_unread(error)}") from None
    except MemoryError:
        raise kind(f"{path}: the arrays do not fit in memory") from None
    except ValueError as error:
        if str(error).startswith("Object arrays"):
            raise kind(
                f"{path}: contains an array of Python objects, expected arrays of numbers; "
                "convert it with numpy's astype before saving"
            ) from None
        if str(error) == _NO_ARRAYS:
            raise kind(f"{path}: {_NO_ARRAYS}") from None
        why = " ".join(str(error).split())
        raise kind(f"{path}: damaged or truncated ({why}); write it again") from None


def read_manifest(
    path: Path,
    raw: NDArray[Any],  # shape (bytes,)
    form: type[M],
    kind: type[LeaveoutError],
    version: int | None = None,
) -> M:
    """Return the manifest stored in an array."""
    if raw.dtype != np.uint8 or raw.ndim != 1:
        raise kind(
            f"{path}: {MANIFEST!r} contains {raw.dtype} of shape {raw.shape}, expected the bytes "
            "of a JSON text (uint8)"
        )
    text = raw.tobytes()
    try:
        if version is not None:
            found = msgspec.json.decode(text, type=_Versioned).version
            if found != version:
                raise kind(
                    f"{path}: the manifest has version {found}, but this program reads version "
                    f"{version}; use a newer leaveout, or remove the array {MANIFEST!r}"
                )
        return msgspec.json.decode(text, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise kind(f"{path}: the manifest is damaged: {error}; write the file again") from None


def expect_arrays(
    path: Path,
    arrays: Collection[str],
    kind: type[LeaveoutError],
    needed: Collection[str],
    more: Collection[str] | None = None,
    *,
    expected: str | None = None,
) -> None:
    """Refuse an archive with missing or unexpected arrays."""
    if more is not None:
        known = (*needed, *more)
        for name in arrays:
            if name not in known:
                raise kind(
                    f"{path}: unknown array {name!r}{hint(name, known)}; expected only "
                    f"{', '.join(known)}"
                )
    for name in needed:
        if name not in arrays:
            raise kind(
                f"{path}: no array {name!r} (it has {', '.join(sorted(arrays)) or 'none'}); "
                f"expected {', '.join(needed) if expected is None else expected}"
            )
