"""Training a forest from a data file into a folder ready to verify and guard."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.classifier import DareForestClassifier
from leaveout.models.forest.columns import FORESTS, ForestColumns
from leaveout.models.forest.folders.folder import ForestFolder
from leaveout.models.forest.plain import Ensemble, Groups
from leaveout.models.quality import Quality
from leaveout.models.reading import PLAIN, Reading
from leaveout.models.train.folder import refuse_taken, write_new
from leaveout.models.train.rows import TableRows, label_values, read_rows, test_split


@dataclass(frozen=True, eq=False)
class ForestData:
    """Training rows of a forest."""

    X: NDArray[np.float64]  # shape (rows, features)
    y: NDArray[Any]  # shape (rows,): labels: whole numbers if all are written as such, else text
    columns: ForestColumns
    rows: TableRows
    y_test: NDArray[Any] | None = None

    def name_rows(self, ensemble: Ensemble) -> Ensemble:
        """Return a forest of these rows with their names and groups."""
        rows = self.rows
        if rows.names is not None:
            ensemble = replace(ensemble, names=rows.names, next_name=rows.listed)
        return replace(ensemble, groups=None if rows.groups is None else Groups(*rows.groups))


def read_forest_data(
    path: Path,
    label: str | None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
    reading: Reading = PLAIN,
) -> ForestData:
    """Read a CSV with a header, or an NPZ with ``X_train, y_train`` or ``X, y``."""
    rows = read_rows(path, label, identity, units, reading, scaled=False)
    known = label_values(rows.labels)
    y_test = None if rows.y_test is None else known[rows.y_test]
    return ForestData(rows.X, known[rows.y], rows.columns, rows, y_test)


_SHALLOW = 3  # trees no deeper usually have useful bounds though each row is in all of them


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
    quality : Quality or None
        How accurate it is on these rows; None if there are none.
    seconds : float
    files : tuple of Path
    leaving : int
        How many rows, or groups of them, can leave.
    warnings : tuple of str
        What looks like a mistake in the table.
    group : str
        The column whose equal cells name rows that leave together; empty if each leaves alone.
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
    quality: Quality | None
    seconds: float
    files: tuple[Path, ...]
    leaving: int
    warnings: tuple[str, ...] = ()
    group: str = ""


def train_forest(
    source: Path | str,
    directory: Path | str,
    *,
    label: str | None = None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
    reading: Reading = PLAIN,
    forest: DareForestClassifier | None = None,
    test_share: float = 0.2,
) -> ForestReport:
    """Train a forest on all rows of a table and write its folder.

    Rows are named by their number in the file, from 0, or as ``identity`` does; those that leave
    together by their cell. The same file and
    settings, with a seed, give the same bytes.

    Parameters
    ----------
    source : Path or str
        CSV with a header, or NPZ with ``X_train, y_train`` or ``X, y``.
    directory : Path or str
        Where ``forest.npz``, ``forest.json`` and ``forest.spec`` go; it holds no forest yet.
    label, identity, units, reading
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
    FORESTS.expect_share(test_share)
    refuse_taken(FORESTS, target)
    data = read_forest_data(Path(source), label, identity, units, reading)
    settings = DareForestClassifier(50, max_depth=10, random_state=0) if forest is None else forest
    trained = DareForestClassifier(**settings.get_params(deep=False)).fit(data.X, data.y)
    trained = DareForestClassifier.of(data.name_rows(trained.ensemble()))
    trained.set_params(n_jobs=settings.n_jobs)
    tested = _answer_tests(data, trained, test_share)
    folder = ForestFolder(target, data.columns, trained)
    folder = write_new(folder)
    quality = _quality(tested, trained.classes_)
    return ForestReport(
        directory=target,
        rows=len(data.X),
        features=data.X.shape[1],
        labels=len(trained.classes_),
        trees=trained.n_estimators,
        depth=trained.max_depth,
        test_accuracy=None if tested is None else float(np.mean(tested.answers == tested.y)),
        tested=0 if tested is None else len(tested.y),
        held_out=tested is not None and tested.held_out,
        quality=quality,
        seconds=time.monotonic() - began,
        files=folder.files,
        warnings=(
            *data.rows.cautions,
            *(() if quality is None else quality.caution),
            *_expect(trained),
        ),
        leaving=len(trained.ensemble().unit_names),
        group="" if data.rows.groups is None else data.rows.groups[0],
    )


def _expect(forest: DareForestClassifier) -> tuple[str, ...]:
    """Say before a search that its bounds will be loose; see ``docs/forest-rows.md``."""
    if forest.q < 1 or (forest.max_depth is not None and forest.max_depth <= _SHALLOW):
        return ()
    return (
        "every row trains every tree, so a row can change confident answers: expect bounds near 1; "
        "--share 0.1 or --depth 3 usually proves far more at about the same accuracy",
    )


@dataclass(frozen=True, eq=False)
class _Tested:
    """Answers to test rows, and their labels."""

    answers: NDArray[Any]
    y: NDArray[Any]
    held_out: bool  # whether the forest itself was trained on the rows


def _answer_tests(data: ForestData, trained: DareForestClassifier, share: float) -> _Tested | None:
    """Answer the test rows, or rows that another forest is trained without."""
    X_test = data.rows.X_test
    if X_test is not None and data.y_test is not None and len(X_test):
        return _Tested(trained.predict(X_test), data.y_test, False)
    out, others = test_split(trained.ensemble().units, share, trained.seed_)
    if not len(out):
        return None
    smaller = DareForestClassifier(**trained.get_params(deep=False))
    smaller.set_params(random_state=trained.seed_).fit(data.X[others], data.y[others])
    return _Tested(smaller.predict(data.X[out]), data.y[out], True)


def _quality(tested: _Tested | None, classes: NDArray[Any]) -> Quality | None:
    """Measure a forest by the test rows whose labels it knows."""
    known = None if tested is None else np.isin(tested.y, classes)
    if tested is None or known is None or not known.any():
        return None
    answers, y = (np.searchsorted(classes, each[known]) for each in (tested.answers, tested.y))
    return Quality.of(answers, y, tuple(map(str, classes)))
