"""Smooth activations that exporters write as several nodes, gathered into one function each.

onnxruntime inlines a model's own functions, so it computes as before; readers see one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from leaveout.models.onnx.use import DOMAINS

OUTLINED = "leaveout.activations"
"""Domain of these functions."""

_COMMUTATIVE = {"Add", "Mul"}
_KNOWN = {*_COMMUTATIVE, "Div", "Erf", "Pow", "Sigmoid", "Tanh"}

_DEEPEST = 9  # most nodes between an activation's input and its output


def _c(number: float) -> str:
    return repr(float(np.float32(number)))


def _add(*terms: str) -> str:
    return f"Add({', '.join(sorted(terms))})"


def _mul(*terms: str) -> str:
    return f"Mul({', '.join(sorted(terms))})"


_ROOT2 = float(np.sqrt(2.0))
_ERF = tuple(
    _add(_c(1), f"Erf({inner})")
    for inner in (f"Div(x, {_c(_ROOT2)})", _mul("x", _c(1 / _ROOT2)), _mul("x", _c(_ROOT2 / 2)))
)
_CUBES = (f"Pow(x, {_c(3)})", _mul("x", _mul("x", "x")))
_TANH = tuple(
    _add(_c(1), f"Tanh({_mul(_c(np.sqrt(2 / np.pi)), _add('x', _mul(_c(0.044715), cube)))})")
    for cube in _CUBES
)


def _half_of(inner: str) -> tuple[str, ...]:
    """Return the ways to write ``x * inner / 2``."""
    half = _c(0.5)
    return _mul(half, _mul("x", inner)), _mul(_mul("x", half), inner), _mul("x", _mul(half, inner))


_FORMS: Mapping[str, tuple[str, ...]] = {
    "Gelu": tuple(form for inner in _ERF for form in _half_of(inner)),
    "GeluTanh": tuple(form for inner in _TANH for form in _half_of(inner)),
    "Silu": (_mul("x", "Sigmoid(x)"),),
}
"""Every form that is read; float32 errors are measured for each (`benchmarks/smooth_errors.py`)."""

FORMS = {form: f"{name}_{i}" for name, forms in _FORMS.items() for i, form in enumerate(forms)}
"""Names of functions, ``<name in kernel.smooth.FUNCTIONS>_<number>``, by form."""


Numbers = Mapping[str, np.float32]

_Match = tuple[str, str, list[onnx.NodeProto]]  # an activation's input, its name, and its nodes


def outline(model: onnx.ModelProto) -> None:
    """Replace each known activation of a model by one node, in place."""
    kinds = {node.op_type for node in model.graph.node}
    if not kinds & {"Erf", "Tanh", "Sigmoid"} or "Mul" not in kinds:
        return
    nodes = list(model.graph.node)
    stored = _scalars(model)
    made = {name: node for node in nodes for name in node.output}
    readers: dict[str, list[int]] = {}
    for node in nodes:
        for name in node.input:
            readers.setdefault(name, []).append(id(node))
    matches = {
        at: match
        for at, node in enumerate(nodes)
        if node.op_type == "Mul" and (match := _match(node, made, stored)) is not None
    }
    found: dict[int, onnx.NodeProto] = {}
    for at, (source, name, inner) in _with_own_numbers(matches, readers, stored).items():
        found[at] = helper.make_node(
            name, [source], nodes[at].output[:1], name=nodes[at].name, domain=OUTLINED
        )
        if name not in {each.name for each in model.functions}:
            model.functions.append(_function(name, source, inner, stored, model))
    if not found:
        return
    kept = [found.get(at, node) for at, node in enumerate(nodes)]
    kept = _drop_unread(kept, {item.name for item in model.graph.output})
    del model.graph.node[:]
    model.graph.node.extend(kept)
    read = {name for node in kept for name in node.input}
    for item in [*model.graph.initializer]:
        if item.name in stored and item.name not in read:
            model.graph.initializer.remove(item)
    for given in [*model.graph.input]:
        if given.name in stored and given.name not in read:
            model.graph.input.remove(given)
    if all(item.domain != OUTLINED for item in model.opset_import):
        model.opset_import.append(helper.make_opsetid(OUTLINED, 1))
    model.ir_version = max(model.ir_version, 8)


def _with_own_numbers(
    matches: Mapping[int, _Match], readers: Mapping[str, list[int]], stored: Numbers
) -> Mapping[int, _Match]:
    """Return the activations whose numbers only such activations read: others may be parameters."""
    own = {id(node) for _, _, inner in matches.values() for node in inner}
    kept = {
        at: match
        for at, match in matches.items()
        if all(
            own.issuperset(readers[each])
            for node in match[2]
            for each in node.input
            if each in stored
        )
    }
    return matches if len(kept) == len(matches) else _with_own_numbers(kept, readers, stored)


def is_outlined(function: onnx.FunctionProto) -> bool:
    """Return whether a model's own function is one that `outline` writes: what its name says."""
    if function.domain != OUTLINED or len(function.input) != 1 or len(function.output) != 1:
        return False
    stored = _of_constants(function.node)
    made = {name: node for node in function.node for name in node.output}
    text = _text(function.output[0], function.input[0], made, stored, [])
    return text is not None and FORMS.get(text) == function.name


