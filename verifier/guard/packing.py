"""Members in normal form, one row of numbers each, for compiled loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab import Instance
from leaveout.bab.native.kernels.curve_tables import tables
from leaveout.bab.native.kernels.curves import curve
from leaveout.compiling import cached_njit
from leaveout.kernel.smooth import SLOPE, VALUE
from leaveout.models import Layer
from leaveout.models.activations import beside
from leaveout.models.matrices import dense

Curves = tuple[NDArray[np.int8], Floats, Floats]
"""By value, the kind of its activation (0 for a ReLU); knots of all kinds; data by kind:
`curve_tables.tables`, then the steepest slope and the largest second derivative."""

_FLOOR, STEEPEST, CURVATURE = 5, -2, -1
"""Columns of the data."""

STRAIGHT: Curves = (np.zeros(0, np.int8), np.zeros((1, 1, 2)), np.zeros((1, 1)))
"""What is known of networks without smooth activations."""


@dataclass(frozen=True, eq=False)
class Packed:
    """N and the members, laid out for the kernels."""

    weights: NDArray[np.floating]  # shape (m, numbers of a member)
    biases: NDArray[np.floating]  # shape (m, numbers of a member)
    own_weights: Floats  # shape (numbers of a member,): of N
    own_biases: Floats  # shape (numbers of a member,): of N
    plan: NDArray[np.int64]  # shape (steps, 8): see `kernels.find_leak`
    values: int  # numbers that the input and all layers take
    curves: Curves
    spread: Floats  # shape (layers, 2): steepest slope, and norm of what tables are off by

    @property
    def own(self) -> Floats:
        """All numbers of N, biases last, shape (numbers of a member,)."""
        return np.concatenate([self.own_weights, self.own_biases])

    def apart(self, chosen: NDArray[np.int64]) -> Floats:
        """Return chosen members minus N, shape (chosen, numbers of a member)."""
        weights = self.weights.shape[1]
        found = np.empty((len(chosen), weights + self.biases.shape[1]))
        np.subtract(self.weights[chosen], self.own_weights, out=found[:, :weights])
        np.subtract(self.biases[chosen], self.own_biases, out=found[:, weights:])
        return found


def pack(instance: Instance) -> Packed:
    """Lay out a network and its members."""
    layers = instance.network.stack.layers
    starts = [0, instance.network.inputs]
    for layer in layers:
        starts.append(starts[-1] + layer.width)
    plan = []
    weight = bias = 0
    for k, layer in enumerate(layers, start=1):
        sources = sorted(layer.weights)
        for place, source in enumerate(sources):
            inputs = starts[source + 1] - starts[source]
            last = place == len(sources) - 1
            plan.append(
                (weight, starts[source], inputs, starts[k], layer.width,
                 -1 if place else bias, last, _mode(layer, last=k == len(layers)))
            )  # fmt: skip
            weight += inputs * layer.width
        bias += layer.width
    count = len(instance.family)
    # Float32 as long as that is what the members are: nothing was folded into them.
    weights: NDArray[np.floating] = np.zeros((count, weight), np.float32)
    biases: NDArray[np.floating] = np.zeros((count, bias), np.float32)
    for chosen, stack in instance.members.chunks():
        flat = np.concatenate([_flat(layer) for layer in stack.layers], axis=1)
        shifts = np.concatenate([layer.bias for layer in stack.layers], axis=1)
        if weights.dtype == np.float32 and not (_is_single(flat) and _is_single(shifts)):
            weights, biases = weights.astype(np.float64), biases.astype(np.float64)
        weights[chosen], biases[chosen] = flat, shifts
    return Packed(
        weights,
        biases,
        np.concatenate([_flat(layer)[0] for layer in layers]),
        np.concatenate([layer.bias[0] for layer in layers]),
        np.asarray(plan, np.int64),
        starts[-1],
        *_curves(instance.network.inputs, layers),
    )


NONE, RELUS, MIXED = 0, 1, 2
"""Activations after a layer."""


def _mode(layer: Layer, *, last: bool) -> int:
    return NONE if last else RELUS if layer.kinds is None else MIXED


def _curves(inputs: int, layers: Sequence[Layer]) -> tuple[Curves, Floats]:
    """Return the activations of a network's values, and what they spread by layer."""
    every = beside([(None, inputs), *((layer.kinds, layer.width) for layer in layers)])
    spread = np.tile([1.0, 0.0], (len(layers), 1))
    if every is None:
        return STRAIGHT, spread
    knots, data = tables()
    slopes = knots[..., 1]
    # A product has no table; no guard serves one.
    step = np.where(data[:, 0] > 0, data[:, 0], np.inf)
    # A third derivative of at most 8 lets the second one stray from its mean between two knots.
    bends = np.abs(np.diff(slopes)).max(axis=1) / step + 8.0 * step
    data = np.column_stack([data, np.abs(slopes).max(axis=1) + SLOPE, bends])
    for layer, found in zip(layers, spread, strict=True):
        if layer.kinds is not None:
            found[0] = data[layer.kinds, STEEPEST].max()
            found[1] = VALUE * np.sqrt(np.count_nonzero(layer.kinds))
    return (every, knots, data), spread


