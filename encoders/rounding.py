"""Distance of float32 scores from exact ones, by one analysis for all linear forms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders.box import Box
from leaveout.encoders.interval import Interval, gamma
from leaveout.kernel.float32 import FOLDED, norm_errors, softmax_errors
from leaveout.kernel.smooth import KIND, Curve, declared_error
from leaveout.models.graph import Graph, Join
from leaveout.models.lowering import stacked_constants
from leaveout.models.matrices import Matrices, Sparse, numbers, settle
from leaveout.models.onnx.operators import Affine, Normal, Relu, Smooth
from leaveout.models.onnx.operators.arithmetic import Scale
from leaveout.models.onnx.operators.shape import Reduce
from leaveout.models.onnx.operators.window import AveragePool, GlobalAveragePool

_GROUPINGS = 4.0  # operations per operator of a chain that combining its constants may add


@dataclass(frozen=True)
class Chain:
    """Linear operators up to a given one without an activation in between.

    A runtime may fuse them, rounding products of constants: one more relative rounding, but
    underflow is lost whole, times the input and all other constants. Behind a product it may fuse
    those before: onnxruntime multiplies first and scales later.
    """

    head: str  # the tensor read by the first operator
    factor: float = 1.0
    constant: float = 0.0  # sum of the operators' constants, in absolute values
    factors: tuple[Chain, ...] = ()  # of the head, if it is a product
    squares: tuple[Chain, ...] = ()  # of the head, if it is a sum of products

    def product(self, values: Mapping[str, Floats]) -> float:
        """Bound the head if it is a product and its factors' scales wait; else return 0."""
        most = sum(each.reach(values, waits=False) for each in self.factors)
        return most * most + sum(each.product(values) for each in self.squares)

    def reach(self, values: Mapping[str, Floats], *, waits: bool = True) -> float:
        """Bound all intermediate results in any grouping, at least 1, by the head's sizes.

        Underflow moves the result by at most ``reach`` times the smallest normal float32.
        """
        head = float(values[self.head][-2].sum())
        if waits:
            head = max(head, self.product(values))
        return max(1.0, head + self.constant) * self.factor

    def after(self, sums: Sums, regrouped: float) -> Chain:
        """Return the chain with one more operator."""
        largest = max(1.0, float(sums.factors.max(initial=0.0)))
        return replace(
            self,
            factor=self.factor * _GROUPINGS * max(1, sums.terms) * largest * regrouped,
            constant=self.constant + float(sums.constant.sum()),
        )


Parameters = Mapping[str, NDArray[np.floating]]

_CHUNK = 64  # most networks stacked at once
_NUMBERS = 2**24  # most numbers in these, if there are several networks


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums of products of a linear operator."""

    sides: Matrices  # positive and negative parts, or both in one: shape (2 or 1, inputs, outputs)
    constant: Floats  # of each side, shape (2 or 1, outputs)
    rounds: bool  # whether it does more than move numbers
    chain: Chain  # including the linear operators before it
    folded: bool  # whether a runtime may fold it into one before it
    shift: Floats | None = None  # shape (outputs,)

    @property
    def factors(self) -> Floats:
        """The stored numbers of each side."""
        return self.sides.values if isinstance(self.sides, Sparse) else self.sides

    @cached_property
    def present(self) -> Matrices:
        """Return 1 where there is a term, shape (1, inputs, outputs) of float32."""
        return _present(self.sides)

    @cached_property
    def back(self) -> Matrices:
        """Return the sides from outputs to inputs."""
        return self.sides.transpose(0, 2, 1)

    @cached_property
    def terms(self) -> int:
        """Return the most terms that an output of any network has."""
        return _most_terms(self.present)

    @cached_property
    def copies(self) -> bool:
        """Whether outputs are one input at most, times a power of two or its negative."""
        mantissas = np.frexp(self.factors[self.factors > 0])[0]
        return self.terms <= 1 and bool((mantissas == 0.5).all())

    def through(self, values: Floats) -> Floats:
        """Return the products of each side with some rows, shape (2 or 1, p, outputs)."""
        return np.asarray(values[None] @ self.sides)


def _present(sides: Matrices) -> Matrices:
    if isinstance(sides, Sparse):
        there = _ones(sides.values)
        return Sparse(sides.starts, sides.columns, there, sides.width)
    return _ones(sides)


def _ones(sides: Floats) -> Floats:
    """Return 1 where any side is positive, as float32: counts below 2^24 are exact."""
    return cast(Floats, np.asarray((sides > 0).any(axis=0, keepdims=True), np.float32))


def _most_terms(present: Matrices) -> int:
    ones = np.ones((1, 1, present.shape[1]))
    return int((ones @ present).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class Step:
    """An operator: linear if it has sums, a join if it has a sign, else an activation."""

    inputs: tuple[str, ...]
    output: str
    sums: Sums | None = None
    sign: int = 0
    terms: int = 1
    chain: Chain | None = None  # of a join of two squares
    kind: int = 0  # of an activation
    groups: Integers | None = None  # of what was normalised: see `leaveout.kernel.float32.Rounding`


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Networks of one graph as a runtime evaluates them, operator by operator."""

    graph: Graph
    steps: tuple[Step, ...]
    signed: bool  # whether it is a single network, so that positive and negative parts are separate

    @property
    def sides(self) -> int:
        """Number of parts of a value."""
        return 2 if self.signed else 1


