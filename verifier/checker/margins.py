"""Bounds of float32 margin errors: slopes times rounding errors.

A computed network is the exact one with an error added to every sum: at most half a unit in the
last place of each product and partial sum, and a partial sum is at most the sum of all its positive
terms, or all its negative ones. The error moves the margin by the margin's slope there, which is
known exactly if exact and computed phases above are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.models.graph import Graph, Join
from leaveout.models.lowering import stacked_constants
from leaveout.models.onnx.operators import Affine
from leaveout.verifier.checker.arithmetic import TINY32, UNIT32, Arithmetic, gamma
from leaveout.verifier.checker.evaluation import Fused, after, count_terms

_MORE = 6
"""Roundings that a runtime may add per term: scalings, folds and fusions."""

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Region:
    """Known bounds in some nodes."""

    above: Floats  # shape (n, inputs): largest input above 0
    below: Floats  # shape (n, inputs): largest magnitude below 0
    low: Sequence[Floats]  # shape (n, width): bounds of the exact pre-activations of each layer
    high: Sequence[Floats]  # shape (n, width): bounds of the exact pre-activations of each layer

    def rows(self, chosen: Integers) -> Region:
        """Return some of the nodes."""
        return Region(
            self.above[chosen],
            self.below[chosen],
            [each[chosen] for each in self.low],
            [each[chosen] for each in self.high],
        )


@dataclass(frozen=True, eq=False)
class _Step:
    """One operator: affine with a matrix, (m, inputs, outputs); a join with a sign; or a ReLU."""

    inputs: tuple[str, ...]
    output: str
    matrix: Floats | None = None
    constant: Floats | None = None
    moves: bool = False
    sign: int = 0
    run: Fused | None = None
    terms: int = 1


@dataclass(eq=False)
class _Seen:
    """Forward: largest values above and below 0, errors, added errors, slopes of ReLUs."""

    above: dict[str, Floats]
    below: dict[str, Floats]
    error: dict[str, Floats]
    added: dict[str, Floats]
    slope: dict[str, tuple[Floats, Floats]]
    finite: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class MarginProgram:
    """The operators of some networks of one architecture."""

    graph: Graph
    steps: tuple[_Step, ...]
    arithmetic: Arithmetic

    def errors(
        self, which: Integers, region: Region, label: int, rivals: Sequence[Integers]
    ) -> Floats:
        """Bound ``|float32 margin - exact margin|``, the largest over some rivals, shape (n,)."""
        seen, one = self._forward(which, region), np.arange(len(which))
        top = self.graph.output
        size = np.maximum(seen.above[top], seen.below[top])
        found = np.zeros(len(which))
        for rival in rivals:
            margin = np.zeros_like(size)
            margin[:, label], margin[one, rival] = 1.0, -1.0
            # The comparison of two scores may subtract them.
            last = UNIT32 * (self._number(size[:, label]) + size[one, rival]) + TINY32
            found = np.maximum(found, self._up(last + self._backward(which, seen, margin)))
        return self._pad(seen, found)

    def form_errors(self, which: Integers, region: Region, forms: Floats) -> Floats:
        """Bound the effect of rounding on linear forms of the scores.

        The forms are exact functions of the computed scores, except that denormals are flushed when
        read.
        """
        count = len(which)
        seen = self._forward(which, region)
        found = np.empty((count, len(forms)))
        for k, form in enumerate(forms):
            pulled = self._backward(which, seen, np.tile(form, (count, 1)))
            flushed = TINY32 * np.abs(self._number(form)).sum()
            found[:, k] = self._pad(seen, self._up(pulled + flushed))
        return found

    def _pad(self, seen: _Seen, found: Floats) -> Floats:
        """Pad bounds for the rounding of their own computation."""
        # Sums of non-negative numbers: one factor covers float64 rounding.
        longest = sum(sum(step.matrix.shape[1:]) for step in self.steps if step.matrix is not None)
        found = self._number(np.where(seen.finite, found, 0.0))
        found = self._up(found * (1 + gamma(8 * longest + 64)) + TINY32)
        return np.where(seen.finite, found, math.inf)

    def _number(self, values: Floats) -> Floats:
        return self.arithmetic.number(values)

    def _up(self, values: Floats) -> Floats:
        return self.arithmetic.up(values)

    def _forward(self, which: Integers, region: Region) -> _Seen:
        first = self.graph.input
        seen = _Seen(
            {first: region.above},
            {first: region.below},
            {first: np.zeros_like(region.above)},
            {},
            {},
            np.ones(len(which), bool),
        )
        layer = 0
        for step in self.steps:
            source, out = step.inputs[0], step.output
            up, down = seen.above[source], seen.below[source]
            if step.matrix is not None and step.constant is not None:
                plus, minus = np.maximum(step.matrix, 0), np.maximum(-step.matrix, 0)
                most = self._through(plus, which, up) + self._through(minus, which, down)
                least = self._through(plus, which, down) + self._through(minus, which, up)
                most = self._up(most + step.constant[which])
                least = self._up(least + step.constant[which])
                present = (up > 0) | (down > 0)
                # Counts are exact in float64.
                terms = _product((step.matrix != 0).astype(float), which, present.astype(float))
                assert step.run is not None
                reach = step.run.most(seen.above[step.run.head] + seen.below[step.run.head])
                seen.finite &= reach < _LARGEST
                added = 0 * most if step.moves else self._rounding_error(most, least, terms, reach)
                error = self._through(plus + minus, which, seen.error[source]) + added
            elif step.sign:
                other = step.inputs[1]
                more, less = seen.above[other], seen.below[other]
                if step.sign < 0:
                    more, less = less, more
                most = self._up(self._number(up) + more)
                least = self._up(self._number(down) + less)
                # It may be computed as one sum with its inputs.
                terms = np.full_like(most, step.terms)
                added = self._rounding_error(most, least, terms, np.ones(len(most)))
                error = self._number(seen.error[source]) + seen.error[other] + added
            else:
                seen.above[out], seen.below[out] = self._relu(seen, step, region, layer)
                layer += 1
                continue
            seen.above[out] = self._up(self._number(most) + added)
            seen.below[out] = self._up(self._number(least) + added)
            seen.error[out], seen.added[out] = self._up(error), added
            seen.finite &= (seen.above[out] + seen.below[out] < _LARGEST).all(axis=1)
        return seen

    def _relu(self, seen: _Seen, step: _Step, region: Region, layer: int) -> tuple[Floats, Floats]:
        source, out = step.inputs[0], step.output
        low, high, error = region.low[layer], region.high[layer], seen.error[source]
        on, off = self._number(low) > error, self._number(high) <= -error
        seen.slope[out] = np.where(on, 1.0, 0.0), np.where(off, 0.0, 1.0)
        seen.error[out] = np.where(off, 0.0, error)
        positive = self._up(self._number(np.maximum(high, 0)) + error)
        most = np.minimum(seen.above[source], positive)
        return np.where(off, 0.0, most), np.zeros_like(most)

    def _backward(self, which: Integers, seen: _Seen, margin: Floats) -> Floats:
        """Sum each operation's error times the slope of a form of the scores there."""
        total = np.zeros(len(which))
        slopes = {self.graph.output: (margin, margin)}
        for step in reversed(self.steps):
            if step.output not in slopes:
                continue
            low, high = slopes[step.output]
            if step.output in seen.added:
                steepest = self._number(np.maximum(-low, high))
                total = self._up(total + (steepest * seen.added[step.output]).sum(axis=1))
            for source, ends in self._sources(step, which, seen, low, high):
                if source in slopes:
                    before = slopes[source]
                    ends = (
                        self._down(self._number(before[0]) + ends[0]),
                        self._up(self._number(before[1]) + ends[1]),
                    )
                slopes[source] = ends
        return total

    def _sources(
        self, step: _Step, which: Integers, seen: _Seen, low: Floats, high: Floats
    ) -> list[tuple[str, tuple[Floats, Floats]]]:
        """Return the slopes in the inputs of an operator."""
        if step.matrix is not None:
            back = step.matrix.transpose(0, 2, 1)
            own, other = self._number(low), self._number(high)
            centre = self._through(back, which, (own + other) * 0.5)
            spread = self._through(np.abs(back), which, (other - own) * 0.5)
            spread = spread + gamma(2 * back.shape[1] + 8) * self._through(
                np.abs(back), which, np.maximum(-low, high)
            )
            return [(step.inputs[0], (self._down(centre - spread), self._up(centre + spread)))]
        if step.sign:
            second = (low, high) if step.sign > 0 else (-high, -low)
            return [(step.inputs[0], (low, high)), (step.inputs[1], second)]
        least, most = seen.slope[step.output]
        ends = np.where(low < 0, most, least) * low, np.where(high > 0, most, least) * high
        return [(step.inputs[0], ends)]

    def _down(self, values: Floats) -> Floats:
        return self.arithmetic.down(values)

    def _through(self, matrix: Floats, which: Integers, values: Floats) -> Floats:
        return _product(matrix, which, self._number(values))

    def _rounding_error(self, most: Floats, least: Floats, terms: Floats, reach: Floats) -> Floats:
        """Bound the rounding of sums, given their positive and negative parts.

        Underflow is multiplied by ``reach``, shape (n,).
        """
        products = (1 + _MORE) * (self._number(most) + least)
        sums = terms * self._number(np.maximum(most, least))
        operations = terms + 2 * (1 + _MORE)
        lost = 2 * operations * TINY32 * self._number(reach[:, None])
        # The next float above a rounded quotient is at least the exact one.
        most_often = np.nextafter(1 / (1 - 2 * operations * UNIT32), np.inf)
        return self._up((UNIT32 * (products + sums) + lost) * most_often)


