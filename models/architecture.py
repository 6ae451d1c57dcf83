"""A hash shared by all networks that differ only in parameter values."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import onnx
from onnx import numpy_helper

from leaveout.models.onnx_signature import DOMAINS, dimensions
from leaveout.models.onnx_values import read_parameters

_USUAL = [["", 17]]
"""The opset that is left out: hashes of networks that ``leaveout train`` writes are as ever."""

_STATED = "2:"
"""Before a hash that a family states; without it opsets may have been left out of any."""


def architecture_hash(model: onnx.ModelProto) -> str:
    """Return the SHA-256 of a network's graph and parameter shapes, without values.

    Names of intermediate tensors and of nodes do not matter; names of parameters do, and so do the
    opsets by which operators are read, and whose operators they are.
    """
    parts = _parts(model)
    opsets = sorted([_domain(item.domain), item.version] for item in model.opset_import)
    if opsets != _USUAL or any(_domain(node.domain) for node in model.graph.node):
        parts += [opsets, [_domain(node.domain) for node in model.graph.node]]
    return _hash(parts)


def earlier_hash(model: onnx.ModelProto) -> str:
    """Return the hash of earlier versions, which ignored opsets."""
    return _hash(_parts(model))


def stated_architecture(hashed: str) -> str:
    """Return the architecture that a family states for its members."""
    return f"{_STATED}{hashed}"


def is_of_architecture(stated: str, model: onnx.ModelProto) -> bool:
    """Return whether a network has the architecture that a family states.

    Families of earlier versions state hashes that ignore opsets.
    """
    hashed = architecture_hash(model)
    if stated.startswith(_STATED):
        return stated == stated_architecture(hashed)
    return stated in (hashed, earlier_hash(model))


def _hash(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _domain(name: str) -> str:
    """Return the canonical name of a domain; ONNX's own has two."""
    return "" if name in DOMAINS else name


def _parts(model: onnx.ModelProto) -> list[Any]:
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
    return [nodes, shapes, outputs]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value).tolist()
    return value if isinstance(value, (int, float, str)) else [_plain(item) for item in value]
