"""The products and sums by which a runtime evaluates a network, or any of several."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.fusing import Chain, extend
from leaveout.models.graph import Graph, Join
from leaveout.models.lowering import stacked_constants
from leaveout.models.operators import Affine
from leaveout.models.operators.elementwise import Scale
from leaveout.models.operators.reduction import Reduce
from leaveout.models.operators.window import AveragePool, GlobalAveragePool

Floats = NDArray[np.float64]
Parameters = Mapping[str, NDArray[np.floating]]

_CHUNK = 64
"""Most networks written out together."""
_NUMBERS = 2**24
"""Most numbers that they take, where there are several."""


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums of products of a linear operator."""

    sides: Floats  # shape (2 or 1, inputs, outputs)
    constant: Floats  # shape (outputs,)
    rounds: bool  # whether more is done than to move numbers
    chain: Chain  # with the linear operators before it
    shift: Floats | None = None  # shape (outputs,)

    @cached_property
    def present(self) -> NDArray[np.float32]:
        """Return 1 where there is a term, shape (inputs, outputs)."""
        return np.asarray((self.sides > 0).any(axis=0), np.float32)

    @cached_property
    def terms(self) -> int:
        """Return the most terms that an output of any network has."""
        return int(self.present.sum(axis=0, dtype=np.int64).max(initial=0))


@dataclass(frozen=True, eq=False)
class Step:
    """An operator: linear if it has sums, a join if it has a sign, else a ReLU."""

    inputs: tuple[str, ...]
    output: str
    sums: Sums | None = None
    sign: int = 0
    terms: int = 1


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Networks of one graph as a runtime evaluates them, operator by operator."""

    graph: Graph
    steps: tuple[Step, ...]
    signed: bool  # whether it is one network, and what is above 0 is told apart from what is below


def evaluation_of(graph: Graph, parameters: Parameters) -> Evaluation:
    """Return the evaluation of one network."""
    if any(len(parameters[name]) != 1 for name in graph.parameters):
        raise ValueError("terms of several networks cannot be told apart by sign")
    return _evaluation(graph, parameters, signed=True)


def evaluation_of_any(graph: Graph, parameters: Parameters) -> Evaluation:
    """Return an evaluation whose absolute values bound those of several networks."""
    return _evaluation(graph, parameters, signed=False)


def _evaluation(graph: Graph, parameters: Parameters, *, signed: bool) -> Evaluation:
    shapes = {graph.input: graph.input_shape}
    chains: dict[str, Chain] = {}
    # Terms of the sums that each tensor is, since the last ReLU.
    terms = {graph.input: 0}
    steps = []
    for node in graph.needed_nodes():
        first, out, operator = node.inputs[0], node.output, node.operator
        terms[out] = 0
        shape = shapes[out] = shapes[first]
        if isinstance(operator, Affine):
            sides, constant, shapes[out], regrouped = _largest(
                operator, graph, parameters, shape, signed=signed
            )
            # Of the operator: constants may cancel in its matrix, and are rounded all the same.
            rounds = operator.roundings(shape, graph.shapes) > 0
            before = chains.get(first)
            chains[out] = (
                # Of one network one side of each number is 0.
                extend(before, first, sides.max(axis=0), constant, regrouped)
                if rounds
                else before or Chain(first)
            )
            shift = _shift(operator, graph, parameters, shape, sides) if signed else None
            sums = Sums(sides, constant, rounds, chains[out], shift)
            steps.append(Step((first,), out, sums))
            terms[out] = terms[first] + (sums.terms + 1) * rounds
        elif isinstance(operator, Join):
            terms[out] = 1 + sum(terms[each] for each in node.inputs)
            steps.append(Step(node.inputs, out, sign=operator.sign, terms=terms[out]))
        else:
            steps.append(Step((first,), out))
    return Evaluation(graph, tuple(steps), signed)


def _largest(
    operator: Affine, graph: Graph, parameters: Parameters, shape: tuple[int, ...], *, signed: bool
) -> tuple[Floats, Floats, tuple[int, ...], float]:
    """Return an operator's largest absolute values over the networks, and its shape."""
    count = max((len(parameters[name]) for name in graph.parameters), default=1)
    width = math.prod(shape)
    basis = np.eye(width).reshape(1, width, *shape)
    widest = max(width, operator.widest(shape, graph.shapes))
    step = max(1, min(_CHUNK, _NUMBERS // (width * widest)))
    sides, constant, regrouped = np.zeros(1), np.zeros(1), 1.0
    after: tuple[int, ...] = ()
    for start in range(0, count, step):
        chunk = {name: parameters[name][start : start + step] for name in graph.parameters}
        constants = stacked_constants(graph, chunk)
        linear = operator.apply(basis, constants, False)
        after = linear.shape[2:]
        most = linear.max(axis=0), -linear.min(axis=0)
        found = np.stack(most if signed else [np.maximum(*most)])
        found = found.reshape(len(found), width, -1)
        sides = np.maximum(found, sides, out=found)
        fixed = operator.constant_magnitude(shape, constants).max(axis=0).reshape(-1)
        constant = np.maximum(constant, fixed)
        regrouped = max(regrouped, operator.regrouping_bound(constants))
    return sides, constant, after, regrouped


def _shift(
    operator: Affine, graph: Graph, parameters: Parameters, shape: tuple[int, ...], sides: Floats
) -> Floats | None:
    """Return the constant that an operator of one network adds; None if it is rounded."""
    if not operator.exact:
        # Means and quotients: by powers of two they are exact.
        divides = isinstance(operator, AveragePool | GlobalAveragePool | Reduce | Scale)
        mantissas = np.frexp(sides)[0]
        if not divides or not ((mantissas == 0.0) | (mantissas == 0.5)).all():
            return None
    constants = stacked_constants(graph, parameters)
    return np.asarray(operator.apply(np.zeros((1, 1, *shape)), constants, True).reshape(-1))