def _of_constants(nodes: Iterable[onnx.NodeProto]) -> dict[str, np.float32]:
    """Return the single float32 numbers among constants, by name."""
    return {
        node.output[0]: _number(each.t)
        for node in nodes
        if node.op_type == "Constant"
        for each in node.attribute
        if each.name == "value" and _is_number(each.t)
    }


def _scalars(model: onnx.ModelProto) -> dict[str, np.float32]:
    own = {item.name: _number(item) for item in model.graph.initializer if _is_number(item)}
    return own | _of_constants(model.graph.node)


def _is_number(tensor: onnx.TensorProto) -> bool:
    plain = tensor.data_type == onnx.TensorProto.FLOAT and not tensor.external_data
    return plain and int(np.prod(tensor.dims)) == 1 and len(tensor.dims) <= 1


def _number(tensor: onnx.TensorProto) -> np.float32:
    return np.float32(numpy_helper.to_array(tensor).reshape(()))


def _match(
    node: onnx.NodeProto,
    made: Mapping[str, onnx.NodeProto],
    values: Numbers,
) -> _Match | None:
    """Return the input of the activation that ends in a node, its name, and its nodes."""
    below, sources = [node], dict[str, None]()
    for each in below:
        for name in each.input:
            if name not in values:
                sources[name] = None
                maker = made.get(name)
                fits = maker is not None and maker.op_type in _KNOWN and len(below) <= _DEEPEST
                if fits and maker is not None and not any(maker is known for known in below):
                    below.append(maker)
    for source in sources:
        inner: list[onnx.NodeProto] = []
        found = FORMS.get(_text(node.output[0], source, made, values, inner) or "")
        if found is not None:
            return source, found, inner
    return None


def _text(
    name: str,
    source: str,
    made: Mapping[str, onnx.NodeProto],
    values: Numbers,
    inner: list[onnx.NodeProto],
    depth: int = 0,
) -> str | None:
    """Write a tensor as an expression of ``x``; list its nodes in order."""
    if name == source:
        return "x"
    if name in values:
        return _c(float(values[name]))
    node = made.get(name)
    plain = node is not None and node.op_type in _KNOWN and node.domain in DOMAINS
    if node is None or not plain or depth > _DEEPEST or node.attribute:
        return None
    parts = [_text(each, source, made, values, inner, depth + 1) for each in node.input]
    if any(part is None for part in parts):
        return None
    if not any(node is known for known in inner):
        inner.append(node)
    known = [part for part in parts if part is not None]
    return f"{node.op_type}({', '.join(sorted(known) if node.op_type in _COMMUTATIVE else known)})"


def _function(
    name: str,
    source: str,
    inner: list[onnx.NodeProto],
    values: Numbers,
    model: onnx.ModelProto,
) -> onnx.FunctionProto:
    constants = dict.fromkeys(each for node in inner for each in node.input if each in values)
    stored = [
        helper.make_node(
            "Constant", [], [each], value=numpy_helper.from_array(np.asarray(values[each]), each)
        )
        for each in constants
    ]
    own = [item for item in model.opset_import if item.domain in DOMAINS]
    return helper.make_function(
        OUTLINED, name, [source], [inner[-1].output[0]], [*stored, *inner], own
    )


def _drop_unread(nodes: list[onnx.NodeProto], wanted: set[str]) -> list[onnx.NodeProto]:
    """Drop nodes that nothing reads any more."""
    kept = []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            wanted.update(node.input)
            kept.append(node)
    return kept[::-1]
