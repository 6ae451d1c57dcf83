"""Arrays of an ``.npz`` that a user names, or one line that says why there are none."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from leaveout.errors import LeaveoutError
from leaveout.models.npz import read_arrays

__all__ = ["read_archive"]

_DAMAGED = (
    EOFError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What numpy and zipfile raise about an archive; of the headers of its arrays, any of several."""


def read_archive(
    path: Path, kind: type[LeaveoutError], only: Collection[str] | None = None
) -> dict[str, NDArray[Any]]:
    """Return the arrays of an archive.

    Parameters
    ----------
    path : Path
    kind : type of LeaveoutError
        To raise.
    only : collection of str, optional
        Names of those to read; all by default.

    Raises
    ------
    LeaveoutError
        Of the given kind, if the file is damaged, holds objects, or does not fit into memory.
    OSError
        If it cannot be read.
    """
    try:
        return read_arrays(path, only=only)
    except MemoryError:
        raise kind(f"{path}: the arrays do not fit into memory") from None
    except _DAMAGED as error:
        if str(error).startswith("Object arrays"):
            raise kind(
                f"{path}: holds an array of Python objects, expected arrays of numbers; convert "
                "it with numpy's astype before saving"
            ) from None
        why = " ".join(str(error).split())
        raise kind(f"{path}: is damaged or was cut short ({why}); write it again") from None
