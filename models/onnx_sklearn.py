"""scikit-learn's scalers and linear models in ONNX, written as arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from leaveout.errors import ModelError
from leaveout.models.replay import session

Floats = NDArray[np.float32]

_KINDS = {"Scaler", "LinearClassifier", "LinearRegressor"}
_PROBABILITIES = {b"NONE": "", b"LOGISTIC": "Sigmoid", b"SOFTMAX": "Softmax"}
_NEAR = 1e-5
"""Allowed difference of probabilities, relative and absolute: far above rounding."""


def is_linear(node: onnx.NodeProto) -> bool:
    """Return whether a node is a scaler or a linear model."""
    return node.domain == "ai.onnx.ml" and node.op_type in _KINDS


def write_out(model: onnx.ModelProto, where: str) -> None:
    """Rewrite scalers and linear models in place as sums and products, each checked."""
    nodes = list(model.graph.node)
    taken = {name for each in nodes for name in (*each.output, *each.input)}
    del model.graph.node[:]
    for node in nodes:
        if not is_linear(node):
            model.graph.node.append(node)
            continue
        if node.op_type == "Scaler":
            made, constants, output = _scaler(node), _scaler_parameters(node), node.output[0]
        else:
            made, constants, output = _linear(node), _matrices(node), node.output[-1]
        if taken.intersection((*constants, *(each.output[0] for each in made[:-1]))):
            raise ModelError(f"{where}: tensors are named as parts of its node {node.name!r}")
        stored = [numpy_helper.from_array(value, name) for name, value in constants.items()]
        _check(node, made, stored, output, where)
        model.graph.initializer.extend(stored)
        model.graph.node.extend(made)


def _scaler_parameters(node: onnx.NodeProto) -> dict[str, Floats]:
    """Return the offset and scale of a scaler as named arrays."""
    given = {each.name: list(each.floats) for each in node.attribute}
    target = node.output[0]
    return {
        f"{target}/{name}": np.asarray(given.get(name, []), np.float32)
        for name in ("offset", "scale")
    }


def _scaler(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    target = node.output[0]
    centred = f"{target}/centred"
    return [
        helper.make_node("Sub", [node.input[0], f"{target}/offset"], [centred]),
        helper.make_node("Mul", [centred, f"{target}/scale"], [target], name=node.name),
    ]


def _matrices(node: onnx.NodeProto) -> dict[str, Floats]:
    given = {each.name: list(each.floats) for each in node.attribute}
    intercepts = np.asarray(given.get("intercepts", []), np.float32)
    coefficients = np.asarray(given.get("coefficients", []), np.float32)
    rows = max(1, len(intercepts))
    target = node.output[-1]
    fits = coefficients.size % rows == 0
    return {
        f"{target}/coefficients": coefficients.reshape(rows if fits else 1, -1).T.copy(),
        f"{target}/intercepts": intercepts,
    }


def _linear(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    target = node.output[-1]
    product, total = f"{target}/product", f"{target}/scores"
    transforms = [each.s for each in node.attribute if each.name == "post_transform"]
    last = _PROBABILITIES.get(transforms[0] if transforms else b"NONE", "Identity")
    made = [
        helper.make_node("MatMul", [node.input[0], f"{target}/coefficients"], [product]),
        helper.make_node("Add", [product, f"{target}/intercepts"], [total if last else target]),
    ]
    if last:
        axis: dict[str, Any] = {"axis": 1} if last == "Softmax" else {}
        made.append(helper.make_node(last, [total], [target], name=node.name, **axis))
    return made


def _check(
    node: onnx.NodeProto,
    made: list[onnx.NodeProto],
    stored: list[TensorProto],
    output: str,
    where: str,
) -> None:
    """Compare a node in onnxruntime with its replacement; a scaler bit for bit."""
    width = max((item.dims[0] for item in stored if item.dims), default=1)
    points = np.random.default_rng(0).normal(size=(64, max(1, width))).astype(np.float32)
    try:
        first, second = (
            _run(nodes, stored, node.input[0], output, points, where) for nodes in ([node], made)
        )
    except ModelError:
        first, second = np.zeros(1, np.float32), np.ones(1, np.float32)
    near = 0.0 if node.op_type == "Scaler" else _NEAR
    if first.shape != second.shape or not np.allclose(first, second, rtol=near, atol=near):
        raise ModelError(
            f"{where}: node {node.name!r} ({node.op_type}) is not the sums and products that it "
            "should be; export it anew with the newest skl2onnx"
        )


def _run(
    nodes: list[onnx.NodeProto],
    stored: list[TensorProto],
    source: str,
    output: str,
    points: Floats,
    where: str,
) -> Floats:
    used = {name for each in nodes for name in each.input}
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info(source, TensorProto.FLOAT, [None, points.shape[1]])],
        [onnx.ValueInfoProto(name=output)],
        [item for item in stored if item.name in used],
    )
    imports = [helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    try:
        (found,) = session(model, where).run(None, {source: points})
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(str(error)) from None
    return np.asarray(found)
