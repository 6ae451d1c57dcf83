"""Read regular files of a bounded size alone, and write files whole or not at all."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = [
    "ARCHIVE",
    "MODEL",
    "PARTIALS",
    "RESULTS",
    "SETTINGS",
    "TABLE",
    "UnusualFileError",
    "lock",
    "open_file",
    "opened_text",
    "read_whole",
    "refuse_unusual",
    "why_unread",
    "write_whole",
    "written_whole",
]

SETTINGS = 2**20
"""Most bytes of a file of settings."""
RESULTS = 2**30
"""Most bytes of a file of results."""
MODEL = 2**31
"""Most bytes of an ONNX file, as of any message of protobuf."""
TABLE = 2**32
"""Most bytes of a table."""
ARCHIVE = 2**38
"""Most bytes of an archive of arrays, whose large arrays are mapped."""

PARTIALS = ".leaveout-*.partial"
"""What `written_whole` leaves in a folder where the process is killed."""

_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (1, "bytes"))
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class UnusualFileError(OSError):
    """What is no regular file, or is larger than any of its kind."""

    def __str__(self) -> str:
        return self.strerror or ""


def refuse_unusual(path: Path) -> None:
    """Refuse what exists and is no regular file, without opening it; a link is followed.

    Raises
    ------
    UnusualFileError, IsADirectoryError
        If it is a pipe, a device, a socket or a folder: reading one may never end.
    OSError
        If it cannot be looked at, other than for being absent.
    """
    try:
        _refuse(path, path.stat().st_mode)
    except FileNotFoundError:
        return


def open_file(path: Path, largest: int) -> BinaryIO:
    """Open a regular file to read its bytes.

    Parameters
    ----------
    path : Path
        A link is followed.
    largest : int
        Most bytes that it may hold.

    Raises
    ------
    UnusualFileError
        If it is a pipe, a device or a socket, or is larger; nothing was read.
    OSError
        If it is missing, a folder, or cannot be opened; also for a name that no file can have.
    """
    try:
        # Opening alone may do things to a device, so what is none is refused before.
        _refuse(path, path.stat().st_mode)
        # It may have become a pipe since, for whose writer opening would wait.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        stream = os.fdopen(os.open(path, flags | getattr(os, "O_NOCTTY", 0)), "rb")
    except ValueError as error:
        raise UnusualFileError(errno.EINVAL, f"is no file name: {error}", str(path)) from None
    try:
        found = os.fstat(stream.fileno())
        _refuse(path, found.st_mode)
        if found.st_size > largest:
            raise UnusualFileError(
                errno.EFBIG, f"is larger than {_size(largest)}, the most that is read", str(path)
            )
    except BaseException:
        stream.close()
        raise
    return stream


def opened_text(path: Path, largest: int) -> io.TextIOWrapper:
    """Open a regular file as UTF-8 text, its line ends kept, as `open_file` does."""
    return io.TextIOWrapper(open_file(path, largest), encoding="utf-8-sig", newline="")


def read_whole(path: Path, largest: int) -> bytes:
    """Return what a regular file holds, as `open_file` opens it, also where it grows meanwhile."""
    with open_file(path, largest) as stream:
        # Room is made for all that is asked for, so no more is than the file holds.
        known = os.fstat(stream.fileno()).st_size
        data = stream.read(known + 1)
        if len(data) > known:
            data += stream.read(max(0, largest + 1 - len(data)))
    if len(data) > largest:
        raise UnusualFileError(errno.EFBIG, f"is larger than {_size(largest)}", str(path))
    return data


def why_unread(error: OSError) -> str:
    """Return what a message says of a file, after its name, that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return f"cannot be read: {error.strerror or error}"


def _refuse(path: Path, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder, expected a file", str(path))
    kind = _KINDS.get(stat.S_IFMT(mode), "something unusual")
    raise UnusualFileError(errno.EINVAL, f"is {kind}, expected a regular file", str(path))


def _size(count: int) -> str:
    scale, unit = next(each for each in _UNITS if count >= each[0])
    return f"{count // scale:,} {unit}"


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a stream whose content becomes the file at ``path`` once all of it is on the disk.

    A link is followed. Where anything fails, what was there is still there.

    Raises
    ------
    OSError
        If the file cannot be written, or is no regular file, which would be replaced by one.
    """
    target = path.resolve()
    refuse_unusual(target)
    prefix, suffix = PARTIALS.split("*")
    handle, name = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=target.parent)
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        mask = os.umask(0)
        os.umask(mask)
        partial.chmod(0o666 & ~mask)
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def lock(descriptor: int) -> None:
    """Hold an open file or folder for this process alone, until it is closed.

    Where a system has no such locks, nothing is held.

    Raises
    ------
    BlockingIOError
        If another process holds it.
    """
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file as `written_whole` does."""
    with written_whole(path) as stream:
        stream.write(content)
