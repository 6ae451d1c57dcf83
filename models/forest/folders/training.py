"""Training a forest from a data file into a folder ready to verify and guard."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import ForestError, TrainingError
from leaveout.files import make_folder, settle, why_unread
from leaveout.models.archive import holds_archive
from leaveout.models.forest.classifier import DareForestClassifier
from leaveout.models.forest.columns import FOREST, ForestColumns
from leaveout.models.forest.folders.folder import ForestFolder, lock_folder
from leaveout.models.table import read_table
from leaveout.models.train.data import (
    read_arrays,
    read_columns,
    refuse_column_names,
    refuse_wrong_names,
)


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


_NETWORK = "full.onnx"


@dataclass(frozen=True)
class ForestReport:
    """Summary of a trained forest.

    Attributes
    ----------
    directory : Path
    rows, features, labels, trees : int
    depth : int or None
        Deepest level of a leaf that was allowed.
    test_accuracy : float or None
        Share of test rows labelled right, in [0, 1].
    tested : int
        How many test rows.
    held_out : bool
        Whether the test rows are rows of the forest too, so that another forest, trained without
        them, was tested.
    seconds : float
    files : tuple of Path
    """

    directory: Path
    rows: int
    features: int
    labels: int
    trees: int
    depth: int | None
    test_accuracy: float | None
    tested: int
    held_out: bool
    seconds: float
    files: tuple[Path, ...]


def train_forest(
    source: Path | str,
    directory: Path | str,
    *,
    label: str | None = None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
    forest: DareForestClassifier | None = None,
    test_share: float = 0.2,
) -> ForestReport:
    """Train a forest on all rows of a table and write its folder.

    Rows are named by their number in the file, from 0, or as ``identity`` does. The same file and
    settings, with a seed, give the same bytes.

    Parameters
    ----------
    source : Path or str
        CSV with a header, or NPZ with ``X_train, y_train`` or ``X, y``.
    directory : Path or str
        Where ``forest.npz``, ``forest.json`` and ``forest.spec`` go; it holds no forest yet.
    label, identity, units
        As `leaveout.models.train.run` takes them.
    forest : DareForestClassifier or None
        The settings; None: 50 trees of depth 10, seed 0.
    test_share : float
        Share of the rows that a second forest is trained without, to measure accuracy; 0: none.
        Where the file has a test part of its own, that is used.

    Raises
    ------
    TrainingError, ForestError
        If the data or the settings cannot be used, or the folder is taken.
    """
    began = time.monotonic()
    target = Path(directory)
    if not 0 <= test_share < 1:
        raise ForestError(
            f"--test-share {test_share:g}: expected a number of at least 0 and below 1"
        )
    _refuse_taken(target)
    data = read_forest_data(Path(source), label, identity, units)
    settings = DareForestClassifier(50, max_depth=10, random_state=0) if forest is None else forest
    trained = DareForestClassifier(**settings.get_params(deep=False)).fit(data.X, data.y)
    accuracy, tested, held_out = _test_accuracy(data, trained, test_share)
    folder = ForestFolder(target, trained, data.columns)
    try:
        make_folder(target)
    except OSError as error:
        raise ForestError(f"{target}: cannot write: {error.strerror or error}") from None
    with lock_folder(target):
        _refuse_taken(target)
        folder.write()
    return ForestReport(
        directory=target,
        rows=len(data.X),
        features=data.X.shape[1],
        labels=len(trained.classes_),
        trees=trained.n_estimators,
        depth=trained.max_depth,
        test_accuracy=accuracy,
        tested=tested,
        held_out=held_out,
        seconds=time.monotonic() - began,
        files=folder.files,
    )


def _refuse_taken(directory: Path) -> None:
    """Refuse to overwrite a forest, from which rows may have been deleted."""
    if directory.exists() and not directory.is_dir():
        raise ForestError(f"{directory}: is a file; choose another folder")
    try:
        settle(directory)
    except OSError as error:
        raise ForestError(f"{directory}: {why_unread(error)}") from None
    if (directory / FOREST).exists():
        raise ForestError(
            f"{directory}: already contains a forest, from which rows may have been deleted; "
            "choose another folder, or remove this one"
        )
    if (directory / _NETWORK).exists():
        raise ForestError(f"{directory}: contains a network and its family; choose another folder")


def _test_accuracy(
    data: ForestData, trained: DareForestClassifier, share: float
) -> tuple[float | None, int, bool]:
    """Return test accuracy, the number of test rows, and whether the forest holds them."""
    if data.X_test is not None and data.y_test is not None and len(data.X_test):
        right = trained.predict(data.X_test) == data.y_test
        return float(np.mean(right)), len(right), False
    rows = len(data.X)
    tested = min(round(share * rows), rows - 1)
    if not tested:
        return None, 0, False
    order = np.random.default_rng(trained.seed_).permutation(rows)
    out, others = order[:tested], np.sort(order[tested:])
    smaller = DareForestClassifier(**trained.get_params(deep=False))
    smaller.set_params(random_state=trained.seed_).fit(data.X[others], data.y[others])
    return float(np.mean(smaller.predict(data.X[out]) == data.y[out])), tested, True
