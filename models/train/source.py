"""The data file a user names: a table or arrays."""

from __future__ import annotations

from pathlib import Path

from leaveout.errors import TrainingError
from leaveout.files import ARCHIVE, opened
from leaveout.models.train.csv_data import read_csv
from leaveout.models.train.data import TrainingData
from leaveout.models.train.npz_data import read_npz

__all__ = ["read_data"]

_ZIP = b"PK"


def read_data(path: Path, label: str | None) -> TrainingData:
    """Read a CSV or an NPZ file, told apart by what it holds.

    Raises
    ------
    TrainingError
        If it cannot be read or used, with the place and the cure.
    """
    try:
        with opened(path, ARCHIVE) as stream:
            start = stream.read(len(_ZIP))
    except OSError as error:
        raise TrainingError(f"{path}: cannot be read: {error.strerror}") from None
    if start == _ZIP:
        return read_npz(path, label)
    if path.suffix.lower() == ".npz":
        raise TrainingError(f"{path}: not an NPZ file; write it with numpy.savez")
    return read_csv(path, label)
