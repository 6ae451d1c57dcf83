"""Fitting a linear model to a table, into a folder ready to verify."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Bools, Floats
from leaveout.errors import LinearError
from leaveout.files import MODEL, read_whole, refuse_unread
from leaveout.kernel.design import Column, Design
from leaveout.kernel.family import Family
from leaveout.kernel.model import Groups, Kind, LinearModel
from leaveout.models.linear.family import bound_members
from leaveout.models.linear.fit import coefficients_of, with_rows
from leaveout.models.linear.folder import (
    LINEARS,
    TREES,
    LinearColumns,
    LinearFolder,
    frozen_features,
    refuse_unfit,
)
from leaveout.models.quality import Quality
from leaveout.models.reading import PLAIN, Reading
from leaveout.models.train.encoding import CategoryColumn
from leaveout.models.train.folder import refuse_taken, write_new
from leaveout.models.train.rows import TableRows, read_rows, test_split
from leaveout.models.trees.reading import is_library_text

EVERY = 5
"""Of so many rows one chooses trees."""

SHAPE = {
    "max_depth": 3, "num_leaves": 8, "min_data_in_leaf": 10, "learning_rate": 0.25,
    "feature_fraction": 0.6,
}  # fmt: skip
"""LightGBM's settings: small leaves and few features a tree make trees that differ."""


def boost(rows: TableRows, trees: int) -> tuple[bytes, TableRows]:
    """Train trees; return LightGBM's text and the rows that had no part in them.

    Which rows choose depends on their numbers alone: 0, 5, 10, ...; a group has the number of its
    first row. So no other row or group changes a tree by its absence.
    """
    chosen = _choosers(rows)
    for part, does in ((chosen, "chooses the trees"), (~chosen, "is left to fit the model to")):
        missing = np.setdiff1d(np.arange(len(rows.labels)), rows.y[part])
        if len(missing):
            raise LinearError(
                f"--trees: no row with the label {rows.labels[missing[0]]!r} {does}; shuffle the "
                "rows, or train without --trees"
            )
    return _train(rows, chosen, trees), _without(rows, chosen)


def _choosers(rows: TableRows) -> Bools:
    numbers = np.arange(len(rows.X)) if rows.names is None else rows.names
    if rows.groups is not None:
        _, first, group = np.unique(rows.groups[1], return_index=True, return_inverse=True)
        numbers = numbers[first][group]
    return np.asarray(numbers % EVERY == 0)


def _train(rows: TableRows, chosen: Bools, trees: int) -> bytes:
    try:
        import lightgbm
    except ImportError:
        raise LinearError(
            "--trees: lightgbm is not installed; pip install lightgbm, or pass a file of trees to "
            "--features"
        ) from None
    labels = len(rows.labels)
    goal = (
        {"objective": "binary"} if labels == 2 else {"objective": "multiclass", "num_class": labels}
    )
    weights = None if rows.weights is None else rows.weights[chosen]
    settings = {
        **SHAPE, **goal, "num_threads": 1, "seed": 0, "deterministic": True,
        "force_row_wise": True, "verbose": -1,
    }  # fmt: skip
    data = lightgbm.Dataset(rows.X[chosen], rows.y[chosen], weight=weights)
    return str(lightgbm.train(settings, data, trees).model_to_string()).encode()


def _without(rows: TableRows, gone: Bools) -> TableRows:
    kept = ~gone
    return replace(
        rows,
        X=rows.X[kept],
        y=rows.y[kept],
        names=np.flatnonzero(kept) if rows.names is None else rows.names[kept],
        listed=len(rows.X) if rows.names is None else rows.listed,
        groups=None if rows.groups is None else (rows.groups[0], rows.groups[1][kept]),
        weights=None if rows.weights is None else rows.weights[kept],
    )


_DEGREE = 3
_MEASURED = ("ridge", "poisson", "gamma")


@dataclass(frozen=True, eq=False)
class Tested:
    """Answers to test rows.

    Attributes
    ----------
    answers, y : ndarray, shape (rows,)
        Numbers of labels, or numbers to predict.
    labels : tuple of str
    mean : float
        Of what the model learned from.
    held_out : bool
        Whether another model was tested, fitted without these rows of the model's own.
    """

    answers: NDArray[Any]
    y: NDArray[Any]
    labels: tuple[str, ...]
    mean: float
    held_out: bool

    @cached_property
    def quality(self) -> Quality | None:
        """How well labels are answered; None if numbers are predicted."""
        return Quality.of(self.answers, self.y, self.labels) if self.labels else None

    @property
    def errors(self) -> tuple[float, float]:
        """The mean absolute error, and that of always answering the mean."""
        return float(np.abs(self.answers - self.y).mean()), float(np.abs(self.mean - self.y).mean())


