"""Members as ONNX: linear models and networks directly, others through skl2onnx."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.models.votes.features import Encoder

if TYPE_CHECKING:
    import onnx


_OPSET = 17
_MOST_SAID = 200
_NEVER = -1e30  # score of labels absent in the member's training


@dataclass(frozen=True)
class Exported:
    """A member's model, or the reason for its absence."""

    content: bytes  # an ONNX file; empty if it could not be written
    reason: str = ""  # reason; empty if written
    differing: int = 0

    @classmethod
    def of(cls, model: onnx.ModelProto, encoder: Encoder, differing: int) -> Exported:
        """Serialise a model together with the encoding of a table's columns."""
        if encoder.columns:
            columns = msgspec.json.encode(msgspec.to_builtins(encoder.columns)).decode()
            entry = model.metadata_props.add()
            entry.key, entry.value = "columns", columns
        return cls(model.SerializeToString(deterministic=True), "", differing)


def export_constant(width: int, encoder: Encoder, label: int, labels: int) -> Exported:
    """Write a member that always votes for the same label."""
    bias = np.zeros(labels)
    bias[label] = 1
    return Exported.of(_dense([(np.zeros((labels, width)), bias)], "Relu"), encoder, 0)


def export_model(
    model: Any,
    encoder: Encoder,
    tests: NDArray[np.int64],
    scores: NDArray[np.float32],  # shape (points, labels)
    chunk: int,
) -> Exported:
    """Write a fitted classifier and replay it on the test rows."""
    labels = scores.shape[1]
    written = _write_network(model, labels)
    if written is None:
        converted = _convert_model(model, encoder.width)
        if isinstance(converted, str):
            return Exported(b"", converted)
        written = converted
    try:
        answers = _answers(written, encoder, tests, chunk, np.asarray(model.classes_))
    except Exception as error:  # onnxruntime's errors share no narrower base class
        return Exported(b"", f"onnxruntime cannot run it: {_short(error)}")
    return Exported.of(written, encoder, int((answers != scores.argmax(axis=1)).sum()))


def _write_network(model: Any, labels: int) -> onnx.ModelProto | None:
    """Return a plain network, or None for any other classifier."""
    scaler, classifier = (model[0], model[-1]) if hasattr(model, "steps") else (None, model)
    seen = np.asarray(classifier.classes_, dtype=np.int64)
    activation = "Relu"
    if hasattr(classifier, "coefs_") and hasattr(classifier, "intercepts_"):
        names = {"relu": "Relu", "tanh": "Tanh", "logistic": "Sigmoid", "identity": "Identity"}
        activation = names[classifier.activation]
        layers = [
            (weight.T.astype(np.float64), bias.astype(np.float64))
            for weight, bias in zip(classifier.coefs_, classifier.intercepts_, strict=True)
        ]
    elif _is_linear(classifier):
        weight = np.asarray(classifier.coef_, dtype=np.float64)
        bias = np.broadcast_to(np.asarray(classifier.intercept_, dtype=np.float64), len(weight))
        layers = [(weight, bias)]
    else:
        return None
    last, bias = layers[-1]
    if len(last) == 1 and len(seen) == 2:
        last, bias = np.vstack([-last, last]), np.concatenate([-bias, bias])
    if len(last) != len(seen):
        return None
    outputs, shifts = np.zeros((labels, last.shape[1])), np.full(labels, _NEVER)
    outputs[seen], shifts[seen] = last, bias
    layers[-1] = (outputs, shifts)
    if scaler is not None:
        first, bias = layers[0]
        first = first / scaler.scale_
        layers[0] = (first, bias - first @ scaler.mean_)
    return _dense(layers, activation)


def _is_linear(classifier: Any) -> bool:
    coefficients = getattr(classifier, "coef_", None)
    return (
        hasattr(classifier, "decision_function")
        and hasattr(classifier, "intercept_")
        and isinstance(coefficients, np.ndarray)
        and coefficients.ndim == 2
        and getattr(classifier, "kernel", "linear") == "linear"
        and not hasattr(classifier, "support_vectors_")
    )


def _dense(
    layers: list[tuple[NDArray[np.float64], NDArray[np.float64]]], activation: str
) -> onnx.ModelProto:
    from leaveout.models.train.architecture import Dense
    from leaveout.models.train.export import network_model

    parameters = {
        f"layers.{index}.{name}": np.ascontiguousarray(value, dtype=np.float32)
        for index, pair in enumerate(layers)
        for name, value in zip(("weight", "bias"), pair, strict=True)
    }
    dense = tuple(Dense(weight.shape[1], weight.shape[0]) for weight, _ in layers)
    return network_model(dense, parameters, activation)


def _convert_model(model: Any, width: int) -> onnx.ModelProto | str:
    """Return skl2onnx's model, or the reason for its absence."""
    try:
        skl2onnx = import_module("skl2onnx")
        types = import_module("skl2onnx.common.data_types")
    except ImportError:
        return "skl2onnx is not installed (pip install 'leaveout[export]')"
    name = type(model[-1] if hasattr(model, "steps") else model).__name__
    try:
        converted: onnx.ModelProto = skl2onnx.convert_sklearn(
            model,
            name="member",
            initial_types=[("x", types.FloatTensorType([None, width]))],
            options={"zipmap": False},
            target_opset={"": _OPSET, "ai.onnx.ml": 3},
        )
    except Exception as error:  # each converter fails in its own way
        return f"skl2onnx cannot convert {name}: {_short(error)}"
    return converted


def _answers(
    model: onnx.ModelProto,
    encoder: Encoder,
    tests: NDArray[np.int64],
    chunk: int,
    seen: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the model's labels of test rows, from scores or as skl2onnx returns them."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    outputs = [each.name for each in session.get_outputs()]
    answers = []
    for first in range(0, len(tests), chunk):
        X = encoder(tests[first : first + chunk]).astype(np.float32)
        values = session.run(outputs[-1:], {"x": X})[0]
        if outputs == ["scores"]:
            answers.append(values.argmax(axis=1))
        elif values.ndim == 2 and values.shape[1] == len(seen):
            answers.append(seen[values.argmax(axis=1)])
        else:
            answers.append(np.asarray(session.run(outputs[:1], {"x": X})[0], dtype=np.int64))
    return np.concatenate(answers)


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:_MOST_SAID]
