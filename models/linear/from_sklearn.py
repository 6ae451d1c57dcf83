"""Fitted linear models and pipelines of scikit-learn, with their rows, as linear models."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from leaveout.arrays import Floats, Integers
from leaveout.errors import LinearError
from leaveout.kernel.linear import loss
from leaveout.kernel.model import Groups, Kind, LinearModel
from leaveout.kernel.numbers import Rejected
from leaveout.models.linear.fit import coefficients_of
from leaveout.models.linear.folder import LinearColumns, LinearFolder
from leaveout.models.linear.preprocessing import read_inputs
from leaveout.models.table import is_frame
from leaveout.models.train.folder import write_new

_ESTIMATORS = (
    "LogisticRegression, RidgeClassifier, LinearSVC(loss='squared_hinge'), SGDClassifier("
    "loss='log_loss' or 'squared_hinge'), Ridge, LinearRegression, PoissonRegressor, GammaRegressor"
)
_ROUNDING = 1e-9
_SMALL = 1e-6  # share of the sum of weights up to which no warning is given of a gradient


def from_sklearn(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    served: Literal["estimator", "minimum"] = "estimator",
    tolerance: float | Literal["measured"] = 0.0,
    directory: Path | str | None = None,
) -> LinearModel:
    """Return a fitted linear estimator, alone or last in a pipeline, with its rows.

    Its members are the minima, without each row or group, of the function that the estimator
    minimises, with everything but the rows as it is: the preprocessing, class weights that are
    'balanced', and the penalty. That is alpha times the sum of the weights for `PoissonRegressor`
    and `GammaRegressor`, and times the number of rows for `SGDClassifier`; scikit-learn's own
    refits without a row would lower it.

    The model reads an array as it is. It reads a data frame's numbers as they are, and its words,
    categories and truth values one-hot; where the encoders ignore unknown words, one more feature
    stands for all of these. An imputed number is followed by a mark of whether it was missing.
    `OneHotEncoder` of numbers is read as bins around its categories.

    Parameters
    ----------
    estimator : object
        A fitted estimator, `Pipeline`, or search with a ``best_estimator_``.
    X : array-like of numbers, or pandas DataFrame, shape (rows, features)
        What ``fit`` was given, as are ``y`` and ``sample_weight``.
    y : array-like, shape (rows,) or (rows, outputs)
    sample_weight : array-like, shape (rows,)
    groups : array-like, shape (rows,)
        Whose each row is: rows of equal words leave together.
    served : str
        Whose answers are meant: of the estimator as it is, or of the exact minimum.
    tolerance : float or str
        Members are all coefficients with a gradient of at most this Euclidean norm; ``measured`` is
        the estimator's own (`gradient_norm`).
    directory : Path or str, optional
        A folder to write, as `leaveout linear train` does: the model with the data frame's columns,
        and a specification. With weights of rows or labels, added rows must have a column of them.

    Raises
    ------
    LinearError
        If the estimator or a step is not supported, or answers otherwise than its coefficients do.
    """
    estimator = getattr(estimator, "best_estimator_", estimator)
    steps, last = _flatten(estimator)
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None and is_frame(X):
        lost = [name for name in names if name not in X.columns]
        if lost:
            raise LinearError(f"X has no column {lost[0]!r}: pass the X it was fitted to")
        X = X[list(names)]
    rows, stage, encoding = read_inputs(X, steps, _name(y, "label"))
    fit = _read(last, y, sample_weight, len(rows))
    design = stage.design(rows.shape[1], fit.constant)
    width = design.width - (fit.constant != 0)
    fitted = fit.coefficients.shape[1] - (fit.constant != 0)
    if fitted != width:
        raise LinearError(
            f"{type(last).__name__} was fitted to {fitted} columns, but the "
            f"steps before it make {width}"
        )
    penalty = np.full(design.width, fit.penalty)
    penalty[width:] = fit.penalty if fit.penalised_intercept else 0.0
    cells = None if groups is None else np.array([str(each) for each in groups], np.str_)
    try:
        model = LinearModel(
            kind=fit.kind,
            design=design,
            coefficients=fit.coefficients,
            X=rows,
            y=fit.y,
            weights=fit.weights,
            penalty=penalty,
            labels=fit.labels,
            groups=None if cells is None else Groups(_name(groups, "group"), cells),
        )
        _refuse_disagreement(model, estimator, X)
        gradient = gradient_norm(model)
        wanted = gradient if tolerance == "measured" else float(tolerance)
        model = replace(model, tolerance=wanted)
        if served == "minimum":
            model = replace(model, coefficients=coefficients_of(model.problems, fit.coefficients))
    except Rejected as error:
        raise LinearError(f"{type(last).__name__} cannot be read: {error}") from None
    if gradient > max(wanted, _SMALL * float(fit.weights.sum())):
        warnings.warn(
            f"{type(last).__name__} stopped before its minimum, at a gradient of norm "
            f"{gradient:.2g}: the claims are about exact minima, and its own refits may differ "
            "from them; fit with tol=1e-10 to come close, or cover them by tolerance='measured', "
            "with wider bounds",
            stacklevel=2,
        )
    weighted = getattr(last, "class_weight", None)
    if weighted == "balanced":
        warnings.warn(
            f"{type(last).__name__}(class_weight='balanced'): members keep the weights that the "
            "labels of all rows gave",
            stacklevel=2,
        )
    if directory is not None:
        weight = "" if weighted is sample_weight is None else _name(sample_weight, "weight")
        columns = LinearColumns(source="X", encoding=encoding, weight=weight)
        folder = LinearFolder(Path(directory), columns, model)
        try:
            folder.distances()
        except LinearError as error:
            cure = "" if served == "minimum" else "; or pass served='minimum'"
            raise LinearError(f"{error}{cure}") from None
        write_new(folder)
    return model


def gradient_norm(model: LinearModel) -> float:
    """Return the greatest Euclidean norm of the gradient of a model's fits at its coefficients."""
    most, first = 0.0, 0
    for problem in model.problems:
        theta = model.coefficients[first : first + problem.outputs]
        first += problem.outputs
        gradient = problem.penalty_slope(theta)
        for begin, end, rows in problem.blocks(len(problem.penalty)):
            target, weights = problem.target[begin:end], problem.weights[begin:end]
            each = loss(problem.kind, rows @ theta.T, target, weights, 0.0)
            gradient = gradient + each.slope.T @ rows
        most = max(most, float(np.linalg.norm(gradient)))
    return most


