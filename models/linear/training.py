"""Fitting a linear model to a table, into a folder ready to verify."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.errors import LinearError
from leaveout.files import MODEL, read_whole, why_unread
from leaveout.kernel.design import Column, Design
from leaveout.kernel.model import Groups, Kind, LinearModel
from leaveout.models.linear.family import bound_members
from leaveout.models.linear.fit import coefficients_of
from leaveout.models.linear.folder import (
    LINEARS,
    LinearColumns,
    LinearFolder,
    network_outputs,
    refuse_unfit,
)
from leaveout.models.quality import Quality
from leaveout.models.reading import PLAIN, Reading
from leaveout.models.train.columns import TableColumns
from leaveout.models.train.encoding import CategoryColumn
from leaveout.models.train.folder import refuse_taken, write_new
from leaveout.models.train.rows import TableRows, read_rows, test_split

_DEGREE = 3
_MEASURED = ("ridge", "poisson", "gamma")


@dataclass(frozen=True)
class LinearReport:
    """What was fitted.

    Attributes
    ----------
    directory : Path
    kind : str
    rows, features, columns : int
        ``columns`` are those of the design: bins, splines and the intercept included.
    labels : int
        0 of a regression.
    test_accuracy : float or None
        Share of test rows labelled right, in [0, 1].
    test_error, mean_error : float or None
        Of a regression: the mean absolute error on the test rows, and that of always answering the
        mean of the other rows.
    tested : int
        How many test rows.
    held_out : bool
        Whether the test rows are rows of the model too, so that another one, fitted without them,
        was tested.
    quality : Quality or None
    seconds : float
    bounding : float
        Seconds of these in which all models without a row, or a group, were bounded.
    refitted : int
        Members of which the closed form told nothing, so that they were refitted.
    unbounded : int
        Members of which nothing is proved, such as those without a minimum.
    distance : float
        The coefficients' proved distance from the minimum.
    files : tuple of Path
    leaving : int
        How many rows, or groups of them, can leave.
    warnings : tuple of str
        What looks like a mistake in the table.
    group : str
        The column whose equal cells name rows that leave together; empty if each leaves alone.
    """

    directory: Path
    kind: str
    rows: int
    features: int
    columns: int
    labels: int
    test_accuracy: float | None
    test_error: float | None
    mean_error: float | None
    tested: int
    held_out: bool
    quality: Quality | None
    seconds: float
    bounding: float
    refitted: int
    unbounded: int
    distance: float
    files: tuple[Path, ...]
    leaving: int
    warnings: tuple[str, ...] = ()
    group: str = ""


def train_linear(
    source: Path | str,
    directory: Path | str,
    *,
    label: str | None = None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
    reading: Reading = PLAIN,
    kind: str | None = None,
    penalty: float = 1.0,
    bins: int = 0,
    splines: int = 0,
    weights: str = "",
    features: Path | str | None = None,
    test_share: float = 0.2,
) -> LinearReport:
    """Fit a linear model to all rows of a table and write its folder.

    The model minimises the sum of the rows' losses, times their weights, plus ``penalty`` / 2 times
    the sum of the squared coefficients but the intercept's. A table's numbers are scaled to [0, 1]
    and words are one-hot.

    Parameters
    ----------
    source : Path or str
        CSV with a header, or NPZ with ``X_train, y_train`` or ``X, y``.
    directory : Path or str
        Where ``linear.npz``, ``linear.json``, ``linear.spec`` and ``receipt.json`` go; it holds no
        model yet.
    label, identity, units, reading
        As `leaveout.models.train.run` takes them.
    kind : str or None
        ``logistic`` (of more than two labels one against the rest), ``softmax``, ``svm`` (squared
        hinge loss), or for numbers ``ridge`` (least squares), ``poisson``, ``gamma``. None:
        logistic for two labels, softmax for more.
    penalty : float
        At least 0. scikit-learn's ``C`` of `LogisticRegression` is 1 / penalty, its ``alpha`` of
        `Ridge` is the penalty.
    bins, splines : int
        At most one of them: how many bins of about equal counts, or how many knots of cubic splines
        at quantiles, replace each column of numbers with more than two values; 0 for none. With
        fewer distinct values than bins each has its own.
    weights : str
        The column that says how much each row counts.
    features : Path, str or None
        An ONNX network that reads the columns and whose outputs the model reads. It stays fixed.
    test_share : float
        Share of the rows that a second model is fitted without, to measure accuracy; 0: none.
        Where the file has a test part of its own, that is used.

    Raises
    ------
    TrainingError, LinearError
        If the data or the settings cannot be used, there is no minimum or more than one, or the
        folder is taken.
    """
    began, target = time.monotonic(), Path(directory)
    _refuse_settings(kind, penalty, bins, splines, test_share)
    refuse_taken(LINEARS, target)
    rows = read_rows(
        Path(source), label, identity, units, reading, scaled=True, measured=kind in _MEASURED,
        weight=weights,
    )  # fmt: skip
    columns = LinearColumns(**msgspec.structs.asdict(rows.columns), weight=weights)
    network = b""
    if features is not None:
        network = _read_network(Path(features))
        columns = msgspec.structs.replace(columns, network=hashlib.sha256(network).hexdigest())
        parts = {
            name: network_outputs(network, str(features), X)
            for name, X in (("X", rows.X), ("X_test", rows.X_test))
            if X is not None
        }
        rows = replace(rows, **parts)
    plain = columns if not network else msgspec.structs.replace(rows.columns, encoding=None)
    design = _design(rows.X, plain, bins, splines, penalty > 0)
    unfitted = _unfitted(rows, design, kind, penalty, source)
    model = _fitted(unfitted)
    folder = LinearFolder(target, columns, model, None, network).trained()
    bounding = time.monotonic()
    family = bound_members(model)
    bounding = time.monotonic() - bounding
    radii = np.max([part.members.radius for part in family.parts], axis=0)
    refitted = np.unique(np.concatenate([part.members.measured for part in family.parts]))
    tested, cautions = _tested(rows, model, test_share)
    write_new(folder)
    quality = errors = None
    if tested is not None and model.labels:
        quality = Quality.of(tested.answers, tested.y, model.labels)
    elif tested is not None:
        errors = [float(np.abs(each - tested.y).mean()) for each in (tested.answers, tested.mean)]
    assert folder.receipt is not None
    return LinearReport(
        directory=target,
        kind=model.kind,
        rows=len(rows.X),
        features=rows.X.shape[1],
        columns=design.width,
        labels=len(model.labels),
        test_accuracy=None if quality is None else quality.accuracy,
        test_error=None if errors is None else errors[0],
        mean_error=None if errors is None else errors[1],
        tested=0 if tested is None else len(tested.y),
        held_out=rows.X_test is None,
        quality=quality,
        seconds=time.monotonic() - began,
        bounding=bounding,
        refitted=len(refitted),
        unbounded=int((~np.isfinite(radii)).sum()),
        distance=folder.receipt.coefficients,
        files=folder.files,
        leaving=len(family),
        warnings=(*rows.cautions, *cautions, *(() if quality is None else quality.caution)),
        group="" if model.groups is None else model.groups.column,
    )


def _refuse_settings(
    kind: str | None, penalty: float, bins: int, splines: int, test_share: float
) -> None:
    if kind is not None and kind not in get_args(Kind):
        raise LinearError(f"--kind {kind}: expected one of {', '.join(get_args(Kind))}")
    if not 0 <= penalty < np.inf:
        raise LinearError(f"--penalty {penalty:g}: expected a number of at least 0")
    if bins and splines:
        raise LinearError("--bins and --splines: choose one of them")
    for flag, count in (("--bins", bins), ("--splines", splines)):
        if count and count < 2:
            raise LinearError(f"{flag} {count}: expected at least 2, or 0 for none")
    if not 0 <= test_share < 1:
        raise LinearError(
            f"--test-share {test_share:g}: expected a number of at least 0 and below 1"
        )


def _read_network(path: Path) -> bytes:
    try:
        return read_whole(path, MODEL)
    except OSError as error:
        raise LinearError(f"{path}: {why_unread(error)}") from None


def _design(X: Floats, columns: TableColumns, bins: int, splines: int, every: bool) -> Design:
    """Return how features become columns; ``every``: also those that the others imply."""
    words: set[int] = set()
    first = 0
    for column in () if columns.encoding is None else columns.encoding.columns:
        if isinstance(column, CategoryColumn):
            words |= {*range(first, first + len(column.features))}
        first += len(column.features)
    found = []
    for at in range(X.shape[1]):
        values = np.unique(X[:, at])
        if at in words or len(values) <= 2 or not (bins or splines):
            found.append(Column(at))
        elif bins:
            found.append(Column(at, 0, _edges(X[:, at], values, bins), every))
        else:
            inner = np.unique(np.quantile(X[:, at], np.linspace(0, 1, splines)))
            ends = np.repeat(inner[[0, -1]], _DEGREE)
            knots = np.concatenate([ends[:_DEGREE], inner, ends[_DEGREE:]])
            found.append(Column(at, _DEGREE, knots, every))
    count = sum(each.width for each in found)
    return Design(X.shape[1], tuple(found), np.zeros(count), np.ones(count))


def _edges(x: Floats, values: Floats, bins: int) -> Floats:
    """Return edges between distinct values, so that each bin has rows."""
    above = values
    if len(values) > bins:
        shares = np.arange(1, bins) / bins
        above = np.unique(np.quantile(x, shares, method="higher"))
    above = above[above > values[0]]
    above = above if len(above) else values[1:2]
    below = values[np.searchsorted(values, above) - 1]
    middle = below + (above - below) / 2
    # An edge belongs to the bin above it.
    return np.where(middle > below, middle, above)


def _unfitted(
    rows: TableRows, design: Design, kind: str | None, penalty: float, source: Path | str
) -> LinearModel:
    count = len(rows.labels)
    if kind is None:
        kind = "logistic" if count == 2 else "softmax"
    outputs = 1 if not count or (count == 2 and kind != "softmax") else count
    weights = np.ones(len(rows.X)) if rows.weights is None else rows.weights
    y = np.asarray(rows.y, np.float64)
    refuse_unfit(kind, y, weights, lambda row: f"{source}, row {row} of the data")
    penalties = np.full(design.width, float(penalty))
    penalties[-1] = 0.0
    names = np.arange(len(rows.X)) if rows.names is None else rows.names
    return LinearModel(
        kind=kind,  # type: ignore[arg-type]
        design=design,
        coefficients=np.zeros((outputs, design.width)),
        X=rows.X,
        y=y,
        weights=weights,
        penalty=penalties,
        labels=rows.labels,
        names=names,
        next_name=int(names[-1]) + 1 if rows.names is None else rows.listed,
        groups=None if rows.groups is None else Groups(*rows.groups),
    )


def _fitted(model: LinearModel) -> LinearModel:
    return replace(model, coefficients=coefficients_of(model.problems))


@dataclass(frozen=True, eq=False)
class _Tested:
    """Answers to test rows, what is right, and the mean of the rows that were learned from."""

    answers: NDArray[Any]
    y: NDArray[Any]
    mean: float


def _tested(
    rows: TableRows, model: LinearModel, share: float
) -> tuple[_Tested | None, tuple[str, ...]]:
    """Answer the test rows, or rows that another model is fitted without."""
    if rows.X_test is not None and rows.y_test is not None:
        return _answers(model, rows.X_test, rows.y_test, model.y), ()
    out, others = test_split(model.units, share, 0)
    if not len(out) or len(others) < 2:
        return None, ()
    groups = model.groups
    smaller = replace(
        model, X=model.X[others], y=model.y[others], weights=model.weights[others],
        names=model.names[others],
        groups=None if groups is None else replace(groups, cells=groups.cells[others]),
    )  # fmt: skip
    try:
        return _answers(_fitted(smaller), model.X[out], model.y[out], model.y[others]), ()
    except LinearError as error:
        return None, (f"no test accuracy: without the test rows {error}",)


def _answers(model: LinearModel, X: Floats, y: NDArray[Any], learned: Floats) -> _Tested:
    if model.labels:
        return _Tested(model.answers(X), y.astype(np.int64), 0.0)
    scores = model.scores(X)[:, 0]
    found = np.exp(scores) if model.kind in ("poisson", "gamma") else scores
    return _Tested(found, y, float(learned.mean()))
