"""How far the float32 lead of one label over others may be from the exact one, of one network."""

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
from leaveout.models.operators import Affine

__all__ = ["Evaluation", "evaluation_of"]

Floats = NDArray[np.float64]

_UNIT32 = 2.0**-24
_LARGEST32 = float(np.finfo(np.float32).max)
_TINY32 = float(np.finfo(np.float32).tiny)
_SLACK = 6
"""Roundings allowed for a term beyond its product: scalings, folds and fusions of a runtime."""

_CLEARLY = 1e-6
"""A phase is known only if it is by so much: whoever rounds in another way then knows it too."""


@dataclass(frozen=True, eq=False)
class _Step:
    """One operator; affine where it has a matrix, a join where it has a sign.

    Attributes
    ----------
    inputs : tuple of str
    output : str
    positive, negative : ndarray of float64, shape (inputs, outputs), optional
        The matrix is ``positive - negative``, both at least 0.
    constant : ndarray of float64, shape (outputs,), optional
        Sums of the absolute terms of the constant part.
    rounds : bool
        Whether more is done than to move numbers.
    sign : int
    chain : Chain, optional
        With the affine operators before it.
    """

    inputs: tuple[str, ...]
    output: str
    positive: Floats | None = None
    negative: Floats | None = None
    constant: Floats | None = None
    rounds: bool = False
    sign: int = 0
    chain: Chain | None = None


