"""Fitted scikit-learn estimators as ONNX models, rounded to float32 once."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.onnx.reader import TREES
from leaveout.models.replay import session
from leaveout.models.train.own.convert import OF_TREES, refuse_disagreement
from leaveout.models.train.own.preprocessing import Probes, dense

Array = NDArray[np.floating]

_KINDS = (
    "MLPClassifier, linear classifiers such as LogisticRegression, "
    "and pipelines of scalers, encoders and imputers before one of them"
)
_ROUNDED = (
    "float32 cannot hold its numbers: subtract a typical number from each column, or pass a data "
    "frame with raw=True"
)
_ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh", "logistic": "Sigmoid"}
_CLEAR = 1e-3
"""Share of the largest score by which a score must lead to decide the label with certainty."""
_LOST = 0.01  # share of the rows whose label float32 rounding may change
_OPSET = 17
_IR_VERSION = 8


def estimator_model(
    estimator: Any, points: NDArray[np.float32], labels: int, name: str, raw: Probes | None = None
) -> onnx.ModelProto:
    """Convert a fitted classifier, preprocessing included, to ONNX with a score per label."""
    # A decision function of one number z becomes the scores 0 and z.
    from sklearn.pipeline import Pipeline

    search, estimator = estimator, getattr(estimator, "best_estimator_", estimator)
    *steps, last = _flatten(estimator) if isinstance(estimator, Pipeline) else [estimator]
    kind = type(last).__name__
    if any(word in kind for word in OF_TREES):
        raise TrainingError(f"{name}: fit returned a {kind}: {TREES}")
    for each in (search, estimator, last):
        _refuse_own_methods(each, name)
    layers = _layers(last, name)
    if steps or raw is not None:
        weight, bias = (Probes.of_array(points) if raw is None else raw).fold(steps, name)
        first, shift = layers[0]
        layers[0] = first @ weight, shift + first @ bias
    known = np.asarray(getattr(last, "classes_", ())).tolist()
    if known != list(range(labels)):
        raise TrainingError(
            f"{name}: {type(last).__name__} has the labels {known}, expected 0 to {labels - 1}: "
            "fit it on the y passed to fit, in which every label has a row"
        )
    if labels == 2:
        weight, bias = layers[-1]
        layers[-1] = (np.vstack([0 * weight, weight]), np.concatenate([0 * bias, bias]))
    graph = _Graph()
    for index, (weight, bias) in enumerate(layers):
        graph.dense(index, weight, bias)
        if index < len(layers) - 1 and last.activation != "identity":
            graph.activation(index, _ACTIVATIONS[last.activation])
    model = graph.model(points.shape[1], labels)
    given = points if raw is None else raw.rows.iloc[: len(points)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on categories that a member does not know
        if hasattr(estimator, "decision_function"):
            refuse_disagreement(
                model, points, lambda: _decision(estimator, given, labels), name, cure=_ROUNDED
            )
        else:
            refuse_disagreement(
                model,
                points,
                lambda: estimator.predict_proba(given),
                name,
                of=_softmax,
                cure=_ROUNDED,
            )
        _refuse_own_labels(np.asarray(estimator.predict(given)), estimator, model, points, name)
    return model


def _flatten(pipeline: Any) -> list[Any]:
    """Return the steps of a pipeline that do something, nested ones in line at its end."""
    steps = [each for _, each in pipeline.steps if each not in (None, "passthrough")] or [None]
    return [*steps[:-1], *_flatten(steps[-1])] if type(steps[-1]) is type(pipeline) else steps


def _refuse_own_methods(estimator: Any, name: str) -> None:
    """Raise if an estimator answers in another way than scikit-learn's of its kind."""
    for method in ("predict", "decision_function", "predict_proba", "transform"):
        found = getattr(type(estimator), method, None)
        home = getattr(found, "__module__", None) or ""
        if method in vars(estimator) or (found is not None and not home.startswith("sklearn.")):
            raise TrainingError(
                f"{name}: {type(estimator).__name__} has a {method} of its own, which the network "
                "would not follow: return an estimator with scikit-learn's"
            )