def _flatten(estimator: Any) -> tuple[list[Any], Any]:
    steps: list[Any] = []
    while type(estimator).__name__ == "Pipeline":
        steps += [each for _, each in estimator.steps[:-1]]
        estimator = estimator.steps[-1][1]
    return steps, estimator


def _name(series: Any, otherwise: str) -> str:
    return str(getattr(series, "name", None) or otherwise)


@dataclass(frozen=True, eq=False)
class _Fit:
    """What a fitted estimator minimises, and where it stopped."""

    kind: Kind
    labels: tuple[str, ...]
    y: Floats
    weights: Floats
    penalty: float
    coefficients: Floats
    constant: float
    penalised_intercept: bool


def _read(last: Any, y: Any, sample_weight: Any, rows: int) -> _Fit:
    name = type(last).__name__
    if not type(last).__module__.startswith("sklearn.") or name not in _LOSSES:
        raise LinearError(f"a fitted {name} is not supported; expected {_ESTIMATORS}")
    if not hasattr(last, "coef_"):
        raise LinearError(f"{name} is not fitted: pass estimator.fit(X, y)")
    weights = np.ones(rows) if sample_weight is None else np.asarray(sample_weight, np.float64)
    target = np.asarray(y)
    if weights.shape != (rows,) or len(target) != rows:
        raise LinearError(f"X has {rows} rows: expected a y and a sample_weight for each")
    kind = _LOSSES[name](last)
    coefficients = np.atleast_2d(np.asarray(last.coef_, np.float64))
    labels: tuple[str, ...] = ()
    classes = getattr(last, "classes_", None)
    if classes is not None:
        if target.ndim != 1 or not np.isin(target, classes).all():
            raise LinearError(f"{name} does not have all labels of y: pass the y it was fitted to")
        labels = tuple(map(str, classes.tolist()))
        target = np.searchsorted(classes, target)
        weights = weights * _class_weights(last, target, sample_weight, len(coefficients))
        if kind == "logistic" and len(coefficients) > 1 and name == "LogisticRegression":
            kind = "softmax"
    # Whose intercept is one more column, as liblinear has it.
    is_column = name == "LinearSVC" or getattr(last, "solver", "") == "liblinear"
    constant = 0.0
    if last.fit_intercept:
        constant = float(last.intercept_scaling) if is_column else 1.0
        intercept = np.broadcast_to(np.asarray(last.intercept_, np.float64), len(coefficients))
        coefficients = np.column_stack([coefficients, intercept / constant])
    return _Fit(
        kind, labels, np.asarray(target, np.float64), weights, _penalty(last, weights),
        np.ascontiguousarray(coefficients), constant, is_column,
    )  # fmt: skip


