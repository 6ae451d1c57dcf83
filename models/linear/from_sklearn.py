"""Fitted linear models and pipelines of scikit-learn, with their rows, as linear models."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy import linalg

from leaveout.arrays import Floats, Integers
from leaveout.errors import LinearError, cause
from leaveout.kernel.design import Column, Design
from leaveout.kernel.linear import loss
from leaveout.kernel.model import Groups, Kind, LinearModel
from leaveout.kernel.numbers import Rejected
from leaveout.models.linear.fit import coefficients_of

_ESTIMATORS = (
    "LogisticRegression, RidgeClassifier, LinearSVC(loss='squared_hinge'), SGDClassifier("
    "loss='log_loss' or 'squared_hinge'), Ridge, LinearRegression, PoissonRegressor, GammaRegressor"
)
_STEPS = (
    "StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, SplineTransformer, "
    "KBinsDiscretizer, OneHotEncoder, PCA, VarianceThreshold, SelectKBest, ColumnTransformer, "
    "Pipeline"
)
_ROUNDING = 1e-9
_SMALL = 1e-6
"""Share of the sum of weights up to which no warning is given of a gradient."""


def from_sklearn(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    served: Literal["estimator", "minimum"] = "estimator",
    tolerance: float | Literal["measured"] = 0.0,
) -> LinearModel:
    """Return a fitted linear estimator, alone or last in a pipeline, with its rows.

    Its members are the minima, without each row or group, of the function that the estimator
    minimises, with everything but the rows as it is: the preprocessing, class weights that are
    'balanced', and the penalty. That is alpha times the sum of the weights for `PoissonRegressor`
    and `GammaRegressor`, and times the number of rows for `SGDClassifier`; scikit-learn's own
    refits without a row would lower it. `OneHotEncoder` is read as bins around its categories,
    which must be numbers.

    Parameters
    ----------
    estimator : object
        A fitted estimator, `Pipeline`, or search with a ``best_estimator_``.
    X : array-like of numbers, shape (rows, features)
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

    Raises
    ------
    LinearError
        If the estimator or a step is not supported, or answers otherwise than its coefficients do.
    """
    estimator = getattr(estimator, "best_estimator_", estimator)
    steps, last = _flatten(estimator)
    rows = _numbers(X)
    stage = _Stage.of([*map(Column, range(rows.shape[1]))])
    for step in steps:
        stage = _apply(stage, step)
    fit = _read(last, y, sample_weight, len(rows))
    design = Design(
        rows.shape[1], stage.columns, stage.shift, stage.scale, stage.mix, stage.offset,
        fit.constant,
    )  # fmt: skip
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
            groups=None if cells is None else Groups(_name(groups), cells),
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
            f"{type(last).__name__} stopped at a gradient of norm {gradient:.2g}, so refits of "
            "its kind may differ from the minima that members are: set a lower tol, or "
            "tolerance='measured'",
            stacklevel=2,
        )
    return model


def gradient_norm(model: LinearModel) -> float:
    """Return the greatest Euclidean norm of the gradient of a model's fits at its coefficients."""
    most, first = 0.0, 0
    for problem in model.problems:
        theta = model.coefficients[first : first + problem.outputs]
        first += problem.outputs
        gradient = problem.penalised(theta)
        for begin, end, rows in problem.blocks(len(problem.penalty)):
            target, weights = problem.target[begin:end], problem.weights[begin:end]
            each = loss(problem.kind, rows @ theta.T, target, weights, 0.0)
            gradient = gradient + each.slope.T @ rows
        most = max(most, float(np.linalg.norm(gradient)))
    return most


