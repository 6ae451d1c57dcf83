"""Every operator of a network, by itself, against onnxruntime."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper

from leaveout.errors import ModelError
from leaveout.models.graph import Graph, Join, Node
from leaveout.models.lowering import stacked_constants
from leaveout.models.onnx_signature import dimensions
from leaveout.models.operators import Affine, Constants, Shape, Shapes
from leaveout.models.replay import one_line, session

__all__ = ["check_operators"]

Floats = NDArray[np.float64]

_UNIT32 = 2.0**-24
_TINY32 = float(np.finfo(np.float32).tiny)
_LARGEST32 = float(np.finfo(np.float32).max)
_SIZES = (1.0, 2.0**-10, 2.0**10)
_PLACES = 3
"""Most numbers of a sparse input that are not 0."""
_OWN = 10
"""No operator rounds a term more often beyond its sum."""


def check_operators(
    model: onnx.ModelProto, graph: Graph, parameters: Mapping[str, NDArray[Any]], source: str
) -> None:
    """Compare our reading of each operator with what onnxruntime computes of it alone.

    The nodes stand side by side in one model, each with inputs of its own, and run with
    onnxruntime's optimisations off: so no error of one operator hides one of the next, and no
    operator is fed zeros by a ReLU. Inputs are dense, sparse and zero, of sizes from 2^-10 to 2^10.

    Parameters
    ----------
    model : onnx.ModelProto
    graph : Graph
        As read from it.
    parameters : mapping of str to ndarray
    source : str
        For messages.

    Raises
    ------
    ModelError
        If one differs by more than the roundings of its own operations.

    Notes
    -----
    What float32 computes of a sum of products differs from the exact sum by at most ``gamma(k)``
    times the sum of the absolute terms, whatever the order, where a term meets at most ``k``
    roundings (Higham, *Accuracy and Stability of Numerical Algorithms*, section 3.1). Each operator
    says its ``k`` (`leaveout.models.operators.Affine.roundings`); where an input has fewer numbers
    that are not 0 than a sum has terms, the additions of zeros round nothing and are taken off. Of
    an input with one such number that leaves a few roundings however wide the layer is; of
    operators that only move numbers nothing is left, nor of ReLU. What underflows is lost whole:
    as much as the smallest normal number times what it would have met.
    """
    rng = np.random.default_rng(0)
    if not graph.nodes:
        return
    constants = _Constants.of(graph, parameters)
    (item,) = (each for each in model.graph.input if each.name == graph.input)
    alone = dimensions(item)[0] == 1
    feeds = {
        _fresh(node, i): _samples(rng, graph.shapes[name])
        for node in graph.nodes
        for i, name in enumerate(node.inputs)
    }
    running = session(_apart(model, graph, 1 if alone else "batch"), source, optimised=False)
    for node, found in zip(graph.nodes, _run(running, graph, feeds, alone, source), strict=True):
        inputs = [feeds[_fresh(node, i)] for i in range(len(node.inputs))]
        if not _compare(node, inputs, found, constants, graph.shapes):
            raise ModelError(
                f"{source}: our reading of node {node.name!r} "
                f"({type(node.operator).__name__}) differs from onnxruntime; please report this "
                "model"
            )


@dataclass(frozen=True, eq=False)
class _Constants:
    """All constants of one network as a stack of one, and their absolute values."""

    exact: Constants
    absolute: Constants

    @staticmethod
    def of(graph: Graph, parameters: Mapping[str, NDArray[Any]]) -> _Constants:
        exact = dict(stacked_constants(graph, {k: v[None] for k, v in parameters.items()}))
        return _Constants(exact, {name: np.abs(value) for name, value in exact.items()})


def _fresh(node: Node, position: int) -> str:
    """Name of the input that stands for a variable input of a node."""
    return f"{node.output}/{position}"


def _apart(model: onnx.ModelProto, graph: Graph, batch: int | str) -> onnx.ModelProto:
    """Return the model in which every variable input of every node is an input of the model."""
    apart = onnx.ModelProto()
    apart.CopyFrom(model)
    ours = {node.output: node for node in graph.nodes}
    del apart.graph.input[:], apart.graph.output[:], apart.graph.value_info[:], apart.graph.node[:]
    known = {item.name for item in model.graph.initializer}
    apart.graph.input.extend(item for item in model.graph.input if item.name in known)
    variable = {graph.input, *ours}
    for proto in model.graph.node:
        node = ours.get(proto.output[0])
        if node is None:
            # A constant is kept; what is dropped at the end, and what hangs on it, is not.
            if not variable.intersection(proto.input):
                apart.graph.node.append(proto)
            continue
        copy = apart.graph.node.add()
        copy.CopyFrom(proto)
        fresh = [i for i, name in enumerate(proto.input) if name in variable]
        for i, position in enumerate(fresh):
            copy.input[position] = _fresh(node, i)
            shape = [batch, *graph.shapes[node.inputs[i]]]
            apart.graph.input.append(
                helper.make_tensor_value_info(copy.input[position], TensorProto.FLOAT, shape)
            )
        apart.graph.output.append(
            helper.make_tensor_value_info(node.output, TensorProto.FLOAT, None)
        )
    return apart


def _samples(rng: np.random.Generator, shape: Shape) -> NDArray[np.float32]:
    """Draw samples, shape (samples, *shape): zeros, and sparse and dense ones of each size."""
    width = math.prod(shape)
    rows = [np.zeros(width)]
    for size in _SIZES:
        for count in range(1, 1 + _PLACES):
            row = np.zeros(width)
            row[rng.integers(width, size=count)] = size * rng.normal(size=count)
            rows.append(row)
        rows.append(size * rng.normal(size=width))
    return np.asarray(rows, np.float32).reshape(-1, *shape)


def _run(
    running: onnxruntime.InferenceSession,
    graph: Graph,
    feeds: Mapping[str, NDArray[np.float32]],
    alone: bool,
    source: str,
) -> list[NDArray[np.float32]]:
    names = [node.output for node in graph.nodes]
    count = len(next(iter(feeds.values())))
    rows = [slice(i, i + 1) for i in range(count)] if alone else [slice(None)]
    try:
        runs = [running.run(names, {k: v[row] for k, v in feeds.items()}) for row in rows]
    except Exception as error:
        raise ModelError(f"{source}: onnxruntime cannot run the model: {one_line(error)}") from None
    return [np.concatenate([run[i] for run in runs]) for i in range(len(names))]


def _compare(
    node: Node,
    inputs: list[NDArray[np.float32]],
    found: NDArray[np.float32],
    constants: _Constants,
    shapes: Shapes,
) -> bool:
    """Whether what was computed is what we read, up to the rounding of the operator."""
    first, *others = (each.astype(np.float64) for each in inputs)
    operator = node.operator
    if isinstance(operator, Affine):
        expected = operator.apply(first[None], constants.exact, True)[0]
        fixed = operator.constant_magnitude(first.shape[1:], constants.exact)
        linear = operator.apply(np.abs(first)[None], constants.absolute, False)[0]
        terms = np.abs(linear) + fixed
        largest = operator.regrouped(constants.exact)
        live = np.count_nonzero(first.reshape(len(first), -1), axis=1) + _OWN
        count = np.minimum(operator.roundings(first.shape[1:], shapes), live)
        k = count.reshape(-1, *(1,) * (terms.ndim - 1))
    elif isinstance(operator, Join):
        expected, terms = first + operator.sign * others[0], np.abs(first) + np.abs(others[0])
        k, largest = np.asarray(1), 1.0
    else:
        expected = terms = np.maximum(first, 0.0)
        k, largest = np.asarray(0), 1.0
    if found.shape != expected.shape or found.dtype != np.float32:
        return False
    met = largest * max(1.0, float(np.abs(first).max(initial=0.0)))
    allowed = k * _UNIT32 / (1 - k * _UNIT32) * terms + k * _TINY32 * met
    overflows = 4 * largest * terms >= _LARGEST32
    with np.errstate(invalid="ignore"):
        return bool((overflows | (np.abs(found - expected) <= allowed)).all())
