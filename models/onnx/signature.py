"""Inputs, outputs and opset of an ONNX model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container
from typing import Any

import onnx
from onnx import numpy_helper

from leaveout.errors import ModelError
from leaveout.models.onnx.operators import Shape
from leaveout.models.onnx.outlines import is_outlined
from leaveout.models.onnx.rewrites import Last
from leaveout.models.onnx.use import DOMAINS, OPSETS
from leaveout.models.onnx.values import read_parameters

MOST_AXES = 8  # most axes of a tensor

_COPIES = {"Cast", "Identity"}
_SHAPES = {*_COPIES, "Flatten", "Reshape", "Squeeze", "Unsqueeze"}
"""Operators whose output has the same numbers as the input, perhaps in another shape."""


def dimensions(item: onnx.ValueInfoProto) -> list[int | None]:
    """Return the declared sizes of an input or output; None for sizes that are not fixed."""
    dims = item.type.tensor_type.shape.dim
    return [int(d.dim_value) if d.HasField("dim_value") else None for d in dims]


def opset_of(model: onnx.ModelProto, where: str) -> int:
    """Return the model's opset, if supported; refuse models with local functions."""
    found = {item.version for item in model.opset_import if item.domain in DOMAINS}
    if len(found) != 1 or not found <= set(OPSETS):
        versions = " and ".join(str(version) for version in sorted(found)) or "none"
        raise ModelError(
            f"{where}: the model's opset is {versions}; supported opsets are {OPSETS[0]} to "
            f"{OPSETS[-1]}: export it again with one of them (opset_version=17 in "
            "torch.onnx.export), or convert an older one with onnx.version_converter"
        )
    others = [each for each in model.functions if not is_outlined(each)]
    if others:
        raise ModelError(
            f"{where}: the model defines its own functions ({others[0].name!r}); inline "
            "them with onnx.inliner.inline_local_functions"
        )
    return found.pop()


def only_output(model: onnx.ModelProto, where: str) -> str:
    """Return the name of the single output: float32 scores, or labels by ArgMax."""
    if not model.graph.output:
        raise ModelError(f"{where}: the model has no output; export the scores")
    (item, *others) = model.graph.output
    makers = {node.output[0]: node for node in model.graph.node if node.output}
    maker = makers.get(item.name)
    while maker is not None and maker.op_type in _SHAPES and maker.input:
        maker = makers.get(maker.input[0])
    # The labels alone: read as the scores before.
    if not (maker and maker.op_type == "ArgMax") and item.type.tensor_type.elem_type not in {
        onnx.TensorProto.FLOAT,
        onnx.TensorProto.UNDEFINED,
    }:
        raise ModelError(
            f"{where}: output {item.name!r} is not float32; export the scores of a float32 model"
        )
    if others:
        names = ", ".join(repr(each.name) for each in model.graph.output)
        raise ModelError(
            f"{where}: the model has several outputs ({names}); export only the scores"
        )
    return item.name


def only_input(
    model: onnx.ModelProto, values: Container[str], where: str
) -> tuple[str, Shape, bool | None]:
    """Return the single input, its sample shape, and whether its batch is one sample.

    The last is None if there is no batch axis.
    """
    # An initialiser may also be an input, as a default that callers can replace: claims are about
    # the file's values.
    inputs = [item for item in model.graph.input if item.name not in values]
    if len(inputs) != 1:
        named = onnx.TensorProto.DataType.Name
        kinds = [(item.name, named(item.type.tensor_type.elem_type).lower()) for item in inputs]
        other = [f"{name!r} is {own}" for name, own in kinds if own != "float"]
        names = ", ".join(repr(name) for name, _ in kinds)
        raise ModelError(
            f"{where}: the model has {len(inputs)} inputs ({names}); several are read as "
            "the columns of one if each is float32 of shape [batch, ...], any batch or 1"
            f"{f' ({other[0]})' if other else ''}: export them so, with words encoded before"
        )
    item = inputs[0]
    if item.type.tensor_type.elem_type != onnx.TensorProto.FLOAT:
        kind = onnx.TensorProto.DataType.Name(item.type.tensor_type.elem_type).lower()
        cure = (
            (
                "export a float32 model (in torch, model.float(); in skl2onnx, to_onnx(model, "
                "X[:1].astype('float32')))"
            )
            if kind in {"double", "float16", "bfloat16"}
            else "feed one-hot encoded categories to a dense layer instead of an embedding"
        )
        raise ModelError(f"{where}: input {item.name!r} is {kind}, expected float32: {cure}")
    if len(dimensions(item)) == 1 and (dimensions(item)[0] or 0) > 0:
        return item.name, (dimensions(item)[0] or 0,), None
    batch, *rest = dimensions(item) or [None]
    if not rest or any(n is None or n < 1 for n in rest) or len(rest) >= MOST_AXES:
        raise ModelError(
            f"{where}: input {item.name!r} has shape {dimensions(item)}; expected [batch, ...] "
            f"with every size except the batch's known, and at most {MOST_AXES} axes; export it "
            "with a sample of the right shape and only the batch axis dynamic"
        )
    if batch not in {None, 1}:
        raise ModelError(
            f"{where}: the model is exported for batches of {batch}; export it with a dynamic "
            "batch axis, or a batch of 1"
        )
    return item.name, tuple(n for n in rest if n is not None), batch == 1


def last_of(model: onnx.ModelProto, output: str) -> Last:
    """Return the tensors that the output is a copy of."""
    made = {name: node for node in model.graph.node for name in node.output[:1]}
    found = []
    for kinds in (_COPIES, _SHAPES):
        names, at = {output}, output
        while at in made and made[at].op_type in kinds and made[at].domain in DOMAINS:
            at = next(iter(made[at].input), "")
            if at in names:
                break
            names.add(at)
        found.append(frozenset(names))
    return Last(*found)


_USUAL = [["", 17]]
"""The opset that is omitted, so that hashes of ``leaveout train``'s networks stay unchanged."""

_STATED = "2:"  # prefix of hashes that families state; without it, any hash may have omitted opsets


def architecture_hash(model: onnx.ModelProto) -> str:
    """Return the SHA-256 of a network's graph and parameter shapes, without values.

    Names of intermediate tensors and nodes do not matter; names of parameters do, and so do the
    opsets and domains of the operators.
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
        sizes = dimensions(value)
        alone = len(sizes) == 1  # without a batch axis
        alias.setdefault(value.name, f"sample {sizes}" if alone else f"input {sizes[1:]}")
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
