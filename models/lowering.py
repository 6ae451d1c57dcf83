"""Lowering of a layer graph and its parameters to normal form, folding affine parts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.kernel.float32 import Program, Step
from leaveout.models.graph import Graph, Join, Layer, Stack
from leaveout.models.matrices import Matrices, add, compose, dense, identity, scale, settle
from leaveout.models.onnx.operators import Affine, Constants, Normal, Relu, Smooth


@dataclass(frozen=True, eq=False)
class _Form:
    """An affine expression: a matrix for each source, and a constant part.

    Matrices have shape (m or 1, numbers, source width), the constant (m or 1, 1, *shape).
    """

    linear: Mapping[int, Matrices]
    constant: Floats

    def through(self, operator: Affine, constants: Constants) -> _Form:
        matrix = operator.matrix(self.constant.shape[2:], constants)
        return _Form(
            {s: compose(matrix, part) for s, part in self.linear.items()},
            operator.apply(self.constant, constants, True),
        )

    def plus(self, other: _Form, sign: int) -> _Form:
        linear = dict(self.linear)
        for source, part in other.linear.items():
            if source in linear:
                linear[source] = add(linear[source], part, sign)
            else:
                linear[source] = part if sign > 0 else scale(part, -1.0)
        return _Form(linear, self.constant + sign * other.constant)

    def layer(self, stack: int, kind: int = 0) -> Layer:
        weights = {source: settle(part, stack) for source, part in sorted(self.linear.items())}
        bias = self.constant.reshape(self.constant.shape[0], -1)
        kinds = np.full(bias.shape[1], kind, np.int8) if kind else None
        wide = np.broadcast_to(bias, (stack, bias.shape[1]))
        return Layer(weights, np.ascontiguousarray(wide), kinds)


def _basis(shape: tuple[int, ...], source: int) -> _Form:
    return _Form({source: identity(math.prod(shape))}, np.zeros((1, 1, *shape)))


class _Stacked(Mapping[str, Floats]):
    """Constants that are converted when needed, since all together may exceed memory."""

    def __init__(self, graph: Graph, parameters: Mapping[str, NDArray[np.floating]]) -> None:
        self._graph = graph
        self._parameters = parameters

    def __getitem__(self, name: str) -> Floats:
        graph = self._graph
        if name in graph.moved:
            source, operator = graph.moved[name]
            return operator.apply(self[source][:, None], {}, False)[:, 0]
        if name in graph.parameters:
            return np.asarray(self._parameters[name], dtype=np.float64)
        return graph.constants[name][None]

    def __iter__(self) -> Iterator[str]:
        graph = self._graph
        return iter(dict.fromkeys((*graph.constants, *graph.parameters, *graph.moved)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def stacked_constants(graph: Graph, parameters: Mapping[str, NDArray[np.floating]]) -> Constants:
    """Return all constants of ``graph``, stacked in float64."""
    return _Stacked(graph, parameters)


def lower(graph: Graph, parameters: Mapping[str, NDArray[np.floating]]) -> Stack:
    """Fold all affine operators between two activations into one affine map.

    The work is done in float64; a fold of several operators rounds at about 1e-16 of the
    magnitudes involved, which the float32 evaluation bound covers many times over.

    Parameters
    ----------
    graph : Graph
    parameters : mapping of str to ndarray, shape (m, *shape)
        Values of ``graph.parameters`` for ``m`` networks.

    Returns
    -------
    Stack
        The ``m`` networks.
    """
    constants = stacked_constants(graph, parameters)
    members = max((len(np.asarray(parameters[name])) for name in graph.parameters), default=1)
    forms: dict[str, _Form] = {graph.input: _basis(graph.input_shape, 0)}
    layers: list[Layer] = []
    for node in graph.needed_nodes():
        first = forms[node.inputs[0]]
        if isinstance(node.operator, Affine):
            forms[node.output] = first.through(node.operator, constants)
        elif isinstance(node.operator, Join):
            forms[node.output] = first.plus(forms[node.inputs[1]], node.operator.sign)
        elif isinstance(node.operator, Normal):
            forms[node.output] = first
        elif isinstance(node.operator, Relu | Smooth):
            layers.append(first.layer(members, node.operator.kind))
            forms[node.output] = _basis(first.constant.shape[2:], len(layers))
        else:
            raise TypeError(f"{node.name}: no lowering for {type(node.operator).__name__}")
    layers.append(forms[graph.output].layer(members))
    return Stack(math.prod(graph.input_shape), tuple(layers))


@dataclass(frozen=True)
class Flaw:
    """An invalid parameter."""

    node: str
    member: int  # index of the network; 0 if all share the constants
    why: str


def first_flaw(graph: Graph, parameters: Mapping[str, NDArray[np.floating]]) -> Flaw | None:
    """Return the first division by zero or negative variance in any network, or None."""
    constants = stacked_constants(graph, parameters)
    for node in graph.nodes:
        if isinstance(node.operator, Affine):
            for why, found in node.operator.flaws(constants).items():
                if found.any():
                    return Flaw(node.name, int(np.argmax(found)), why)
    return None


def program_of(graph: Graph, parameters: Mapping[str, NDArray[np.floating]]) -> Program:
    """Return the operators of some networks as matrices, as the kernel reads them."""
    constants = stacked_constants(graph, parameters)
    shapes, places = {graph.input: graph.input_shape}, {graph.input: 0}
    steps = []
    for node in graph.needed_nodes():
        shape, operator = shapes[node.inputs[0]], node.operator
        sources = tuple(places[each] for each in node.inputs)
        if isinstance(operator, Join):
            step = Step(sources, sign=operator.sign)
        elif isinstance(operator, Normal):
            step = Step(sources, groups=operator.groups(shape))
        elif isinstance(operator, Affine):
            matrix = dense(operator.matrix(shape, constants)).transpose(0, 2, 1)
            fixed = operator.apply(np.zeros((1, 1, *shape)), constants, True)
            # The terms of a constant may cancel, but are rounded all the same.
            size = operator.constant_magnitude(shape, constants)
            shape = fixed.shape[2:]
            step = Step(
                sources[:1],
                matrix,
                fixed.reshape(len(fixed), -1),
                size.reshape(len(size), -1),
                operator.roundings(shapes[node.inputs[0]], graph.shapes) == 0,
                regroup=operator.regrouping_bound(constants),
            )
        else:
            assert isinstance(operator, Relu | Smooth)
            step = Step(sources[:1], kind=operator.kind)
        steps.append(step)
        shapes[node.output], places[node.output] = shape, len(steps)
    return Program(math.prod(graph.input_shape), tuple(steps))
