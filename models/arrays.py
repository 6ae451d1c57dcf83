"""Rows and labels in arrays of an NPZ; messages name the array and the row.

They say what a table says, without a header; see `leaveout.models.table`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError

F = TypeVar("F", np.float32, np.float64)

_LARGEST = np.finfo(np.float32).max


def rows_and_labels(
    source: Path | str,
    names: tuple[str, str],
    X: NDArray[Any],  # shape (rows, features)
    y: NDArray[Any],  # shape (rows,)
    kind: type[F],
) -> tuple[NDArray[F], NDArray[np.int64]]:
    """Return features and labels, or refuse and name the unusable row."""
    values = _features(source, names[0], X, kind)
    labels = _labels(source, names[1], y)
    if len(values) != len(labels):
        raise TrainingError(
            f"{source}: {names[0]!r} has {len(values)} rows and {names[1]!r} {len(labels)}; "
            "expected as many"
        )
    return values, labels


def same_features(source: Path | str, train: NDArray[Any], test: NDArray[Any]) -> None:
    """Raise TrainingError if test rows have other features than training rows."""
    if test.shape[1] != train.shape[1]:
        raise TrainingError(
            f"{source}: 'X_test' has {test.shape[1]} features, 'X_train' has {train.shape[1]}"
        )


def _features(source: Path | str, name: str, raw: NDArray[Any], kind: type[F]) -> NDArray[F]:
    if raw.ndim != 2 or not raw.shape[1] or raw.dtype.kind not in "fiub":
        raise TrainingError(
            f"{source}: {name!r} is {raw.dtype} of shape {raw.shape}, expected numbers of shape "
            "(rows, features)"
        )
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(raw, dtype=kind)
    wrong = ~(np.abs(values) <= _LARGEST)
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        raise TrainingError(
            f"{source}: {name!r} row {row}, column {column} is {raw[row, column]}, expected a "
            "finite float32; fill it in, or drop the row"
        )
    return values


def _labels(source: Path | str, name: str, raw: NDArray[Any]) -> NDArray[np.int64]:
    if raw.ndim != 1 or raw.dtype.kind not in "fiub":
        raise TrainingError(
            f"{source}: {name!r} is {raw.dtype} of shape {raw.shape}, expected whole numbers of "
            "shape (rows,)"
        )
    values = raw.astype(np.float64)
    wrong = ~((values >= 0) & (values < 2**31) & (np.floor(values) == values))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise TrainingError(
            f"{source}: {name!r} row {row} is {raw[row]}, expected a label 0, 1, 2, ...; number "
            "the labels from 0"
        )
    return raw.astype(np.int64)
