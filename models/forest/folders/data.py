"""Training data of a forest: a table in its own units, or float64 arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.archive import holds_archive
from leaveout.models.forest.columns import ForestColumns
from leaveout.models.table import read_table
from leaveout.models.train.csv_data import read_columns, refuse_wrong_names
from leaveout.models.train.npz_data import read_arrays
from leaveout.models.train.source import refuse_column_names


@dataclass(frozen=True, eq=False)
class ForestData:
    """Training rows of a forest."""

    X: NDArray[np.float64]  # shape (rows, features)
    y: NDArray[Any]  # shape (rows,): labels: whole numbers if all are written as such, else text
    columns: ForestColumns
    X_test: NDArray[np.float64] | None = None
    y_test: NDArray[Any] | None = None


def read_forest_data(
    path: Path,
    label: str | None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
) -> ForestData:
    """Read a CSV with a header, or an NPZ with ``X_train, y_train`` or ``X, y``."""
    if holds_archive(path, TrainingError):
        refuse_column_names(path, identity, units)
        found = read_arrays(path, label, np.float64)
        plain = ForestColumns(source=path.name)
        return ForestData(found.X, found.y, plain, found.X_test, found.y_test)
    check = partial(refuse_wrong_names, label=label, identity=identity, units=units)
    table = read_table(path, on_header=check)
    read = read_columns(table, label, identity, units, scaled=False)
    columns = ForestColumns(
        source=path.name,
        encoding=read.encoding,
        units=dict(read.units),
        identity=identity,
        ids=dict(enumerate(read.ids)),
    )
    return ForestData(columns.encode(table.records()), label_values(read.labels)[read.y], columns)


def label_values(names: Sequence[str]) -> NDArray[Any]:
    """Return labels as integers if all are written so, else as text."""
    try:
        numbers = np.array([int(name) for name in names], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(names, dtype=np.str_)
    alike = [str(number) for number in numbers.tolist()] == list(names)
    return numbers if alike else np.array(names, dtype=np.str_)