@dataclass(frozen=True, eq=False)
class LinearReport:
    """What was fitted.

    Attributes
    ----------
    folder : LinearFolder
        What was written: the model with its columns, and how near it is to the minimum.
    family : Family
        All members, bounded.
    tested : Tested or None
    seconds : float
    bounding : float
        Seconds of these in which all members were bounded.
    warnings : tuple of str
        What looks like a mistake in the table.
    """

    folder: LinearFolder
    family: Family
    tested: Tested | None
    seconds: float
    bounding: float
    warnings: tuple[str, ...]

    @property
    def refits(self) -> int:
        """How many members were refitted, as their closed form tells nothing."""
        return len(np.unique(np.concatenate([p.members.measured for p in self.family.parts])))

    @property
    def without_bound(self) -> int:
        """Of how many members nothing is proved, such as of those without a minimum."""
        radii = np.max([part.members.radius for part in self.family.parts], axis=0)
        return int((~np.isfinite(radii)).sum())


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
    trees: int = 0,
    test_share: float = 0.2,
    warn: Callable[[tuple[str, ...]], object] = lambda warnings: None,
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
        scikit-learn's ``C`` of `LogisticRegression` is 1 / penalty, its ``alpha`` of `Ridge` the
        penalty.
    bins, splines : int
        At most one of them: how many bins of about equal counts, or how many knots of cubic splines
        at quantiles, replace each column of numbers with more than two values; 0 for none. With
        fewer distinct values than bins each has its own.
    weights : str
        The column that says how much each row counts.
    features : Path, str or None
        An ONNX network that reads the columns and whose outputs the model reads, or a file of
        trees, whose leaves and scores it reads. It stays fixed.
    trees : int
        How many trees LightGBM trains for that on the rows 0, 5, 10, ... of the table, with their
        groups; the model is fitted to the others, and has no other rows. 0 for none.
    test_share : float
        Share of the rows that a second model is fitted without, to measure accuracy; 0: none.
        Where the file has a test part of its own, that is used.
    warn : callable
        Is told before the fit what looks like a mistake in the table.

    Raises
    ------
    TrainingError, LinearError
        If the data or the settings cannot be used, there is no minimum or more than one, or the
        folder is taken.
    """
    began, target = time.monotonic(), Path(directory)
    LINEARS.expect(
        ("kind", kind, kind in (None, *get_args(Kind)), f"one of {', '.join(get_args(Kind))}"),
        ("penalty", penalty, 0 <= penalty < np.inf, "a number of at least 0"),
        ("bins", bins, bins == 0 or bins >= 2, "at least 2, or 0 for none"),
        ("splines", splines, splines == 0 or splines >= 2, "at least 2, or 0 for none"),
        ("splines", splines, not (bins and splines), "0, as --bins is set"),
        ("trees", trees, trees >= 0, "at least 1, or 0 for none"),
        ("trees", trees, not (trees and features), "0, as --features is set"),
        ("trees", trees, not (trees and (bins or splines)), "0, as --bins or --splines is set"),
        ("trees", trees, not (trees and kind in _MEASURED), f"0, as --kind is {kind}"),
    )
    LINEARS.expect_share(test_share)
    refuse_taken(LINEARS, target)
    rows = read_rows(
        Path(source), label, identity, units, reading, scaled=True, measured=kind in _MEASURED,
        weight=weights,
    )  # fmt: skip
    warn(rows.cautions)
    columns = LinearColumns(**msgspec.structs.asdict(rows.columns), weight=weights)
    network, where = b"", TREES
    if features is not None:
        where = str(features)
        with refuse_unread(LinearError, features):
            network = read_whole(Path(features), MODEL)
    elif trees:
        network, rows = boost(rows, trees)
    if network:
        kept = "trees" if is_library_text(network) else "network"
        columns = msgspec.structs.replace(columns, **{kept: hashlib.sha256(network).hexdigest()})
        rows = replace(rows, X=frozen_features(network, where, rows.X))
        if rows.X_test is not None:
            rows = replace(rows, X_test=frozen_features(network, where, rows.X_test))
    design = _design(rows.X, columns, bins, splines, penalty > 0)
    model = _fit(_start(rows, design, kind, penalty, source))
    folder = LinearFolder(target, columns, model, network)
    bounding = time.monotonic()
    family = bound_members(model)
    bounding = time.monotonic() - bounding
    tested, cautions = _test(rows, model, test_share)
    if tested is not None and tested.quality is not None:
        cautions += tested.quality.caution
    folder = write_new(folder)
    seconds = time.monotonic() - began
    return LinearReport(folder, family, tested, seconds, bounding, (*rows.cautions, *cautions))


def _design(X: Floats, columns: LinearColumns, bins: int, splines: int, every: bool) -> Design:
    """Return how features become columns; ``every``: also those that the others imply."""
    words: set[int] = set()
    for column, own in columns.encoding.layout if columns.encoding and not columns.frozen else ():
        words |= {*range(own.start, own.stop)} if isinstance(column, CategoryColumn) else set()
    found = []
    for at, x in enumerate(X.T):
        values = np.unique(x)
        if at in words or len(values) <= 2 or not (bins or splines):
            found.append(Column(at))
        elif bins:
            found.append(Column(at, 0, _edges(x, values, bins), every))
        else:
            inner = np.unique(np.quantile(x, np.linspace(0, 1, splines)))
            knots = np.pad(inner, _DEGREE, mode="edge")
            found.append(Column(at, _DEGREE, knots, every))
    count = sum(each.width for each in found)
    return Design(X.shape[1], tuple(found), np.zeros(count), np.ones(count))


def _edges(x: Floats, values: Floats, bins: int) -> Floats:
    """Return edges between distinct values, so that each bin has rows."""
    above = values
    if len(values) > bins:
        above = np.unique(np.quantile(x, np.arange(1, bins) / bins, method="higher"))
    above = above[above > values[0]]
    above = above if len(above) else values[1:2]
    below = values[np.searchsorted(values, above) - 1]
    middle = below + (above - below) / 2
    # An edge belongs to the bin above it.
    return np.asarray(np.where(middle > below, middle, above))


def _start(
    rows: TableRows, design: Design, kind: str | None, penalty: float, source: Path | str
) -> LinearModel:
    count = len(rows.labels)
    if kind is None:
        kind = "logistic" if count == 2 else "softmax"
    weights = np.ones(len(rows.X)) if rows.weights is None else rows.weights
    y = np.asarray(rows.y, np.float64)
    refuse_unfit(kind, y, weights, lambda row: f"{source}, row {row} of the data")
    outputs = 1 if not count or (count == 2 and kind != "softmax") else count
    penalties = np.append(np.full(design.width - 1, float(penalty)), 0.0)
    return LinearModel(
        kind=kind,  # type: ignore[arg-type]
        design=design,
        coefficients=np.zeros((outputs, design.width)),
        X=rows.X,
        y=y,
        weights=weights,
        penalty=penalties,
        labels=rows.labels,
        names=np.arange(len(rows.X)) if rows.names is None else rows.names,
        next_name=0 if rows.names is None else rows.listed,
        groups=None if rows.groups is None else Groups(*rows.groups),
    )


def _fit(model: LinearModel) -> LinearModel:
    return replace(model, coefficients=coefficients_of(model.problems))


def _test(
    rows: TableRows, model: LinearModel, share: float
) -> tuple[Tested | None, tuple[str, ...]]:
    """Answer the test rows, or rows that another model is fitted without."""
    if rows.X_test is not None and rows.y_test is not None:
        return _answers(model, rows.X_test, rows.y_test, held_out=False), ()
    out, others = test_split(model.units, share, 0)
    if not len(out) or len(others) < 2:
        return None, ()
    try:
        return _answers(_fit(with_rows(model, others)), model.X[out], model.y[out], True), ()
    except LinearError as error:
        return None, (f"no test accuracy: without the test rows {error}",)


def _answers(model: LinearModel, X: Floats, y: NDArray[Any], held_out: bool) -> Tested:
    mean = float(model.y.mean())
    if model.labels:
        return Tested(model.answers(X), y.astype(np.int64), model.labels, mean, held_out)
    scores = model.scores(X)[:, 0]
    found = np.exp(scores) if model.kind in ("poisson", "gamma") else scores
    return Tested(found, y, (), mean, held_out)