def evaluation_of(graph: Graph, parameters: Parameters, deadline: Deadline = NEVER) -> Evaluation:
    """Return the evaluation of one network."""
    if any(len(parameters[name]) != 1 for name in graph.parameters):
        raise ValueError("terms of several networks cannot be distinguished by sign")
    return _evaluation(graph, parameters, deadline, signed=True)


def evaluation_of_any(
    graph: Graph, parameters: Parameters, deadline: Deadline = NEVER
) -> Evaluation:
    """Return an evaluation whose absolute values bound those of several networks."""
    return _evaluation(graph, parameters, deadline, signed=False)


def _evaluation(
    graph: Graph, parameters: Parameters, deadline: Deadline, *, signed: bool
) -> Evaluation:
    shapes = {graph.input: graph.input_shape}
    chains: dict[str, Chain] = {}
    joined: dict[str, tuple[str, ...]] = {}
    squares: set[str] = set()
    # Most terms in any tensor's sums since the last ReLU.
    terms = {graph.input: 0}
    steps = []
    for node in graph.needed_nodes():
        first, out, operator = node.inputs[0], node.output, node.operator
        terms[out] = 0
        shape = shapes[out] = shapes[first]
        if isinstance(operator, Affine):
            sides, constant, shapes[out], regrouped = _largest(
                operator, graph, parameters, shape, deadline, signed=signed
            )
            deadline.check()
            # The operator's own: constants may cancel in its matrix, but are rounded all the same.
            rounds = operator.roundings(shape, graph.shapes) > 0
            before = chains.get(first) or Chain(first)
            shift = _shift(operator, graph, parameters, shape, sides) if signed else None
            sums = Sums(sides, constant, rounds, before, terms[first] > 0, shift)
            if rounds:
                sums = replace(sums, chain=before.after(sums, regrouped))
            chains[out] = sums.chain
            steps.append(Step((first,), out, sums))
            terms[out] = terms[first] + (sums.terms + 1) * rounds
        elif isinstance(operator, Join):
            terms[out] = 1 + sum(terms[each] for each in node.inputs)
            joined[out] = node.inputs
            if squares.issuperset(node.inputs):
                chains[out] = Chain(out, squares=tuple(chains[each] for each in node.inputs))
            steps.append(
                Step(node.inputs, out, sign=operator.sign, terms=terms[out], chain=chains.get(out))
            )
        elif isinstance(operator, Normal):
            steps.append(Step(node.inputs, out, groups=operator.groups(shape)))
        else:
            assert isinstance(operator, Relu | Smooth)
            if operator.kind == KIND["Square"]:
                # Of a sum it is part of a product.
                own = tuple(chains.get(each) or Chain(each) for each in joined.get(first, (first,)))
                chains[out] = Chain(out, factors=own)
                squares.add(out)
            steps.append(Step((first,), out, kind=operator.kind))
    return Evaluation(graph, tuple(steps), signed)


