"""The data file a user names: a table or arrays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from leaveout.errors import TrainingError
from leaveout.models.archive import holds_archive
from leaveout.models.table import OnRead
from leaveout.models.train.csv_data import read_csv
from leaveout.models.train.data import TrainingData
from leaveout.models.train.npz_data import read_npz


def read_data(
    path: Path,
    label: str | None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
    on_read: OnRead | None = None,
) -> TrainingData:
    """Read a CSV or NPZ file, identified by its content."""
    if not holds_archive(path, TrainingError):
        return read_csv(path, label, identity, units, on_read)
    refuse_column_names(path, identity, units)
    return read_npz(path, label)


def refuse_column_names(path: Path, identity: str | None, units: Mapping[str, str] | None) -> None:
    """Raise on column names for a file without columns."""
    for flag, given in (("--id", identity), ("--unit", units)):
        if given:
            raise TrainingError(f"{path}: {flag} names a column, and an NPZ has none: drop {flag}")