def _refuse_own_labels(
    own: NDArray[Any],
    estimator: Any,
    model: onnx.ModelProto,
    points: NDArray[np.float32],
    name: str,
) -> None:
    """Raise if an estimator's label differs from that of its highest score."""
    scores = session(model, name).run(None, {"x": points})[0].astype(np.float64)
    above = np.sort(scores, axis=1)
    clear = above[:, -1] - above[:, -2] > _CLEAR * (1 + np.abs(above).max(axis=1))
    wrong = clear & (own != scores.argmax(axis=1))
    if wrong.any():
        raise TrainingError(
            f"{name}: {type(estimator).__name__} labels row {int(wrong.argmax())} differently "
            "from its scores: return an estimator with scikit-learn's own predict"
        )
    lost = int(np.count_nonzero(own != scores.argmax(axis=1)))
    if lost > 1 + _LOST * len(own):
        raise TrainingError(
            f"{name}: in float32 its network labels {lost:,} of {len(own):,} rows differently, "
            "since some numbers are far greater than what tells rows apart: look at each "
            "column's least and greatest number, and replace stand-ins for gaps such as -1e9 by NaN"
        )


def _decision(estimator: Any, given: Any, labels: int) -> Array:
    found = np.asarray(estimator.decision_function(given), dtype=np.float64)
    return np.stack([0 * found, found], axis=1) if labels == 2 else found


def _softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Array = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _layers(estimator: Any, name: str) -> list[tuple[Array, Array]]:
    """Return weights of shape (outputs, inputs), and biases."""
    from sklearn.linear_model._base import LinearClassifierMixin
    from sklearn.neural_network import MLPClassifier

    kind = type(estimator).__name__
    if isinstance(estimator, MLPClassifier):
        _require(estimator, "coefs_", name)
        if estimator.out_activation_ == "logistic" and estimator.n_outputs_ > 1:
            raise TrainingError(f"{name}: {kind} was fitted on several labels per row: fit it on y")
        return [
            (np.asarray(weight).T, np.asarray(bias))
            for weight, bias in zip(estimator.coefs_, estimator.intercepts_, strict=True)
        ]
    if isinstance(estimator, LinearClassifierMixin):
        _require(estimator, "coef_", name)
        weight = np.asarray(dense(estimator.coef_))
        weight = weight if weight.ndim == 2 else weight[None]
        bias = np.broadcast_to(np.asarray(estimator.intercept_, weight.dtype), len(weight))
        return [(weight, bias)]
    if kind == "CalibratedClassifierCV":
        raise TrainingError(
            f"{name}: CalibratedClassifierCV averages sigmoids, which is not piecewise linear: "
            "return the classifier in it without calibration"
        )
    raise TrainingError(
        f"{name}: a fitted {kind} is not a supported network; expected {_KINDS}; for others, "
        "return an ONNX model"
    )


def _require(estimator: Any, attribute: str, name: str) -> None:
    if not hasattr(estimator, attribute):
        raise TrainingError(
            f"{name}: {type(estimator).__name__} is not fitted: return estimator.fit(X, y)"
        )


class _Graph:
    """Builder of nodes of a model."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._values: list[onnx.TensorProto] = []
        self._current = "x"

    def dense(self, index: int, weight: Array, bias: Array) -> None:
        names = [f"layers.{index}.weight", f"layers.{index}.bias"]
        values = [self._value(n, v) for n, v in zip(names, (weight, bias), strict=True)]
        self._node("Gemm", values, f"layers.{index}.value", transB=1)

    def activation(self, index: int, operator: str) -> None:
        self._node(operator, [], f"layers.{index}.{operator.lower()}")

    def model(self, features: int, labels: int) -> onnx.ModelProto:
        helper, kind = onnx.helper, onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            self._nodes,
            "network",
            [helper.make_tensor_value_info("x", kind, ["batch", features])],
            [helper.make_tensor_value_info(self._current, kind, ["batch", labels])],
            self._values,
        )
        opset = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(
            graph, opset_imports=opset, ir_version=_IR_VERSION, producer_name="leaveout"
        )

    def _node(self, operator: str, values: list[str], output: str, **attributes: Any) -> None:
        inputs = [self._current, *values]
        self._nodes.append(onnx.helper.make_node(operator, inputs, [output], **attributes))
        self._current = output

    def _value(self, name: str, value: Array) -> str:
        with np.errstate(over="ignore"):
            rounded = np.ascontiguousarray(value, dtype=np.float32)
        self._values.append(onnx.numpy_helper.from_array(rounded, name))
        return name
