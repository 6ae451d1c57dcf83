"""ONNX models as plain JSON data, and how onnxruntime computes them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from leaveout.models.graph import Graph

from attacks.kind import Case

__all__ = ["TYPES", "NotRunError", "Runtime", "model_of", "numbers", "tensor"]

TYPES: dict[str, int] = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "bool": TensorProto.BOOL,
}


def numbers(values: NDArray[Any]) -> list[Any]:
    """Write numbers as JSON has them: what is not finite as a word."""
    if values.dtype.kind != "f":
        return [int(value) for value in values.reshape(-1)]
    return [float(v) if math.isfinite(v) else str(float(v)) for v in values.reshape(-1)]


def tensor(values: Any, kind: str = "float32") -> dict[str, Any]:
    """Write a constant: its type, shape and numbers, one number if all are the same."""
    array = np.asarray(values)
    if array.dtype.kind == "U":
        # Numbers of another case, of which some are words.
        array = array.astype(np.float64)
    data = numbers(array)
    return {"type": kind, "shape": list(array.shape), "data": data}


def _proto(name: str, given: dict[str, Any]) -> onnx.TensorProto:
    values = np.array([float(value) for value in given["data"]])
    whole = given["type"].startswith(("int", "uint", "bool"))
    with np.errstate(all="ignore"):
        if whole:
            exact = [int(value) if math.isfinite(float(value)) else 0 for value in given["data"]]
            values = np.array(exact, dtype=np.int64)
        array = values.astype(helper.tensor_dtype_to_np_dtype(TYPES[given["type"]]))
    return numpy_helper.from_array(array.reshape(given["shape"]), name)


def _attribute(name: str, value: Any) -> onnx.AttributeProto:
    if isinstance(value, dict):
        return helper.make_attribute(name, _proto("value", value))
    if value == []:
        return helper.make_attribute(name, [], attr_type=onnx.AttributeProto.INTS)
    if isinstance(value, str) and value in {"nan", "inf", "-inf"}:
        value = float(value)
    return helper.make_attribute(name, value)


def _node(given: dict[str, Any]) -> onnx.NodeProto:
    node = helper.make_node(
        given["op"], given["inputs"], given["outputs"], domain=given.get("domain", "")
    )
    node.attribute.extend(_attribute(*item) for item in given["attributes"].items())
    return node


def model_of(case: Case) -> onnx.ModelProto:
    """Assemble the model of a case.

    Parameters
    ----------
    case : dict
        With "opset", "nodes" (op, inputs, outputs, attributes, domain), "constants" (by name, see
        `tensor`), "inputs" and "outputs" (name, type, shape; None where it is not known), and
        "overridable", the constants that are inputs of the graph as well.
    """

    def info(name: str, kind: str, shape: list[int | str | None] | None) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TYPES[kind], shape)

    constants = [_proto(name, given) for name, given in case["constants"].items()]
    also = [
        helper.make_tensor_value_info(item.name, item.data_type, list(item.dims))
        for item in constants
        if item.name in case["overridable"]
    ]
    graph = helper.make_graph(
        [_node(given) for given in case["nodes"]],
        "case",
        [*(info(*given) for given in case["inputs"]), *also],
        [info(*given) for given in case["outputs"]],
        constants,
    )
    opset = helper.make_opsetid("", case["opset"])
    return helper.make_model(graph, opset_imports=[opset], ir_version=9)


class NotRunError(Exception):
    """What onnxruntime does not run."""


class Runtime:
    """One model in onnxruntime, with all its optimisations or with none.

    Parameters
    ----------
    model : onnx.ModelProto
    graph : Graph
        That was read, which names the tensor to read.
    is_optimised : bool

    Raises
    ------
    NotRunError
        Here, or when asked for scores.
    """

    def __init__(self, model: onnx.ModelProto, graph: Graph, is_optimised: bool) -> None:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        del copy.graph.output[:]
        given = helper.make_tensor_value_info(graph.score_tensor, TensorProto.FLOAT, None)
        copy.graph.output.append(given)
        self._number = bool(graph.number)
        self._bare = graph.input in graph.bare, graph.score_tensor in graph.bare
        levels = onnxruntime.GraphOptimizationLevel
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = (
            levels.ORT_ENABLE_ALL if is_optimised else levels.ORT_DISABLE_ALL
        )
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            self._session = onnxruntime.InferenceSession(
                copy.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise NotRunError(str(error)) from None
        self._name = self._session.get_inputs()[0].name

    def scores(self, samples: NDArray[np.float32]) -> NDArray[np.float64]:
        """Scores of samples, each asked by itself, as rows."""
        return np.concatenate([self.together(each[None]) for each in samples])

    def together(self, samples: NDArray[np.float32]) -> NDArray[np.float64]:
        """Scores of samples that are asked as one batch."""
        without, scores_without = self._bare
        try:
            found: NDArray[Any] = self._session.run(
                None, {self._name: samples[0] if without else samples}
            )[0]
        except Exception as error:
            raise NotRunError(str(error)) from None
        scores = (found[None] if scores_without else found).astype(np.float64)
        if scores.ndim > 2 and len(scores) == len(samples):
            scores = scores.reshape(len(scores), -1)
        if self._number and scores.size == len(samples):
            # One number, beside which the other score is 0.
            scores = np.stack([np.zeros(len(samples)), scores.reshape(-1)], axis=1)
        return scores