def _flat(layer: Layer) -> Floats:
    return np.concatenate(
        [
            dense(weights).transpose(0, 2, 1).reshape(len(layer.bias), -1)
            for _, weights in sorted(layer.weights.items())
        ],
        axis=1,
    )


def _is_single(values: Floats) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.array_equal(values, values.astype(np.float32)))


_FOURTH = 256
"""Widest layer whose spectral norms are bounded by the fourth powers of singular values, summed;
of wider ones it is the second powers, which take no products of matrices."""

_EXACT = 1024  # widest matrix of N whose spectral norm is computed

_UNIT = 2.0**-53

_SPARE = 1e-9  # share added for what float64 loses in sums of positive numbers


@dataclass(frozen=True, eq=False)
class Layout:
    """The position of each layer's numbers."""

    blocks: tuple[tuple[tuple[int, int, int], ...], ...]
    biases: tuple[tuple[int, int], ...]  # of each layer: first bias and end
    sources: tuple[tuple[int, ...], ...]
    weights: int  # how many a member has; biases follow

    @staticmethod
    def of(packed: Packed) -> Layout:
        """Return the layout of the kernels' plan."""
        starts: list[int] = [0]
        blocks: list[list[tuple[int, int, int]]] = []
        biases: list[tuple[int, int]] = []
        sources: list[list[int]] = []
        for at, first, inputs, out, width, shift, *_ in packed.plan.tolist():
            if shift >= 0:
                starts.append(out)
                blocks.append([])
                biases.append((shift, shift + width))
                sources.append([])
            blocks[-1].append((at, inputs, width))
            sources[-1].append(starts.index(first))
        return Layout(
            tuple(map(tuple, blocks)),
            tuple(biases),
            tuple(map(tuple, sources)),
            packed.weights.shape[1],
        )

    def columns(self, layer: int) -> Iterator[slice]:
        """Yield the slices of a layer's numbers in a row."""
        for at, inputs, width in self.blocks[layer]:
            yield slice(at, at + inputs * width)
        first, end = self.biases[layer]
        yield slice(self.weights + first, self.weights + end)

    def norms(self, rows: NDArray[np.floating]) -> Floats:
        """Return the Euclidean norm of each layer's numbers, shape (rows, layers)."""
        squares = [
            sum(np.einsum("ij,ij->i", rows[:, c], rows[:, c], dtype=np.float64) for c in columns)
            for columns in map(self.columns, range(len(self.blocks)))
        ]
        norms: Floats = np.sqrt(np.stack(squares, axis=1))
        return norms

    def matrix(self, rows: Floats, layer: int) -> Floats:
        """Return a layer's matrices, biases as a last row, shape (rows, inputs + 1, outputs)."""
        parts = [
            rows[:, at : at + inputs * width].reshape(len(rows), inputs, width)
            for at, inputs, width in self.blocks[layer]
        ]
        first, end = self.biases[layer]
        parts.append(rows[:, None, self.weights + first : self.weights + end])
        return np.concatenate(parts, axis=1)

    def rounding(self, rows: Floats) -> Floats:
        """Bound float64 rounding in a product with a layer, per unit of vector norm.

        The bound exceeds that of sums of as many terms in any grouping.
        """
        terms = [sum(inputs for _, inputs, _ in each) + each[0][2] + 64 for each in self.blocks]
        return np.asarray(self.norms(rows) * terms * (4.0 * _UNIT))

    def spectral_norms(self, rows: Floats) -> Floats:
        """Bound the spectral norm of each layer, biases included, shape (rows, layers)."""
        found = self.norms(rows)
        for layer, blocks in enumerate(self.blocks):
            if len(found) and max(sum(b[1] for b in blocks), blocks[0][2]) < _FOURTH:
                matrix = self.matrix(rows, layer)
                if matrix.shape[1] < matrix.shape[2]:
                    matrix = matrix.transpose(0, 2, 1)
                # Scaled, so that powers neither overflow nor vanish; of zeros nothing.
                size = np.where(found[:, layer] > 0, found[:, layer], 1.0)
                square = matrix / size[:, None, None]
                square = square.transpose(0, 2, 1) @ square
                power = np.einsum("ijk,ijk->i", square, square) ** 0.25
                found[:, layer] = np.fmin(found[:, layer], power * size * (1.0 + 1e-6))
        return np.asarray(found * (1.0 + _SPARE))

    def matrix_norms(self, row: Floats) -> Floats:
        """Bound the spectral norm of each matrix, by layer and source."""
        found = []
        for blocks in self.blocks:
            for at, inputs, width in blocks:
                matrix = row[at : at + inputs * width].reshape(inputs, width)
                order = 2 if max(inputs, width) <= _EXACT else None
                found.append(np.linalg.norm(matrix, order) * (1.0 + _SPARE))
        return np.asarray(found)

    @property
    def reads(self) -> NDArray[np.int64]:
        """The sources of each layer: offsets of the lists, then all lists."""
        ends = np.cumsum([0, *(len(each) for each in self.sources)])
        return np.concatenate([ends, *self.sources]).astype(np.int64)


