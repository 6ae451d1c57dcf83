"""An ``.npz`` of arrays with a manifest: atomic writes, one-line refusals."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import LeaveoutError
from leaveout.files import ARCHIVE, open_atomically, open_file, why_unread
from leaveout.models.npz import Streamed, array_names, put_array, read_arrays
from leaveout.names import hint
from leaveout.user_key import leave_room, mark_file

MANIFEST = "manifest"
"""The array that says in JSON what the others cannot."""

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
        raise kind(f"{path}: cannot be written: {error.strerror or error}") from None


def manifest_array(manifest: object) -> NDArray[np.uint8]:
    """Return a manifest, as JSON by msgspec, in an array of bytes."""
    return np.frombuffer(msgspec.json.encode(manifest), dtype=np.uint8)


def holds_archive(path: Path, kind: type[LeaveoutError]) -> bool:
    """Return whether a file's first bytes are those of an archive."""
    try:
        with open_file(path, ARCHIVE) as stream:
            start = stream.read(len(_ZIP))
    except OSError as error:
        raise kind(f"{path}: {why_unread(error)}") from None
    if start != _ZIP and path.suffix.lower() == ".npz":
        what = "is not an NPZ file; write it with numpy.savez" if start else "is empty: no NPZ file"
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
        raise kind(f"{path}: the arrays do not fit into memory") from None
    except ValueError as error:
        if str(error).startswith("Object arrays"):
            raise kind(
                f"{path}: holds an array of Python objects, expected arrays of numbers; convert "
                "it with numpy's astype before saving"
            ) from None
        why = " ".join(str(error).split())
        raise kind(f"{path}: is damaged or was cut short ({why}); write it again") from None


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
            f"{path}: {MANIFEST!r} holds {raw.dtype} of shape {raw.shape}, expected the bytes of a "
            "JSON text (uint8)"
        )
    text = raw.tobytes()
    try:
        if version is not None:
            found = msgspec.json.decode(text, type=_Versioned).version
            if found != version:
                raise kind(
                    f"{path}: the manifest is of version {found}, this program reads version "
                    f"{version}; use a newer leaveout, or leave out the array {MANIFEST!r}"
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
                    f"{path}: there is an unknown array {name!r}{hint(name, known)}; expected "
                    f"only {', '.join(known)}"
                )
    for name in needed:
        if name not in arrays:
            raise kind(
                f"{path}: there is no array {name!r} (it has "
                f"{', '.join(sorted(arrays)) or 'none'}); expected "
                f"{', '.join(needed) if expected is None else expected}"
            )
