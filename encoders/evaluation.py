"""How far the float32 scores a user computes may be from the exact ones, over a box."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.box import Box
from leaveout.encoders.fusing import Chain, extended
from leaveout.encoders.interval import Interval, gamma
from leaveout.models.graph import Graph, Join
from leaveout.models.lowering import stacked_constants
from leaveout.models.operators import Affine, Constants

__all__ = ["Linear", "Rounding", "confidence_error"]

Floats = NDArray[np.float64]

_UNIT32 = 2.0**-24
_LARGEST32 = float(np.finfo(np.float32).max)
_TINY32 = float(np.finfo(np.float32).tiny)
_CHUNK = 64
"""Most networks written out together."""
_NUMBERS = 2**24
"""Most numbers that they take, where there are several."""
_SLACK = 8
"""Roundings allowed for beyond the terms of a sum: scalings, folds and fusions of a runtime."""


def confidence_error(
    graph: Graph,
    parameters: Mapping[str, NDArray[np.floating]],
    bounds: Sequence[Interval],
    box: Box,
) -> float:
    """Bound ``|float32 confidence - exact confidence|`` over the box, for any label.

    Parameters
    ----------
    graph : Graph
    parameters : mapping of str to ndarray, shape (m, *shape)
        Of all the networks the bound must hold for.
    bounds : sequence of Interval
        Bounds of the pre-activations of each layer that hold for all of them.
    box : Box

    Returns
    -------
    float
        In units of the scores; infinite where a sum may overflow float32.

    Notes
    -----
    The running error analysis of Higham, section 3.1: each operator turns an error ``e`` and a
    magnitude ``v`` of its input into ``|W| e + gamma (|W| v + |b|)``, whatever the order of
    summation. The activations' known bounds keep the magnitudes small.
    """
    magnitude = np.maximum(np.abs(box.lower), np.abs(box.upper))
    return Rounding.of(graph, parameters).over(magnitude, bounds)


@dataclass(frozen=True, eq=False)
class Linear:
    """One linear operator of some networks.

    Attributes
    ----------
    matrix, constant : ndarray of float64
        Largest absolute values over the networks.
    roundings : int
        That a sum may meet.
    chain : Chain
        With the linear operators before it.
    computes : bool
        Whether it does more than move numbers.
    """

    matrix: Floats
    constant: Floats
    roundings: int
    chain: Chain
    computes: bool


@dataclass(frozen=True, eq=False)
class Rounding:
    """What bounds the rounding of float32 scores, prepared once for many sets of inputs.

    Attributes
    ----------
    graph : Graph
    linear : mapping of str to Linear
        Of each linear operator, by the tensor it gives.
    """

    graph: Graph
    linear: Mapping[str, Linear]

    @staticmethod
    def of(graph: Graph, parameters: Mapping[str, NDArray[np.floating]]) -> Rounding:
        """Prepare for networks of one graph.

        Parameters
        ----------
        graph : Graph
        parameters : mapping of str to ndarray, shape (m, *shape)
        """
        count = max((len(np.asarray(parameters[name])) for name in graph.parameters), default=1)
        shapes = {graph.input: graph.input_shape}
        linear: dict[str, Linear] = {}
        for node in graph.needed():
            first, out = node.inputs[0], node.output
            before = shapes[out] = shapes[first]
            if not isinstance(node.operator, Affine):
                continue
            matrix, constant, shapes[out], regrouped = _absolute(
                node.operator, graph, parameters, before, count
            )
            # Of the operator: constants may cancel in its matrix, and are rounded all the same.
            computes = node.operator.roundings(before, graph.shapes) > 0
            chain = linear[first].chain if first in linear else None
            if computes:
                chain = extended(chain, first, matrix, constant, regrouped)
            roundings = int(np.count_nonzero(matrix, axis=0).max(initial=0)) + _SLACK
            linear[out] = Linear(matrix, constant, roundings, chain or Chain(first), computes)
        return Rounding(graph, linear)

    def over(self, inputs: Floats, bounds: Sequence[Interval]) -> float:
        """Bound ``|float32 confidence - exact confidence|`` over a set of inputs.

        Parameters
        ----------
        inputs : ndarray of float64, shape (d,)
            Largest absolute value of each feature.
        bounds : sequence of Interval
            Bounds of the pre-activations of each layer that hold for all networks and inputs.

        Returns
        -------
        float
            In units of the scores; infinite where a sum may overflow float32.
        """
        graph = self.graph
        magnitude = {graph.input: inputs}
        error = {graph.input: np.zeros(len(inputs))}
        layer = 0
        for node in graph.needed():
            first = node.inputs[0]
            if isinstance(node.operator, Affine):
                step = self.linear[node.output]
                terms = magnitude[first] @ step.matrix + step.constant
                rounding = np.zeros_like(terms)
                if step.computes:
                    reach = step.chain.reach(magnitude[step.chain.head])
                    if not reach < _LARGEST32:
                        return math.inf
                    # What underflows is lost whole, once a rounding, also where denormals are
                    # flushed, and where constants were multiplied before.
                    lost = step.roundings * _TINY32 * reach
                    rounding = gamma(step.roundings, _UNIT32) * terms + lost
                magnitude[node.output] = terms + rounding
                error[node.output] = error[first] @ step.matrix + rounding
            elif isinstance(node.operator, Join):
                second = node.inputs[1]
                total = magnitude[first] + magnitude[second]
                magnitude[node.output] = total * (1 + _UNIT32)
                error[node.output] = error[first] + error[second] + gamma(1, _UNIT32) * total
            else:
                known = bounds[layer].relu().upper + error[first]
                layer += 1
                magnitude[node.output] = np.minimum(magnitude[first], known)
                error[node.output] = error[first]
            if not (magnitude[node.output] < _LARGEST32).all():
                return math.inf
        size, off = magnitude[graph.output], error[graph.output]
        largest = float(np.sort(off)[-2:].sum() + _UNIT32 * np.sort(size)[-2:].sum())
        return largest * (1 + gamma(64)) + _TINY32


def _absolute(
    operator: Affine,
    graph: Graph,
    parameters: Mapping[str, NDArray[np.floating]],
    shape: tuple[int, ...],
    count: int,
) -> tuple[Floats, Floats, tuple[int, ...], float]:
    """Largest absolute values, over the networks, of an operator's matrix and constant terms."""
    width = math.prod(shape)
    basis = np.eye(width).reshape(1, width, *shape)
    matrix: Floats | None = None
    constant: Floats | None = None
    after: tuple[int, ...] = ()
    regrouped = 1.0
    widest = max(width, operator.widest(shape, graph.shapes))
    step = max(1, min(_CHUNK, _NUMBERS // (width * widest)))
    for start in range(0, count, step):
        chunk = {name: parameters[name][start : start + step] for name in graph.parameters}
        constants: Constants = stacked_constants(graph, chunk)
        linear = operator.apply(basis, constants, False)
        after = linear.shape[2:]
        own = np.abs(linear).max(axis=0).reshape(width, -1)
        fixed = operator.constant_magnitude(shape, constants).max(axis=0).reshape(-1)
        regrouped = max(regrouped, operator.regrouped(constants))
        matrix = own if matrix is None else np.maximum(matrix, own)
        constant = fixed if constant is None else np.maximum(constant, fixed)
    assert matrix is not None and constant is not None
    return matrix, constant, after, regrouped
