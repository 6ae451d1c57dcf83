"""Bounds of float32 confidence errors: running error analysis, node by node.

Every operator of the file turns an error e and a magnitude v of its input into ``|W| e + gamma (|W|
v + |b|)`` in float32, whatever the order of summation (Higham, section 3.1); a ReLU increases
neither. Known bounds of activations keep magnitudes small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.models.graph import Graph, Join
from leaveout.models.lowering import stacked_constants
from leaveout.models.onnx.operators import Affine
from leaveout.verifier.checker.arithmetic import TINY32, UNIT32, Arithmetic, gamma

_WAYS = 4.0
"""Operations per operator of a run that regrouping its constants may add."""


@dataclass(frozen=True)
class Fused:
    """Linear operators up to a given one without an activation in between."""

    head: str  # the tensor read by the first operator
    factor: float = 1.0
    added: float = 0.0  # sum of the operators' constants, in absolute values

    def most(self, head: Floats) -> Floats:
        """Bound intermediate results, by at least 1, shape (n,)."""
        return np.asarray(np.maximum(1.0, head.sum(axis=1) + self.added) * self.factor)

    def merge_with(self, other: Fused) -> Fused:
        """Return a run that bounds the runs of two networks."""
        return Fused(self.head, max(self.factor, other.factor), max(self.added, other.added))


def after(
    run: Fused | None, source: str, matrix: Floats, constant: Floats, regrouped: float
) -> Fused:
    """Return a run with one more operator."""
    known = run or Fused(source)
    terms = max(1, int(np.count_nonzero(matrix, axis=1).max(initial=0)))
    largest = max(1.0, float(np.abs(matrix).max(initial=0)))
    added = float(np.abs(constant).sum(axis=1).max(initial=0))
    return Fused(
        known.head, known.factor * _WAYS * terms * largest * regrouped, known.added + added
    )


_MORE = 8
"""Roundings that a runtime may add to a sum: scalings, folds and fusions."""

_CHUNK = 64
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class _Step:
    """One operator; affine if it has a matrix, and rounded unless it only moves numbers.

    A join may be computed as one sum with its inputs' sums, of ``terms`` terms in total.
    """

    inputs: tuple[str, ...]
    output: str
    matrix: Floats | None = None
    constant: Floats | None = None
    run: Fused | None = None
    moves: bool = False
    terms: int = 1


@dataclass(frozen=True, eq=False)
class Program:
    """The operators of some networks of one architecture, in absolute values."""

    graph: Graph
    steps: tuple[_Step, ...]  # matrices have shape (m, inputs, outputs), constants (m, outputs)
    arithmetic: Arithmetic

    def errors(self, which: NDArray[np.int64], inputs: Floats, known: Sequence[Floats]) -> Floats:
        """Bound ``|float32 confidence - exact confidence|`` for any label, shape (n,).

        Parameters are those of `score_errors`.
        """
        size, error, finite = self._scores(which, inputs, known)
        two = self._number(np.sort(error, axis=1)[:, -2:]).sum(axis=1)
        scores = self._number(np.sort(size, axis=1)[:, -2:]).sum(axis=1)
        return np.where(finite, self._pad(two + UNIT32 * scores + TINY32), math.inf)

    def score_errors(
        self, which: NDArray[np.int64], inputs: Floats, known: Sequence[Floats]
    ) -> Floats:
        """Bound the distance of each float32 score, as read, from the exact one; (n, labels)."""
        _, error, finite = self._scores(which, inputs, known)
        found = self._pad(self._number(error) + TINY32)
        return np.where(finite[:, None], found, math.inf)

    def _pad(self, found: Floats) -> Floats:
        """Pad errors for the rounding of their own computation."""
        # All sums are of non-negative numbers; one factor covers their float64 rounding.
        longest = sum(step.matrix.shape[1] + 4 for step in self.steps if step.matrix is not None)
        return self._up(found * (1 + gamma(4 * longest + 64)) + TINY32)

    def _number(self, values: Floats) -> Floats:
        return self.arithmetic.number(values)

    def _up(self, values: Floats) -> Floats:
        return self.arithmetic.up(values)

    def _scores(
        self, which: NDArray[np.int64], inputs: Floats, known: Sequence[Floats]
    ) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Bound absolute values of scores, and their errors; also return where these are known."""
        size = {self.graph.input: inputs}
        error = {self.graph.input: np.zeros_like(inputs)}
        finite = np.ones(len(inputs), bool)
        layer = 0
        for step in self.steps:
            first = step.inputs[0]
            if step.matrix is not None and step.constant is not None:
                terms = self._through(step, which, size[first]) + step.constant[which]
                passed = self._through(step, which, error[first])
                if step.moves:
                    rounding = np.zeros(terms.shape)
                else:
                    counts = np.count_nonzero(step.matrix, axis=1).max(axis=1, initial=0) + _MORE
                    relative = np.array([gamma(int(count), UNIT32) for count in counts])
                    assert step.run is not None
                    most = step.run.most(size[step.run.head])
                    finite &= most < _LARGEST
                    # Underflow loses a whole term, once per rounding, times its later factors.
                    lost = counts[which] * TINY32 * most
                    rounding = relative[which][:, None] * terms + lost[:, None]
                size[step.output] = self._up(terms + rounding)
                error[step.output] = self._up(passed + rounding)
            elif len(step.inputs) == 2:
                total = self._number(size[first]) + size[step.inputs[1]]
                # Where denormals are flushed, both inputs may be denormals, and so may the result.
                rounding = gamma(step.terms, UNIT32) * total + (2 + step.terms) * TINY32
                size[step.output] = self._up(total + rounding)
                passed = self._number(error[first]) + error[step.inputs[1]]
                error[step.output] = self._up(passed + rounding)
            else:
                upper = self._number(np.maximum(known[layer], 0.0)) + error[first]
                upper = self._up(upper)
                layer += 1
                size[step.output] = np.minimum(size[first], upper)
                error[step.output] = error[first]
            finite &= (size[step.output] < _LARGEST).all(axis=1)
        top = self.graph.output
        return size[top], error[top], finite

    def _through(self, step: _Step, which: NDArray[np.int64], values: Floats) -> Floats:
        assert step.matrix is not None
        values = self._number(values)
        if len(step.matrix) == 1:
            alike: Floats = values @ step.matrix[0]
            return alike
        found: Floats = np.matmul(values[:, None, :], step.matrix[which])[:, 0]
        return found