def round_up(values: Floats) -> NDArray[np.float32]:
    """Return strictly greater float32 numbers; infinite beyond float32's range."""
    with np.errstate(over="ignore"):
        return np.nextafter(values.astype(np.float32), np.float32(np.inf))


FAULTLESS, NOT_FINITE, OUTSIDE = 0, 1, 2
"""What `screen` finds."""


@cached_njit(nogil=True)
def screen(x: NDArray[np.float32], lower: Floats, upper: Floats) -> tuple[int, int]:
    """Return whether an input is finite and in bounds, and the first feature that is not."""
    outside = -1
    for j in range(len(x)):
        value = x[j]
        if not np.isfinite(value):
            return NOT_FINITE, j
        if outside < 0 and not (lower[j] <= value <= upper[j]):
            outside = j
    if outside >= 0:
        return OUTSIDE, outside
    return FAULTLESS, -1


@cached_njit(nogil=True)
def add_product(
    given: Floats, numbers: NDArray[np.number], at: int, sums: Floats, rows: NDArray[np.int64]
) -> None:
    """Add the product of a vector and a matrix to sums, in float64."""
    width, count = len(sums), 0
    for j in range(len(given)):
        rows[count] = j
        count += given[j] != 0.0
    # Four at a time: sums are read and written as seldom. Slices: of an index that may be negative,
    # loops are not vectorised.
    whole = count - count % 4
    for k in range(0, whole, 4):
        a, b, c, d = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
        first = numbers[at + a * width : at + (a + 1) * width]
        second = numbers[at + b * width : at + (b + 1) * width]
        third = numbers[at + c * width : at + (c + 1) * width]
        fourth = numbers[at + d * width : at + (d + 1) * width]
        p, q, r, s = given[a], given[b], given[c], given[d]
        for i in range(width):
            sums[i] += (p * first[i] + q * second[i]) + (r * third[i] + s * fourth[i])
    for k in range(whole, count):
        value = given[rows[k]]
        row = numbers[at + rows[k] * width : at + (rows[k] + 1) * width]
        for i in range(width):
            sums[i] += value * row[i]


@cached_njit(nogil=True)
def bend(curves: Curves, kind: int, z: float) -> tuple[float, float]:
    """Return a smooth activation's value and slope; what is no number stays none."""
    if z != z:
        return z, z
    value, slope = curve(curves[1], curves[2], kind, z)
    return value - curves[2][kind, _FLOOR], slope


@cached_njit(nogil=True)
def activate(sums: Floats, first: int, mode: int, curves: Curves) -> None:
    """Apply activations in place; the first value has the number ``first``."""
    if mode == RELUS:
        for i in range(len(sums)):
            sums[i] = max(sums[i], 0.0)
    elif mode == MIXED:
        for i in range(len(sums)):
            kind = curves[0][first + i]
            sums[i] = max(sums[i], 0.0) if kind == 0 else bend(curves, kind, sums[i])[0]


@cached_njit(nogil=True)
def find_leak(
    weights: NDArray[np.floating],  # shape (m, weights of a member)
    biases: NDArray[np.floating],  # shape (m, biases of a member)
    plan: NDArray[np.int64],  # shape (steps, 8)
    curves: Curves,
    labels: int,
    values: Floats,
    x: NDArray[np.float32],  # shape (d,)
    label: int,
    members: NDArray[np.int64],
    rounding: float,
    close: NDArray[np.int64],  # shape (m,)
) -> tuple[int, int]:
    """Evaluate members until one surely prefers another label."""
    undecided = 0
    for j in range(len(x)):
        values[j] = x[j]
    scores = len(values) - labels
    rows = np.empty(len(values), np.int64)
    for member in members:
        own = weights[member]
        shifts = biases[member]
        for step in range(len(plan)):
            at, first, inputs, out, width = (
                plan[step, 0], plan[step, 1], plan[step, 2], plan[step, 3], plan[step, 4],
            )  # fmt: skip
            sums = values[out : out + width]
            if plan[step, 5] >= 0:
                sums[:] = shifts[plan[step, 5] : plan[step, 5] + width]
            add_product(values[first : first + inputs], own, at, sums, rows)
            if plan[step, 6]:
                activate(sums, out, plan[step, 7], curves)
        best = -np.inf
        for c in range(labels):
            if c != label:
                best = max(best, values[scores + c])
        margin = values[scores + label] - best
        if margin < -rounding:
            return member, undecided
        if not margin > rounding:
            close[undecided] = member
            undecided += 1
    return -1, undecided
