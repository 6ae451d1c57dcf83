"""The data file a user names: a table or arrays."""

from __future__ import annotations

from pathlib import Path

from leaveout.errors import TrainingError
from leaveout.models.archive import holds_archive
from leaveout.models.train.csv_data import read_csv
from leaveout.models.train.data import TrainingData
from leaveout.models.train.npz_data import read_npz

__all__ = ["read_data"]


def read_data(path: Path, label: str | None) -> TrainingData:
    """Read a CSV or an NPZ file, told apart by what it holds.

    Raises
    ------
    TrainingError
        If it cannot be read or used, with the place and the cure.
    """
    return read_npz(path, label) if holds_archive(path, TrainingError) else read_csv(path, label)
