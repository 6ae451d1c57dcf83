"""The position of each layer's numbers in a member's, and the norms of layers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.guard.packing import Packed

_FOURTH = 256
"""Widest layer whose spectral norms are bounded by the fourth powers of singular values, summed;
of wider ones it is the second powers, which take no products of matrices."""

_EXACT = 1024
"""Widest matrix of N whose spectral norm is computed."""

_UNIT = 2.0**-53

_SPARE = 1e-9
"""Share added for what float64 loses in sums of positive numbers."""

Floats = NDArray[np.float64]


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