def _largest(
    operator: Affine,
    graph: Graph,
    parameters: Parameters,
    shape: tuple[int, ...],
    deadline: Deadline,
    *,
    signed: bool,
) -> tuple[Matrices, Floats, tuple[int, ...], float]:
    """Return an operator's largest absolute values over the networks, and its shape."""
    count = max((len(parameters[name]) for name in graph.parameters), default=1)
    step = max(1, min(_CHUNK, _NUMBERS // max(1, operator.entries(shape, graph.shapes))))
    sides, constant, regrouped = np.zeros(1), np.zeros(1), 1.0
    matrices: Matrices = sides
    after = operator.shape_after(shape, graph.shapes)
    for start in range(0, count, step):
        chunk = {name: parameters[name][start : start + step] for name in graph.parameters}
        constants = stacked_constants(graph, chunk)
        deadline.check()
        matrix = operator.matrix(shape, constants)
        deadline.check()
        matrices = settle(matrix.transpose(0, 2, 1), len(matrix))
        stored = matrices.values if isinstance(matrices, Sparse) else matrices
        most = stored.max(axis=0), -stored.min(axis=0)
        found = np.stack(most if signed else [np.maximum(*most)])
        sides = np.maximum(found, sides, out=found)
        deadline.check()
        size = operator.constant_magnitude(shape, constants)
        if signed:
            # Positive and negative terms: their sum is the size, their difference the constant.
            own = operator.apply(np.zeros((1, 1, *shape)), constants, True)[:, 0]
            size = np.maximum(np.stack([size + own, size - own]), 0.0) / 2
        fixed = size.max(axis=-1 - len(after)).reshape(2 if signed else 1, -1)
        constant = np.maximum(constant, fixed)
        regrouped = max(regrouped, operator.regrouping_bound(constants))
    if isinstance(matrices, Sparse):
        matrices = Sparse(matrices.starts, matrices.columns, sides, matrices.width)
    else:
        matrices = sides
    return matrices, constant, after, regrouped


def _shift(
    operator: Affine, graph: Graph, parameters: Parameters, shape: tuple[int, ...], sides: Matrices
) -> Floats | None:
    """Return the constant that a single network's operator adds; None if it is rounded."""
    if not operator.exact:
        # Means and quotients: exact if they divide by powers of two.
        divides = isinstance(operator, AveragePool | GlobalAveragePool | Reduce | Scale)
        mantissas = np.frexp(numbers(sides))[0]
        if not divides or not ((mantissas == 0.0) | (mantissas == 0.5)).all():
            return None
    constants = stacked_constants(graph, parameters)
    return np.asarray(operator.apply(np.zeros((1, 1, *shape)), constants, True).reshape(-1))


_UNIT32 = 2.0**-24
_LARGEST32 = float(np.finfo(np.float32).max)
_TINY32 = float(np.finfo(np.float32).tiny)

_SLACK_EACH = 6
"""Roundings allowed beyond the product of each term: a runtime's scalings, folds and fusions."""

_CLEARLY = 1e-6
"""A phase counts as known only by this margin, so that other roundings see the same phase."""

_TOGETHER = 256  # most forms whose slopes are computed at once

_NEGATED = np.array([1, 0, 2, 3])
"""Indices of the positive part, negative part, size and error of a negated value."""


@dataclass(frozen=True, eq=False)
class RoundingError:
    """Bounds of the rounding error in a region."""

    evaluation: Evaluation
    # Positive and negative part, of a single network alone; the sum of all absolute terms since the
    # last activation; the error: shape (4 or 2, width).
    values: dict[str, Floats]
    local: dict[str, Floats]  # shape (width,)
    slope: dict[str, tuple[Floats, Floats]]
    finite: bool
    deadline: Deadline = NEVER

    def of_forms(self, forms: Floats) -> Floats:
        """Bound the effect of rounding on ``forms @ scores``, the forms being evaluated exactly."""
        if not self.finite:
            return np.full(len(forms), np.inf)
        parts = range(0, max(1, len(forms)), _TOGETHER)
        moved = [self._form_error(forms[start : start + _TOGETHER]) for start in parts]
        return self._pad(np.concatenate(moved))

    def of_margins(self, label: int, rivals: Sequence[int]) -> float:
        """Bound ``|float32 margin - exact margin|`` over all given rivals."""
        if not self.finite:
            return math.inf
        size, others = self._size, np.asarray(rivals, np.int64)
        forms = np.zeros((len(others), len(size)))
        forms[:, label] = 1.0
        forms[np.arange(len(others)), others] = -1.0
        # The margin adds one subtraction of two computed scores.
        last = _UNIT32 * (size[label] + size[others]) + _TINY32
        return float(self._pad(self._form_error(forms) + last).max(initial=0.0))

    def of_confidence(self) -> float:
        """Bound ``|float32 confidence - exact confidence|``, for any label."""
        if not self.finite:
            return math.inf
        error = self.values[self.evaluation.graph.output][-1]
        two, sizes = np.sort(error)[-2:].sum(), np.sort(self._size)[-2:].sum()
        return float(self._pad(two + _UNIT32 * sizes + _TINY32))

    @property
    def _size(self) -> Floats:
        """The largest absolute value of each computed score."""
        sides = self.values[self.evaluation.graph.output][: self.evaluation.sides]
        return np.asarray(sides.max(axis=0))

    def _pad(self, found: Floats) -> Floats:
        """Pad a bound for the rounding of its own computation."""
        # All rounded numbers here are sums of non-negative ones.
        longest = self.values[self.evaluation.graph.input].shape[1]
        longest += sum(s.sums.constant.size + 4 for s in self.evaluation.steps if s.sums)
        return found * (1.0 + FOLDED + gamma(8 * longest + 64)) + _TINY32

    def _form_error(self, forms: Floats) -> Floats:
        """Bound the difference between forms of computed and of exact scores.

        A sum's error moves a form by the form's slope in that sum; several networks have no common
        slopes, so absolute errors are added instead.
        """
        graph = self.evaluation.graph
        # A score may be a denormal, which is flushed when it is read.
        total: Floats = _TINY32 * np.abs(forms).sum(axis=1)
        if not self.evaluation.signed:
            return np.asarray(total + np.abs(forms) @ self.values[graph.output][-1])
        slopes: dict[str, tuple[Floats, Floats]] = {graph.output: (forms, forms)}
        for step in reversed(self.evaluation.steps):
            if step.output not in slopes:
                continue
            self.deadline.check()
            low, high = slopes.pop(step.output)
            if step.output in self.local:
                total += np.maximum(np.abs(low), np.abs(high)) @ self.local[step.output]
            if step.groups is not None or (step.sums and step.inputs[0] == graph.input):
                continue
            for source, pulled in zip(
                step.inputs, self._input_slopes(step, low, high), strict=True
            ):
                known = slopes.get(source)
                slopes[source] = (
                    pulled if known is None else (known[0] + pulled[0], known[1] + pulled[1])
                )
        return total

    def _input_slopes(self, step: Step, low: Floats, high: Floats) -> list[tuple[Floats, Floats]]:
        """Return the slopes in an operator's inputs, from those in its output."""
        if step.sign:
            return [(low, high), (low, high) if step.sign > 0 else (-high, -low)]
        if not step.sums:
            least, most = self.slope[step.output]
            if step.kind:
                found = [one * other for one in (low, high) for other in (least, most)]
                return [(np.minimum.reduce(found), np.maximum.reduce(found))]
            return [(low * np.where(low < 0, most, least), high * np.where(high > 0, most, least))]
        count = len(low)
        rows = np.concatenate([low, high, np.maximum(np.abs(low), np.abs(high))])
        up, down = rows[None] @ step.sums.back
        pad = gamma(2 * low.shape[1] + 4) * (up[2 * count :] + down[2 * count :])
        below, above = up[:count] - down[count : 2 * count], up[count : 2 * count] - down[:count]
        return [(below - pad, above + pad)]


@np.errstate(over="ignore", invalid="ignore")
def rounding_error(
    evaluation: Evaluation, bounds: Sequence[Interval], box: Box, deadline: Deadline = NEVER
) -> RoundingError:
    """Propagate float32 evaluation through a region.

    `OverdueError` is raised at a deadline, by the methods of what is returned too.
    """
    source, signed = evaluation.graph.input, evaluation.signed
    above, below = np.maximum(box.upper, 0.0), np.maximum(-box.lower, 0.0)
    sides = [above, below] if signed else []
    values = {source: np.stack([*sides, np.maximum(above, below), np.zeros(box.dimension)])}
    local: dict[str, Floats] = {}
    slope: dict[str, tuple[Floats, Floats]] = {}
    lows: dict[str, Floats] = {}
    fine, layer = {source: True}, 0
    for step in evaluation.steps:
        deadline.check()
        first, out = values[step.inputs[0]], step.output
        fine[out] = all(fine[each] for each in step.inputs[: 2 if step.sign else 1])
        if step.sums or step.sign:
            value, local[out] = _value_and_error(step, values, signed)
            value += local[out]
        elif step.groups is not None:
            whole, fine[out] = values[step.inputs[1]], fine[step.inputs[1]]
            if len(step.inputs) == 2:
                most, error = softmax_errors(step.groups, whole[None, -1])
            else:
                most, error, sound = norm_errors(
                    step.groups, whole[None, -1], whole[None, -2], lows[step.inputs[2]][None],
                )  # fmt: skip
                fine[out] &= bool(sound.all())
            value, local[out] = np.concatenate([*[most] * (len(first) - 1), error]), error[0]
        elif step.kind:
            known = np.where(np.isfinite(first[-1]), first[-1], 0.0)
            value, local[out], slope[out] = _curve(step.kind, bounds[layer], known, signed)
            lows[out], layer = bounds[layer].lower, layer + 1
            fine[out] &= bool(np.isfinite(first[-1]).all())
        else:
            exact, error = bounds[layer], first[-1]
            layer += 1
            value = np.zeros(first.shape)
            value[0] = np.minimum(first[0], np.maximum(exact.upper, 0.0) + error)
            value[-2:] = value[0], error
            if signed:
                room = _CLEARLY * (np.abs(exact.lower) + np.abs(exact.upper) + error)
                off = exact.upper + error <= -room
                value[:, off] = 0.0
                slope[out] = (exact.lower - error > room).astype(float), (~off).astype(float)
        values[out] = value
        fine[out] &= bool(value[: evaluation.sides].sum(axis=0).max() < _LARGEST32)
    finite = fine[evaluation.graph.output]
    return RoundingError(evaluation, values, local, slope, finite, deadline)


def _curve(
    kind: int, exact: Interval, error: Floats, signed: bool
) -> tuple[Floats, Floats, tuple[Floats, Floats]]:
    """Return a smooth activation's value, what a runtime adds to it, and its slopes."""
    curve = Curve.of(kind)
    low = np.maximum(exact.lower - error, curve.function.least)
    high = np.maximum(low, exact.upper + error)
    bottom, top = curve.ends(low, high)
    most, least = (
        np.maximum(top - curve.function.floor, 0.0),
        np.maximum(curve.function.floor - bottom, 0.0),
    )
    added = declared_error(kind, np.maximum(np.abs(low), np.abs(high)), np.maximum(most, least))
    slopes = curve.steepness(low, high)
    passed = error * np.maximum(*map(np.abs, slopes)) + added
    sides = [most + added, least + added] if signed else []
    return np.stack([*sides, np.maximum(most, least) + added, passed]), added, slopes


def _value_and_error(
    step: Step, values: Mapping[str, Floats], signed: bool
) -> tuple[Floats, Floats]:
    """Return an operator's exact result, and a bound of its rounding error."""
    first, sums = values[step.inputs[0]], step.sums
    if sums is None:
        second = values[step.inputs[1]]
        value = first + (second.take(_NEGATED, axis=0) if signed and step.sign < 0 else second)
        reach = max(1.0, step.chain.product(values)) if step.chain else 1.0
        if not reach < _LARGEST32:
            return value, np.full(value.shape[1], np.inf)
        return value, _rounding(value, np.full(1, float(step.terms)), reach, folded=True)
    parts = sums.through(first)
    value = parts[0]
    if signed:
        value += parts[1].take(_NEGATED, axis=0)
        value[:2] += sums.constant
    value[-2] += sums.constant.sum(axis=0)
    if not sums.rounds:
        return value, np.zeros(value.shape[1])
    reach = sums.chain.reach(values)
    if not reach < _LARGEST32:
        return value, np.full(value.shape[1], np.inf)
    live = (first[-2] > 0).astype(np.float32)
    terms = (live[None, None] @ sums.present)[0, 0].astype(np.float64)
    return value, _rounding(value, terms, reach, folded=sums.folded)


def _rounding(value: Floats, terms: Floats, reach: float, *, folded: bool) -> Floats:
    """Bound the rounding error of sums of products whose terms are not 0, as the kernel does.

    Products and fused constants round relative to themselves, additions relative to partial sums,
    which the positive or negative terms bound; where operators are folded, a sum for each input
    comes first, which may have terms of one sign. Underflow, including flushed denormals, loses a
    whole term, times its later factors.
    """
    size = value[-2]
    sums = size if folded or len(value) == 2 else value[:2].max(axis=0)
    absolute = (1 + _SLACK_EACH) * size + terms * sums
    operations = 2 * (terms + 2 + 2 * _SLACK_EACH)
    lost = operations * _TINY32 * reach
    few = operations * _UNIT32 < 0.5
    kept = np.where(few, 1.0 - operations * _UNIT32, 1.0)
    return np.where(few, (_UNIT32 * absolute + lost) / kept, np.inf)


def confidence_error(
    graph: Graph,
    parameters: Mapping[str, NDArray[np.floating]],  # shape (m, *shape)
    bounds: Sequence[Interval],
    box: Box,
) -> float:
    """Bound ``|float32 confidence - exact confidence|`` over the box, for all labels."""
    return rounding_error(evaluation_of_any(graph, parameters), bounds, box).of_confidence()
