"""Regular files, opened and nothing else; without numpy, which takes long to import."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (1, "bytes"))
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}

ARCHIVE = 2**38
"""Most bytes of an archive of arrays, whose large arrays are mapped."""


class UnusualFileError(OSError):
    """A file that is not regular, or larger than any of its kind."""

    def __str__(self) -> str:
        return self.strerror or ""


def open_regular(path: Path, largest: int = ARCHIVE) -> BinaryIO:
    """Open a regular file to read its bytes; raise OSError for anything else."""
    try:
        # Opening a device can have side effects, so anything but a regular file is refused first.
        refuse_mode(path, path.stat().st_mode)
        # It may be a pipe by now: without O_NONBLOCK, opening would wait for a writer.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        stream = os.fdopen(os.open(path, flags | getattr(os, "O_NOCTTY", 0)), "rb")
    except ValueError as error:
        raise UnusualFileError(errno.EINVAL, f"is not a file name: {error}", str(path)) from None
    try:
        found = os.fstat(stream.fileno())
        refuse_mode(path, found.st_mode)
        if found.st_size > largest:
            raise UnusualFileError(
                errno.EFBIG, f"is larger than the limit of {size_text(largest)}", str(path)
            )
    except BaseException:
        stream.close()
        raise
    return stream


def refuse_mode(path: Path, mode: int) -> None:
    """Raise OSError unless the mode is that of a regular file."""
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder; expected a file", str(path))
    kind = _KINDS.get(stat.S_IFMT(mode), "not a file")
    raise UnusualFileError(errno.EINVAL, f"is {kind}; expected a regular file", str(path))


def size_text(count: int) -> str:
    """Write a number of bytes in its largest unit."""
    scale, unit = next(each for each in _UNITS if count >= each[0])
    return f"{count // scale:,} {unit}"