def count_terms(matrix: Floats, moves: bool) -> int:
    """Return the most terms that an operator sums, including its constant."""
    most = np.count_nonzero((matrix != 0).any(axis=0), axis=0).max(initial=0)
    return 0 if moves else int(most) + 1


def program_of(
    graph: Graph, parameters: Mapping[str, NDArray[np.floating]], numbers: Arithmetic
) -> Program:
    """Return the program of some networks."""
    constants = stacked_constants(graph, parameters)
    count = max((len(parameters[name]) for name in graph.parameters), default=1)
    shapes = {graph.input: graph.input_shape}
    runs: dict[str, Fused] = {}
    terms = {graph.input: 0}
    steps = []
    for node in graph.needed_nodes():
        shape = shapes[node.inputs[0]]
        if not isinstance(node.operator, Affine):
            shapes[node.output], terms[node.output] = shape, 0
            inputs = node.inputs if isinstance(node.operator, Join) else node.inputs[:1]
            if len(inputs) == 2:
                terms[node.output] = 1 + terms[inputs[0]] + terms[inputs[1]]
            steps.append(_Step(inputs, node.output, terms=max(1, terms[node.output])))
            continue
        width = math.prod(shape)
        linear = node.operator.apply(np.eye(width).reshape(1, width, *shape), constants, False)
        shapes[node.output] = linear.shape[2:]
        matrix = np.abs(linear).reshape(len(linear), width, -1)
        fixed = node.operator.constant_magnitude(shape, constants)
        fixed = fixed.reshape(len(fixed), -1)
        # The operator's own: constants may cancel, but are rounded all the same.
        moves = node.operator.roundings(shape, graph.shapes) == 0
        source, own = node.inputs[0], node.operator.regrouping_bound(constants)
        terms[node.output] = terms[source] + count_terms(matrix, moves)
        runs[node.output] = (
            runs.get(source) or Fused(source)
            if moves
            else after(runs.get(source), source, matrix, fixed, own)
        )
        steps.append(
            _Step(
                node.inputs,
                node.output,
                np.broadcast_to(matrix, (count, *matrix.shape[1:])),
                np.broadcast_to(fixed, (count, matrix.shape[2])),
                runs[node.output],
                moves,
            )
        )
    return Program(graph, tuple(steps), numbers)


def largest_program(
    graph: Graph, parameters: Mapping[str, NDArray[np.floating]], numbers: Arithmetic
) -> Program:
    """Return one program that bounds those of all the networks, read a few at a time."""
    count = max((len(parameters[name]) for name in graph.parameters), default=1)
    steps: tuple[_Step, ...] = ()
    for i in range(0, count, _CHUNK):
        part = {name: parameters[name][i : i + _CHUNK] for name in graph.parameters}
        steps = tuple(
            _merge_steps(step, steps[j] if steps else None)
            for j, step in enumerate(program_of(graph, part, numbers).steps)
        )
    return Program(graph, steps, numbers)


def _merge_steps(step: _Step, known: _Step | None) -> _Step:
    """Return a step that bounds two networks' steps."""
    if step.matrix is None or step.constant is None:
        return step if known is None or known.terms <= step.terms else known
    matrix = step.matrix.max(axis=0, keepdims=True)
    constant = step.constant.max(axis=0, keepdims=True)
    if known is not None and known.matrix is not None and known.constant is not None:
        matrix = np.maximum(matrix, known.matrix)
        constant = np.maximum(constant, known.constant)
    run = step.run
    if run is not None and known is not None and known.run is not None:
        run = run.merge_with(known.run)
    return _Step(step.inputs, step.output, matrix, constant, run, step.moves)