def margin_program(
    graph: Graph, parameters: Mapping[str, NDArray[np.floating]], numbers: Arithmetic
) -> MarginProgram:
    """Return the operators of some networks."""
    constants = stacked_constants(graph, parameters)
    count = max((len(parameters[name]) for name in graph.parameters), default=1)
    shapes = {graph.input: graph.input_shape}
    runs: dict[str, Fused] = {}
    terms = {graph.input: 0}
    steps = []
    for node in graph.needed_nodes():
        shape, operator = shapes[node.inputs[0]], node.operator
        shapes[node.output], terms[node.output] = shape, 0
        if isinstance(operator, Join):
            joined = terms[node.output] = 1 + sum(terms[each] for each in node.inputs)
            inputs = tuple(node.inputs)
            steps.append(_Step(inputs, node.output, sign=operator.sign, terms=joined))
        elif isinstance(operator, Affine):
            width = math.prod(shape)
            linear = operator.apply(np.eye(width).reshape(1, width, *shape), constants, False)
            shapes[node.output] = linear.shape[2:]
            matrix = linear.reshape(len(linear), width, -1)
            fixed = operator.constant_magnitude(shape, constants)
            fixed = fixed.reshape(len(fixed), -1)
            # The operator's own: constants may cancel, but are rounded all the same.
            moves = operator.roundings(shape, graph.shapes) == 0
            source, own = node.inputs[0], operator.regrouping_bound(constants)
            terms[node.output] = terms[source] + count_terms(matrix, moves)
            runs[node.output] = (
                runs.get(source) or Fused(source)
                if moves
                else after(runs.get(source), source, matrix, fixed, own)
            )
            steps.append(
                _Step(
                    (source,),
                    node.output,
                    np.broadcast_to(matrix, (count, *matrix.shape[1:])),
                    np.broadcast_to(fixed, (count, fixed.shape[1])),
                    moves,
                    run=runs[node.output],
                )
            )
        else:
            steps.append(_Step(tuple(node.inputs[:1]), node.output))
    return MarginProgram(graph, tuple(steps), numbers)


def _product(matrix: Floats, which: Integers, values: Floats) -> Floats:
    if len(matrix) == 1:
        alike: Floats = values @ matrix[0]
        return alike
    found: Floats = np.matmul(values[:, None, :], matrix[which])[:, 0]
    return found