@dataclass(frozen=True, eq=False)
class _Passed:
    """What a forward pass over a region knows of each tensor.

    Attributes
    ----------
    above, below : dict of str to ndarray
        No computed value is more than this above, or below, 0.
    local : dict of str to ndarray
        What the operator that makes the tensor may add to its error.
    slope : dict of str to (ndarray, ndarray)
        Of each ReLU: the least and greatest change of its output a unit of its input.
    """

    above: dict[str, Floats]
    below: dict[str, Floats]
    local: dict[str, Floats]
    slope: dict[str, tuple[Floats, Floats]]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One network as a runtime evaluates it, operator by operator."""

    graph: Graph
    steps: tuple[_Step, ...]

    def lead_error(
        self, bounds: Sequence[Interval], box: Box, label: int, rivals: Sequence[int]
    ) -> float:
        """Bound ``|float32 lead - exact lead|`` of a label over each of some rivals.

        Parameters
        ----------
        bounds : sequence of Interval
            Of the exact pre-activations of each layer, wherever in the box the answer matters.
        box : Box
        label : int
        rivals : sequence of int

        Returns
        -------
        float
            In units of the scores; infinite where a sum may overflow float32.

        Notes
        -----
        What is computed is the exact network with every sum moved by what its own operations
        round: by ``u`` times each product and computed partial sum, whatever the order (running
        error analysis, Higham, *Accuracy and Stability of Numerical Algorithms*, section 3.3). No
        partial sum is larger than all its positive or all its negative terms together, and what
        is added to 0 is not rounded. The lead moves by each such shift times its slope on the way
        up, which is exact where the phases of both exact and computed neurons above are known.
        """
        passed = self._forward(bounds, box)
        if passed is None:
            return math.inf
        top = self.graph.output
        size = np.maximum(passed.above[top], passed.below[top])
        found = 0.0
        for rival in rivals:
            lead = np.zeros(len(size))
            lead[label], lead[rival] = 1.0, -1.0
            # The lead itself is one more subtraction of two computed scores.
            last = _UNIT32 * float(size[[label, rival]].sum()) + _TINY32
            found = max(found, self._backward(passed, lead) + last)
        return self._padded(found, box)

    def form_error(self, bounds: Sequence[Interval], box: Box, form: Floats) -> float:
        """Bound how far rounding moves ``form @ scores``, taken exactly of computed scores.

        Parameters
        ----------
        bounds, box
            As in `lead_error`.
        form : ndarray of float64, shape (labels,)
        """
        passed = self._forward(bounds, box)
        if passed is None:
            return math.inf
        return self._padded(self._backward(passed, form), box)

    def _padded(self, found: float, box: Box) -> float:
        # All that was rounded here are sums of non-negative numbers.
        longest = sum(step.constant.size + 4 for step in self.steps if step.constant is not None)
        return found * (1.0 + gamma(8 * (longest + box.dimension) + 64)) + _TINY32

    def _forward(self, bounds: Sequence[Interval], box: Box) -> _Passed | None:
        source = self.graph.input
        above = {source: np.maximum(box.upper, 0.0)}
        below = {source: np.maximum(-box.lower, 0.0)}
        error = {source: np.zeros(box.dimension)}
        local: dict[str, Floats] = {}
        slope: dict[str, tuple[Floats, Floats]] = {}
        layer = 0
        for step in self.steps:
            first, out = step.inputs[0], step.output
            if step.constant is not None:
                assert step.positive is not None and step.negative is not None
                up, down = step.positive, step.negative
                most = above[first] @ up + below[first] @ down + step.constant
                least = below[first] @ up + above[first] @ down + step.constant
                live = ((above[first] + below[first]) > 0) @ ((up + down) > 0).astype(float)
                local[out] = 0.0 * most
                if step.rounds:
                    assert step.chain is not None
                    reach = step.chain.reach(above[step.chain.head] + below[step.chain.head])
                    if not reach < _LARGEST32:
                        return None
                    local[out] = _rounding(most, least, live, reach)
                above[out], below[out] = most + local[out], least + local[out]
                error[out] = error[first] @ (up + down) + local[out]
            elif step.sign:
                second = step.inputs[1]
                plus, minus = (above, below) if step.sign > 0 else (below, above)
                most, least = above[first] + plus[second], below[first] + minus[second]
                local[out] = _rounding(most, least, np.ones_like(most), 1.0)
                above[out], below[out] = most + local[out], least + local[out]
                error[out] = error[first] + error[second] + local[out]
            else:
                exact, off_by = bounds[layer], error[first]
                layer += 1
                room = _CLEARLY * (np.abs(exact.lower) + np.abs(exact.upper) + off_by)
                off = exact.upper + off_by <= -room
                slope[out] = (exact.lower - off_by > room).astype(float), (~off).astype(float)
                known = np.minimum(above[first], np.maximum(exact.upper, 0.0) + off_by)
                above[out], below[out] = np.where(off, 0.0, known), np.zeros_like(known)
                error[out] = np.where(off, 0.0, off_by)
            if not (above[out] + below[out] < _LARGEST32).all():
                return None
        return _Passed(above, below, local, slope)

    def _backward(self, passed: _Passed, form: Floats) -> float:
        slopes: dict[str, tuple[Floats, Floats]] = {self.graph.output: (form, form)}
        total = 0.0
        for step in reversed(self.steps):
            if step.output not in slopes:
                continue
            low, high = slopes[step.output]
            if step.output in passed.local:
                total += float(np.maximum(np.abs(low), np.abs(high)) @ passed.local[step.output])
            for source, pulled in zip(step.inputs, _pulled(step, passed, low, high), strict=True):
                known = slopes.get(source)
                slopes[source] = (
                    pulled if known is None else (known[0] + pulled[0], known[1] + pulled[1])
                )
        return total


def evaluation_of(graph: Graph, parameters: Mapping[str, NDArray[np.floating]]) -> Evaluation:
    """Prepare one network.

    Parameters
    ----------
    graph : Graph
    parameters : mapping of str to ndarray, shape (1, *shape)
    """
    constants = stacked_constants(graph, parameters)
    shapes = {graph.input: graph.input_shape}
    steps = []
    chains: dict[str, Chain] = {}
    for node in graph.needed():
        shape = shapes[node.inputs[0]]
        operator = node.operator
        if not isinstance(operator, Affine):
            shapes[node.output] = shape
            joins = isinstance(operator, Join)
            sign = operator.sign if isinstance(operator, Join) else 0
            inputs = node.inputs if joins else node.inputs[:1]
            steps.append(_Step(tuple(inputs), node.output, sign=sign))
            continue
        width = math.prod(shape)
        linear = operator.apply(np.eye(width).reshape(1, width, *shape), constants, False)[0]
        shapes[node.output] = linear.shape[1:]
        matrix = linear.reshape(width, -1)
        constant = operator.constant_magnitude(shape, constants)[0].reshape(-1)
        # Of the operator: constants may cancel in its matrix, and are rounded all the same.
        moves = operator.roundings(shape, graph.shapes) == 0
        before = chains.get(node.inputs[0])
        chains[node.output] = (
            before or Chain(node.inputs[0])
            if moves
            else extended(
                before, node.inputs[0], np.abs(matrix), constant, operator.regrouped(constants)
            )
        )
        steps.append(
            _Step(
                (node.inputs[0],),
                node.output,
                np.maximum(matrix, 0.0),
                np.maximum(-matrix, 0.0),
                constant,
                not moves,
                chain=chains[node.output],
            )
        )
    return Evaluation(graph, tuple(steps))


def _rounding(above: Floats, below: Floats, terms: Floats, reach: float) -> Floats:
    """Bound what rounding may add to sums of products.

    Each product and what a runtime may fold into it rounds relative to itself; each addition
    relative to a partial sum, which is at most all that is above 0, or all that is below, plus
    what was rounded before. What underflows is lost whole, times what it would have met.
    """
    absolute = (1 + _SLACK) * (above + below) + terms * np.maximum(above, below)
    operations = terms + 2 + 2 * _SLACK
    return (_UNIT32 * absolute + 2 * operations * _TINY32 * reach) / (
        1.0 - 2 * operations * _UNIT32
    )


def _pulled(step: _Step, passed: _Passed, low: Floats, high: Floats) -> list[tuple[Floats, Floats]]:
    """Slopes of the lead in the inputs of an operator, from those in its output."""
    if step.sign:
        other = (low, high) if step.sign > 0 else (-high, -low)
        return [(low, high), other]
    if step.constant is None:
        least, most = passed.slope[step.output]
        return [
            (
                np.where(low < 0, low * most, low * least),
                np.where(high > 0, high * most, high * least),
            )
        ]
    assert step.positive is not None and step.negative is not None
    up, down = step.positive, step.negative
    below, above = up @ low - down @ high, up @ high - down @ low
    pad = gamma(2 * low.size + 4) * ((up + down) @ np.maximum(np.abs(low), np.abs(high)))
    return [(below - pad, above + pad)]