def _penalty(last: Any, weights: Floats) -> float:
    name = type(last).__name__
    if hasattr(last, "C"):
        return 1.0 / float(last.C) if getattr(last, "penalty", "l2") is not None else 0.0
    if name == "LinearRegression":
        return 0.0
    alphas = np.unique(last.alpha)
    if len(alphas) != 1:
        raise LinearError(f"{name} has an alpha for each output: fit one model for each")
    alpha = float(alphas[0])
    if name in ("PoissonRegressor", "GammaRegressor"):
        return alpha * float(weights.sum())
    if name == "SGDClassifier":
        return alpha * len(weights) if last.penalty is not None else 0.0
    return alpha


def _class_weights(last: Any, codes: Integers, sample_weight: Any, outputs: int) -> Floats:
    """Return by how much the weight of each row's label multiplies that of the row."""
    given = getattr(last, "class_weight", None)
    name = type(last).__name__
    if given is None:
        return np.ones(len(codes))
    if outputs > 1 and name in ("LinearSVC", "SGDClassifier"):
        raise LinearError(
            f"{name} weights only one label of each fit by class_weight: pass sample_weight instead"
        )
    if isinstance(given, str):
        if sample_weight is not None:
            raise LinearError(
                f"{name}(class_weight='balanced') with sample_weight: multiply the weights "
                "yourself, and pass class_weight=None"
            )
        counts = np.bincount(codes, minlength=len(last.classes_))
        return np.asarray((len(codes) / (len(counts) * np.maximum(counts, 1)))[codes])
    return np.array([given.get(each, 1.0) for each in last.classes_.tolist()], np.float64)[codes]


def _logistic(last: Any) -> Kind:
    if getattr(last, "penalty", "l2") not in ("l2", None, "deprecated") or last.l1_ratio:
        raise LinearError("LogisticRegression with an l1 penalty has kinks: use l1_ratio=0")
    if getattr(last, "multi_class", "auto") not in ("auto", "multinomial", "deprecated"):
        raise LinearError("LogisticRegression(multi_class='ovr'): use multi_class='multinomial'")
    if len(last.classes_) == 2 and getattr(last, "multi_class", "auto") == "multinomial":
        raise LinearError("LogisticRegression(multi_class='multinomial') on two labels: use 'auto'")
    return "logistic"


def _support_vectors(last: Any) -> Kind:
    if last.loss != "squared_hinge" or last.penalty != "l2" or last.multi_class != "ovr":
        raise LinearError(
            f"LinearSVC(loss={last.loss!r}, penalty={last.penalty!r}): use loss='squared_hinge', "
            "penalty='l2' and multi_class='ovr'"
        )
    return "svm"


def _sgd(last: Any) -> Kind:
    kinds: dict[str, Kind] = {"log_loss": "logistic", "squared_hinge": "svm"}
    if last.loss not in kinds or last.penalty not in ("l2", None):
        raise LinearError(
            f"SGDClassifier(loss={last.loss!r}, penalty={last.penalty!r}): use loss='log_loss' or "
            "'squared_hinge', and penalty='l2'"
        )
    return kinds[last.loss]


def _least_squares(last: Any) -> Kind:
    if getattr(last, "positive", False):
        raise LinearError(
            f"{type(last).__name__}(positive=True) is constrained: use positive=False"
        )
    return "ridge"


_LOSSES: dict[str, Callable[[Any], Kind]] = {
    "LogisticRegression": _logistic,
    "LinearSVC": _support_vectors,
    "SGDClassifier": _sgd,
    "Ridge": _least_squares,
    "RidgeClassifier": _least_squares,
    "LinearRegression": _least_squares,
    "PoissonRegressor": lambda last: "poisson",
    "GammaRegressor": lambda last: "gamma",
}


def _refuse_disagreement(model: LinearModel, estimator: Any, X: Any) -> None:
    """Raise if an estimator answers its rows otherwise than the model read from it."""
    own = model.raw_scores(model.X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on names of columns
        if model.labels:
            theirs = np.asarray(estimator.decision_function(X), np.float64)
        else:
            theirs = np.asarray(estimator.predict(X), np.float64)
    if model.kind in ("poisson", "gamma"):
        theirs = np.log(theirs)
    theirs = theirs.reshape(own.shape)
    wrong = ~(np.abs(own - theirs) <= _ROUNDING * (1.0 + np.abs(theirs).max()))
    if wrong.any():
        row = int(np.argmax(wrong.any(axis=1)))
        raise LinearError(
            f"{type(estimator).__name__} scores row {row} as {theirs[row].max():.6g}, but its "
            f"coefficients give {own[row].max():.6g}: pass the X it was fitted to, as float64"
        )