@dataclass(frozen=True, eq=False)
class _Stage:
    """What some steps make of the inputs; see `Design`."""

    columns: tuple[Column, ...]
    shift: Floats
    scale: Floats
    mix: Floats | None = None
    offset: Floats | None = None

    @staticmethod
    def of(columns: Sequence[Column]) -> _Stage:
        """Return columns as they are."""
        count = sum(each.width for each in columns)
        return _Stage(tuple(columns), np.zeros(count), np.ones(count))

    @property
    def width(self) -> int:
        """The number of values."""
        return len(self.shift) if self.mix is None else self.mix.shape[1]

    def scale_by(self, shift: Any, scale: Any) -> _Stage:
        """Return (values - shift) / scale; None leaves them."""
        shift = np.zeros(self.width) if shift is None else np.asarray(shift, np.float64)
        scale = np.ones(self.width) if scale is None else np.asarray(scale, np.float64)
        if self.mix is None or self.offset is None:
            moved = self.shift + self.scale * shift
            return _Stage(self.columns, moved, self.scale * scale)
        offset = (self.offset - shift) / scale
        return _Stage(self.columns, self.shift, self.scale, self.mix / scale, offset)

    def mix_by(self, mix: Floats, offset: Floats) -> _Stage:
        """Return values @ mix + offset."""
        if self.mix is not None and self.offset is not None:
            mix, offset = self.mix @ mix, self.offset @ mix + offset
        return _Stage(self.columns, self.shift, self.scale, mix, offset)

    def choose(self, places: Integers) -> _Stage:
        """Return some of the values."""
        if self.mix is None and all(each.width == 1 for each in self.columns):
            columns = tuple(self.columns[at] for at in places.tolist())
            return _Stage(columns, self.shift[places], self.scale[places])
        return self.mix_by(np.eye(self.width)[:, places], np.zeros(len(places)))

    def plain(self, step: Any) -> list[int]:
        """Return the inputs that the values are; raise if they are changed."""
        raw = self.mix is None and all(each.knots is None for each in self.columns)
        if not raw or np.any(self.shift != 0) or np.any(self.scale != 1):
            kind = type(step).__name__
            raise LinearError(f"{kind} follows a step that changes its columns: put {kind} first")
        return [each.at for each in self.columns]

    @staticmethod
    def join(parts: Sequence[_Stage]) -> _Stage:
        """Return the values of all parts."""
        mix = offset = None
        if any(each.mix is not None for each in parts):
            blocks = [np.eye(each.width) if each.mix is None else each.mix for each in parts]
            mix = linalg.block_diag(*blocks)
            offset = np.concatenate(
                [np.zeros(each.width) if each.offset is None else each.offset for each in parts]
            )
        return _Stage(
            tuple(column for each in parts for column in each.columns),
            np.concatenate([each.shift for each in parts]),
            np.concatenate([each.scale for each in parts]),
            mix,
            offset,
        )


def _apply(stage: _Stage, step: Any) -> _Stage:
    """Return what a fitted step makes of values."""
    if step is None or step == "passthrough":
        return stage
    kind = type(step).__name__
    if not type(step).__module__.startswith("sklearn.") or "transform" in vars(step):
        raise LinearError(f"the step {kind} is not scikit-learn's; apply it to X beforehand")
    read = _READERS.get(kind)
    if read is None:
        raise LinearError(
            f"the step {kind} is not supported; expected {_STEPS}; apply it to X beforehand"
        )
    try:
        return read(stage, step)
    except AttributeError as error:
        raise LinearError(f"the step {kind} is not fitted ({cause(error)}): fit it") from None
    except Rejected as error:
        raise LinearError(f"the step {kind} cannot be read: {error}; change its settings") from None


def _pipeline(stage: _Stage, step: Any) -> _Stage:
    for _, each in step.steps:
        stage = _apply(stage, each)
    return stage


def _column_transformer(stage: _Stage, step: Any) -> _Stage:
    parts = []
    for name, each, _ in step.transformers_:
        places = np.asarray(step._transformer_to_input_indices[name], np.int64)
        if isinstance(each, str) and each == "drop":
            continue
        if len(places):
            parts.append(_apply(stage.choose(places), each))
    if not parts:
        raise LinearError("ColumnTransformer leaves no column")
    return _Stage.join(parts)


def _function(stage: _Stage, step: Any) -> _Stage:
    if step.func is not None:
        raise LinearError("FunctionTransformer: apply its function to X beforehand")
    return stage


def _min_max(stage: _Stage, step: Any) -> _Stage:
    if step.clip:
        raise LinearError("MinMaxScaler(clip=True) is not supported: use clip=False")
    return stage.scale_by(-step.min_ / step.scale_, 1.0 / step.scale_)


