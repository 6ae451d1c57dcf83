"""One hash for all networks that differ in the values of their parameters only."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import onnx
from onnx import numpy_helper

from leaveout.models.onnx_signature import dimensions
from leaveout.models.onnx_values import read_parameters

__all__ = ["architecture_hash"]


def architecture_hash(model: onnx.ModelProto) -> str:
    """SHA-256 of a network's graph and parameter shapes, without the values of the parameters.

    Names of intermediate tensors and of nodes do not matter; names of parameters do.
    """
    parameters = read_parameters(model)
    alias: dict[str, str] = {name: f"parameter {name}" for name in parameters}
    for item in model.graph.initializer:
        if item.name not in parameters:
            alias[item.name] = f"value {numpy_helper.to_array(item).tolist()}"
    for value in model.graph.input:
        alias.setdefault(value.name, f"input {dimensions(value)[1:]}")
    nodes = []
    for i, node in enumerate(model.graph.node):
        attributes = sorted(
            (a.name, _plain(onnx.helper.get_attribute_value(a))) for a in node.attribute
        )
        nodes.append([node.op_type, attributes, [alias.get(name, "") for name in node.input]])
        alias.update({name: f"node {i} output {j}" for j, name in enumerate(node.output)})
    shapes = {name: list(array.shape) for name, array in parameters.items()}
    outputs = [alias.get(item.name, "") for item in model.graph.output]
    text = json.dumps([nodes, shapes, outputs], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value).tolist()
    return value if isinstance(value, (int, float, str)) else [_plain(item) for item in value]
