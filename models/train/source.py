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

__all__ = ["read_data", "refuse_column_names"]


def read_data(
    path: Path,
    label: str | None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
    on_read: OnRead | None = None,
) -> TrainingData:
    """Read a CSV or an NPZ file, told apart by what it holds.

    Parameters
    ----------
    path : Path
    label : str or None
        The column to predict; of a CSV.
    identity : str or None
        The column that names the rows, which is no feature; of a CSV.
    units : mapping of str to str or None
        By columns, what their numbers are measured in; of a CSV.
    on_read : callable or None
        Told which share of a CSV is read.

    Raises
    ------
    TrainingError
        If it cannot be read or used, with the place and the cure.
    """
    if not holds_archive(path, TrainingError):
        return read_csv(path, label, identity, units, on_read)
    refuse_column_names(path, identity, units)
    return read_npz(path, label)


def refuse_column_names(path: Path, identity: str | None, units: Mapping[str, str] | None) -> None:
    """Refuse what names columns, of a file that has none.

    Raises
    ------
    TrainingError
    """
    for flag, given in (("--id", identity), ("--unit", units)):
        if given:
            raise TrainingError(f"{path}: {flag} names a column, and an NPZ has none: drop {flag}")