def _robust(stage: _Stage, step: Any) -> _Stage:
    return stage.scale_by(
        step.center_ if step.with_centering else None, step.scale_ if step.with_scaling else None
    )


def _pca(stage: _Stage, step: Any) -> _Stage:
    found = stage.mix_by(step.components_.T, -step.mean_ @ step.components_.T)
    return found.scale_by(None, np.sqrt(step.explained_variance_)) if step.whiten else found


def _splines(stage: _Stage, step: Any) -> _Stage:
    if step.extrapolation not in ("constant", "error") or not 1 <= step.degree <= 5:
        raise LinearError(
            "SplineTransformer: expected extrapolation='constant' and a degree of 1 to 5"
        )
    bases = zip(stage.plain(step), step.bsplines_, strict=True)
    return _Stage.of(
        [Column(at, step.degree, np.asarray(each.t), step.include_bias) for at, each in bases]
    )


def _bins(stage: _Stage, step: Any) -> _Stage:
    if not step.encode.startswith("onehot"):
        raise LinearError(
            f"KBinsDiscretizer(encode={step.encode!r}) is not supported: use encode='onehot'"
        )
    columns = []
    for at, edges in zip(stage.plain(step), step.bin_edges_, strict=True):
        if len(edges) < 3:
            raise LinearError(f"KBinsDiscretizer makes one bin of column {at}: drop the column")
        columns.append(Column(at, 0, np.asarray(edges[1:-1], np.float64)))
    return _Stage.of(columns)


def _one_hot(stage: _Stage, step: Any) -> _Stage:
    columns, kept, first = [], [], 0
    dropped = [None] * len(step.categories_) if step.drop_idx_ is None else step.drop_idx_
    for at, known, gone in zip(stage.plain(step), step.categories_, dropped, strict=True):
        infrequent = getattr(step, "_infrequent_enabled", False)
        if known.dtype.kind not in "fiub" or len(known) < 2 or infrequent:
            raise LinearError(
                f"OneHotEncoder, column {at}: expected at least 2 categories that are numbers, "
                "none of them infrequent; leaveout linear train reads tables with words"
            )
        known = np.asarray(known, np.float64)
        columns.append(Column(at, 0, known[:-1] + np.diff(known) / 2))
        kept += [first + k for k in range(len(known)) if gone is None or k != int(gone)]
        first += len(known)
    found = _Stage.of(columns)
    return found if len(kept) == first else found.choose(np.array(kept))


_Reader = Callable[[_Stage, Any], _Stage]

_READERS: dict[str, _Reader] = {
    "Pipeline": _pipeline,
    "ColumnTransformer": _column_transformer,
    "FunctionTransformer": _function,
    "StandardScaler": lambda stage, step: stage.scale_by(
        step.mean_ if step.with_mean else None, step.scale_
    ),
    "MinMaxScaler": _min_max,
    "MaxAbsScaler": lambda stage, step: stage.scale_by(None, step.scale_),
    "RobustScaler": _robust,
    "PCA": _pca,
    "SplineTransformer": _splines,
    "KBinsDiscretizer": _bins,
    "OneHotEncoder": _one_hot,
    "VarianceThreshold": lambda stage, step: stage.choose(step.get_support(indices=True)),
    "SelectKBest": lambda stage, step: stage.choose(step.get_support(indices=True)),
}


def _flatten(estimator: Any) -> tuple[list[Any], Any]:
    """Return the steps before an estimator, and the estimator."""
    steps: list[Any] = []
    while type(estimator).__name__ == "Pipeline":
        steps += [each for _, each in estimator.steps[:-1]]
        estimator = estimator.steps[-1][1]
    return steps, estimator


def _numbers(X: Any) -> Floats:
    try:
        found = np.ascontiguousarray(X, np.float64)
    except (TypeError, ValueError) as error:
        raise LinearError(
            f"X is not an array of numbers ({cause(error)}): encode words as numbers; leaveout "
            "linear train reads tables with words"
        ) from None
    if found.ndim != 2 or not np.isfinite(found).all():
        raise LinearError(f"X has shape {found.shape}; expected finite numbers, (rows, features)")
    return found


def _name(groups: Any) -> str:
    return str(getattr(groups, "name", None) or "group")


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
    """Read a fitted estimator."""
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
