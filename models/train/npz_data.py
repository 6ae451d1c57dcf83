"""Arrays: NPZ files of features and labels, used unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.archive import archive_names, expect_arrays, read_archive
from leaveout.models.arrays import rows_and_labels, same_features
from leaveout.models.train.data import TrainingData

F = TypeVar("F", np.float32, np.float64)

_EXPECTED = "X_train and y_train, with X_test and y_test if there is a test part, or X and y"


class Arrays(NamedTuple, Generic[F]):
    """Features and labels of training and test rows."""

    X: NDArray[F]  # shape (rows, features)
    y: NDArray[np.int64]  # shape (rows,): 0 to ``labels - 1``, each there
    labels: int
    X_test: NDArray[F] | None
    y_test: NDArray[np.int64] | None


def read_npz(path: Path, label: str | None = None) -> TrainingData:
    """Read the arrays of a file in float32, as `read_arrays` does."""
    found = read_arrays(path, label, np.float32)
    return TrainingData(
        X=found.X,
        y=found.y,
        labels=tuple(map(str, range(found.labels))),
        X_test=found.X_test,
        y_test=found.y_test,
    )


def read_arrays(path: Path, label: str | None, kind: type[F]) -> Arrays[F]:
    """Read ``X_train, y_train`` (``X_test, y_test``) or ``X, y``, values unchanged."""
    names = archive_names(path, TrainingError)
    x_name, y_name = ("X_train", "y_train") if "X_train" in names else ("X", "y")
    wanted = [x_name, y_name]
    if {"X_test", "y_test"} & set(names) and x_name == "X_train":
        wanted += ["X_test", "y_test"]
    expect_arrays(path, names, TrainingError, wanted, expected=_EXPECTED)
    found = read_archive(path, TrainingError, wanted)
    arrays = [found[name] for name in wanted]
    if label not in {None, y_name, "y"}:
        raise TrainingError(
            f"{path}: --label {label} names no array of labels; an NPZ has them in {y_name!r}: "
            "drop --label"
        )
    X, y = rows_and_labels(path, (x_name, y_name), arrays[0], arrays[1], kind)
    if len(X) < 2:
        raise TrainingError(f"{path}: {len(X)} rows, expected at least 2 to leave one out")
    count = _count_labels(path, y_name, y)
    X_test = y_test = None
    if len(arrays) > 2:
        X_test, y_test = rows_and_labels(path, ("X_test", "y_test"), arrays[2], arrays[3], kind)
        same_features(path, X, X_test)
        if len(y_test) and y_test.max() >= count:
            row = int(np.argmax(y_test >= count))
            raise TrainingError(
                f"{path}: 'y_test' row {row} has the label {y_test[row]}, expected 0 to "
                f"{count - 1} as in 'y_train'"
            )
    return Arrays(X, y, count, X_test, y_test)


def _count_labels(path: Path, name: str, y: NDArray[np.int64]) -> int:
    present = np.unique(y)
    if len(present) < 2:
        raise TrainingError(
            f"{path}: every row of {name!r} has the label {present[0]}; expected at least 2 labels"
        )
    if present[-1] >= len(present):
        absent = int(np.argmax(present != np.arange(len(present))))
        raise TrainingError(
            f"{path}: {name!r} goes up to {present[-1]}, but no row has the label {absent}; number "
            "the labels from 0 without gaps"
        )
    return len(present)
