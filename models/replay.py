"""Replay through onnxruntime, for the float32 scores that a user's own program would see."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import numpy_helper

from leaveout.errors import ModelError
from leaveout.models.graph import Graph


def with_parameters(
    model: onnx.ModelProto, parameters: Mapping[str, NDArray[np.floating]]
) -> onnx.ModelProto:
    """Copy a model and replace the values of some initialisers."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for item in copy.graph.initializer:
        if item.name in parameters:
            dtype = numpy_helper.to_array(item).dtype
            # Scalars stay scalars.
            value = np.asarray(parameters[item.name], dtype=dtype, order="C")
            item.CopyFrom(numpy_helper.from_array(value, item.name))
    return copy


def session(
    model: onnx.ModelProto, where: str, *, optimised: bool = True
) -> onnxruntime.InferenceSession:
    """Open a model in onnxruntime, on one CPU thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        raise ModelError(f"{where}: onnxruntime cannot load the model: {one_line(error)}") from None


def one_line(error: Exception) -> str:
    """Return the first line of an onnxruntime error; the rest concerns its own source code."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class Runner:
    """A network in onnxruntime, on one CPU thread."""

    def __init__(self, model: onnx.ModelProto, graph: Graph, where: str) -> None:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        output = graph.score_tensor
        if output != copy.graph.output[0].name:
            del copy.graph.output[:]
            copy.graph.output.append(
                onnx.helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)
            )
        self._session, self._where = session(copy, where), where
        first = self._session.get_inputs()[0]
        self._input = first.name
        self._output = [self._session.get_outputs()[0].name]
        try:
            self._one_at_a_time = graph.input in graph.bare or first.shape[0] == 1
        except UnicodeDecodeError:
            raise ModelError(f"{where}: the name of its batch axis is not text") from None
        self._shape, self._number = graph.input_shape, bool(graph.number)
        self._bare = graph.input in graph.bare, output in graph.bare

    def scores(self, points: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return scores in float32."""
        samples = np.asarray(points, dtype=np.float32).reshape(-1, *self._shape)
        scores = self._of(samples)
        if self._number and scores.size == len(samples):
            flat = scores.reshape(-1, 1)
            return np.concatenate([np.zeros_like(flat), flat], axis=1)
        # Axes of size 1 that remain of an image.
        flat_too = scores.ndim > 2 and len(scores) == len(samples)
        return scores.reshape(len(scores), -1) if flat_too else scores

    def _of(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        if not (self._one_at_a_time and len(samples)):
            return self._run(samples)
        # A model may return no row; the caller sees that from the shape.
        parts = [np.atleast_1d(self._run(samples[i : i + 1])) for i in range(len(samples))]
        return np.concatenate(parts)

    def _run(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        without, scores_without = self._bare
        if without:
            batch = batch[0]
        try:
            found: NDArray[np.generic] = self._session.run(self._output, {self._input: batch})[0]
        except Exception as error:
            # onnxruntime reports some unsupported operators only at run time.
            why = one_line(error)
            raise ModelError(f"{self._where}: onnxruntime cannot run the model: {why}") from None
        scores = found.astype(np.float32, copy=False)
        return scores[None] if scores_without else scores
