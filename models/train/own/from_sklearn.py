"""Fitted scikit-learn estimators as ONNX models, rounded to float32 once."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.onnx.reader import TREES
from leaveout.models.replay import session
from leaveout.models.train.own.convert import refuse_disagreement

Array = NDArray[np.floating]

_KINDS = (
    "MLPClassifier (activation relu or identity), linear classifiers such as LogisticRegression, "
    "and pipelines of StandardScaler or MinMaxScaler before one of them"
)
_OF_TREES = ("Forest", "Tree", "Boost", "XGB", "LGBM")
"""Words in the names of classifiers that are trees."""
_CLEAR = 1e-3
"""Share of the largest score by which a score must lead to decide the label with certainty."""
_OPSET = 17
_IR_VERSION = 8


def estimator_model(
    estimator: Any, points: NDArray[np.float32], labels: int, name: str
) -> onnx.ModelProto:
    """Convert a fitted classifier to an ONNX model with one score per label.

    Scores are the decision function or the softmax's input; 0 and z for two labels with one number
    z.
    """
    from sklearn.pipeline import Pipeline

    steps = [("", estimator)]
    if isinstance(estimator, Pipeline):
        steps = [each for each in estimator.steps if each[1] not in {None, "passthrough"}] or steps
    graph = _Graph(name)
    for _, scaler in steps[:-1]:
        _scale(graph, scaler, name)
    last = steps[-1][1]
    layers = _layers(last, name)
    known = np.asarray(getattr(last, "classes_", ())).tolist()
    if known != list(range(labels)):
        raise TrainingError(
            f"{name}: {type(last).__name__} has the labels {known}, expected 0 to {labels - 1}: "
            "fit it on the y passed to fit, in which every label has a row"
        )
    if labels == 2:
        weight, bias = layers[-1]
        layers[-1] = (np.vstack([0 * weight, weight]), np.concatenate([0 * bias, bias]))
    for index, (weight, bias) in enumerate(layers):
        graph.dense(index, weight, bias)
        if index < len(layers) - 1 and last.activation == "relu":
            graph.relu(index)
    model = graph.model(points.shape[1], labels)
    if hasattr(estimator, "decision_function"):
        refuse_disagreement(model, points, lambda: _decision(estimator, points, labels), name)
    else:
        refuse_disagreement(
            model, points, lambda: estimator.predict_proba(points), name, of=_softmax
        )
    _refuse_own_labels(estimator, model, points, name)
    return model


def _refuse_own_labels(
    estimator: Any, model: onnx.ModelProto, points: NDArray[np.float32], name: str
) -> None:
    """Raise if an estimator's label differs from that of its highest score."""
    scores = session(model, name).run(None, {"x": points})[0].astype(np.float64)
    above = np.sort(scores, axis=1)
    clear = above[:, -1] - above[:, -2] > _CLEAR * (1 + np.abs(above).max(axis=1))
    own = np.asarray(estimator.predict(points))
    wrong = clear & (own != scores.argmax(axis=1))
    if wrong.any():
        raise TrainingError(
            f"{name}: {type(estimator).__name__} labels row {int(wrong.argmax())} differently "
            "from its scores: return an estimator with scikit-learn's own predict"
        )


def _decision(estimator: Any, points: Array, labels: int) -> Array:
    found = np.asarray(estimator.decision_function(points), dtype=np.float64)
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
        if estimator.activation not in {"relu", "identity"}:
            raise TrainingError(
                f"{name}: MLPClassifier(activation={estimator.activation!r}) is not supported: "
                "use activation='relu'"
            )
        _require(estimator, "coefs_", name)
        if estimator.out_activation_ == "logistic" and estimator.n_outputs_ > 1:
            raise TrainingError(f"{name}: {kind} was fitted on several labels per row: fit it on y")
        return [
            (np.asarray(weight).T, np.asarray(bias))
            for weight, bias in zip(estimator.coefs_, estimator.intercepts_, strict=True)
        ]
    if isinstance(estimator, LinearClassifierMixin):
        _require(estimator, "coef_", name)
        weight = np.asarray(estimator.coef_)
        weight = weight if weight.ndim == 2 else weight[None]
        bias = np.broadcast_to(np.asarray(estimator.intercept_, weight.dtype), len(weight))
        return [(weight, bias)]
    if any(word in kind for word in _OF_TREES):
        raise TrainingError(f"{name}: fit returned a {kind}: {TREES}")
    raise TrainingError(
        f"{name}: a fitted {kind} is not a supported network; expected {_KINDS}; for others, "
        "return an ONNX model"
    )


def _scale(graph: _Graph, scaler: Any, name: str) -> None:
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    kind = type(scaler).__name__
    if isinstance(scaler, StandardScaler):
        _require(scaler, "n_features_in_", name)
        if scaler.mean_ is not None and scaler.with_mean:
            graph.affine("Sub", scaler.mean_)
        if scaler.scale_ is not None:
            graph.affine("Div", scaler.scale_)
    elif isinstance(scaler, MinMaxScaler):
        _require(scaler, "scale_", name)
        if scaler.clip:
            raise TrainingError(f"{name}: MinMaxScaler(clip=True) is not supported: use clip=False")
        graph.affine("Mul", scaler.scale_)
        graph.affine("Add", scaler.min_)
    else:
        raise TrainingError(
            f"{name}: the pipeline's step {kind} is not supported; expected {_KINDS}; apply it "
            "to X beforehand, or return an ONNX model"
        )


def _require(estimator: Any, attribute: str, name: str) -> None:
    if not hasattr(estimator, attribute):
        raise TrainingError(
            f"{name}: {type(estimator).__name__} is not fitted: return estimator.fit(X, y)"
        )


class _Graph:
    """Builder of nodes of a model."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[onnx.NodeProto] = []
        self._values: list[onnx.TensorProto] = []
        self._current = "x"

    def affine(self, operator: str, value: Any) -> None:
        """Add an elementwise operator with one number per feature."""
        index = len(self._nodes)
        if operator == "Div" and not np.asarray(value, dtype=np.float32).all():
            raise TrainingError(f"{self._name}: a feature's scale is 0 in float32; rescale X")
        self._node(operator, [self._value(f"scaler.{index}", np.asarray(value))], f"scaled.{index}")

    def dense(self, index: int, weight: Array, bias: Array) -> None:
        names = [f"layers.{index}.weight", f"layers.{index}.bias"]
        values = [self._value(n, v) for n, v in zip(names, (weight, bias), strict=True)]
        self._node("Gemm", values, f"layers.{index}.value", transB=1)

    def relu(self, index: int) -> None:
        self._node("Relu", [], f"layers.{index}.relu")

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
