"""An ``.npz`` of arrays with a manifest: atomic writes, one-line error messages."""

from __future__ import annotations

import math
import zipfile
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
from leaveout.files import (
    ARCHIVE,
    open_atomically,
    open_file,
    refuse_unread,
    refuse_unwritten,
    why_unread,
)
from leaveout.kernel.files import NO_ARRAYS
from leaveout.kernel.files import array_names as open_names
from leaveout.kernel.files import read_archive as read_archive_arrays
from leaveout.names import hint
from leaveout.user_key import leave_room, mark_file

_LARGE = 2**30


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
    path: Path, mapped_from: int | None = None, only: Collection[str] | None = None
) -> dict[str, NDArray[Any]]:
    """Return the arrays of an archive in order, with checksums verified.

    Uncompressed float32 arrays in C order are mapped read-only, so their size does not matter.
    """
    # One descriptor throughout: if the file is replaced meanwhile, the old one is read to its end.
    with open_file(path, ARCHIVE) as file:
        return read_archive_arrays(file, mapped_from, only)


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
    with open_file(path, ARCHIVE) as file:
        return open_names(file)


MANIFEST = "manifest"
"""The array with everything that is not an array, as JSON."""

M = TypeVar("M")

_ZIP = b"PK"


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
    with refuse_unwritten(kind, path), open_atomically(path, most) as stream:
        with zipfile.ZipFile(stream, "w", method) as archive:
            for name, array in arrays.items():
                put_array(archive, name, array)
            if purpose is not None:
                leave_room(archive)
        if purpose is not None:
            mark_file(stream, purpose)


def manifest_array(manifest: object) -> NDArray[np.uint8]:
    """Return a manifest as an array of bytes, encoded as JSON by msgspec."""
    return np.frombuffer(msgspec.json.encode(manifest), dtype=np.uint8)


def holds_archive(path: Path, kind: type[LeaveoutError]) -> bool:
    """Return whether a file starts with the first bytes of an archive."""
    with refuse_unread(kind, path), open_file(path, ARCHIVE) as stream:
        start = stream.read(len(_ZIP))
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
        if str(error) == NO_ARRAYS:
            raise kind(f"{path}: {NO_ARRAYS}") from None
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
