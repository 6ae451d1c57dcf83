"""Protocol of operators that can be lowered: maps on stacks of batches."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.kernel.smooth import KIND
from leaveout.models.matrices import Matrices, Sparse

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]
"""Shapes of tensors by name."""
Constants = Mapping[str, Floats]
"""Constant tensors by name, each stacked: shape (m or 1, *shape of the tensor)."""


@dataclass(frozen=True)
class Operator:
    """A node of the graph."""


@dataclass(frozen=True)
class Relu(Operator):
    """The only piecewise linear operator, ``max(x, 0)``."""

    @property
    def kind(self) -> int:
        """Its number in `leaveout.kernel.smooth.FUNCTIONS`."""
        return 0


@dataclass(frozen=True)
class Smooth(Operator):
    """A smooth activation, declared in `leaveout.kernel.smooth`."""

    name: str

    @property
    def kind(self) -> int:
        """Its number in `leaveout.kernel.smooth.FUNCTIONS`."""
        return KIND[self.name]


@dataclass(frozen=True)
class Normal(Operator):
    """What was normalised: a copy of its first input.

    That is ``c r``, r the inverse root of the mean of c^2, or ``softmax(x)``; the other inputs,
    c and r or x, tell how little a runtime's roundings move it.
    """

    axes: tuple[int, ...]  # over which the mean is, counted with the batch axis

    def groups(self, shape: Shape) -> Integers:
        """Return the group that each number is normalised in."""
        kept = tuple(1 if i in self.axes else n for i, n in enumerate(shape, 1))
        own = np.arange(math.prod(kept)).reshape(kept)
        return np.broadcast_to(own, shape).reshape(-1)


class Affine(Operator, ABC):
    """An operator that is an affine map of its single variable input."""

    @abstractmethod
    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """Apply the map to a stack of batches.

        Parameters
        ----------
        values : ndarray of float64, shape (m or 1, batch, *shape of the input)
        constants : Constants
        biased : bool
            Whether the constant part of the map is added; without it the map is linear.

        Returns
        -------
        ndarray of float64, shape (m or 1, batch, *shape of the output)
        """

    def matrix(self, shape: Shape, constants: Constants) -> Matrices:
        """Return the linear part, shape (m or 1, outputs, inputs), as entries where that pays."""
        width = math.prod(shape)
        columns = self.apply(np.eye(width).reshape(1, width, *shape), constants, False)
        return columns.reshape(len(columns), width, -1).transpose(0, 2, 1)

    @abstractmethod
    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        """Return the shape of one output sample, without computing the output."""

    @abstractmethod
    def roundings(self, shape: Shape, constants: Shapes) -> int:
        """Return the most float32 roundings that a term of an output can undergo without fusion."""

    @property
    def exact(self) -> bool:
        """Whether the map uses the constants unchanged, so that float64 represents it exactly."""
        return False

    def entries(self, shape: Shape, constants: Shapes) -> int:
        """Return how many numbers `matrix` holds at most."""
        return math.prod(shape) * math.prod(self.shape_after(shape, constants))

    def flaws(self, constants: Constants) -> Mapping[str, NDArray[np.bool_]]:
        """Return which stacked networks have constants that make the map invalid."""
        return {}

    def constant_magnitude(self, shape: Shape, constants: Constants) -> Floats:
        """Bound the absolute values of all terms that make up the constant part.

        Parameters
        ----------
        shape : tuple of int
            Shape of one sample of the input.
        constants : Constants

        Returns
        -------
        ndarray of float64, shape (m or 1, *shape of the output)
        """
        return np.abs(self.apply(np.zeros((1, 1, *shape)), constants, True)[:, 0])

    def regrouping_bound(self, constants: Constants) -> float:
        """Bound products of the operator's own constants that its matrix does not show."""
        return 1.0


class Move(Affine):
    """An operator each of whose outputs is one input, its negative, or nothing, plus a constant."""

    def matrix(self, shape: Shape, constants: Constants) -> Matrices:
        marks = number_inputs(shape)
        moved = self.apply(marks.astype(float), constants, False)[0].reshape(-1, 1)
        return Sparse.of_taps(np.abs(moved).astype(np.int64) - 1, np.sign(moved)[None], marks.size)

    def entries(self, shape: Shape, constants: Shapes) -> int:
        return math.prod(self.shape_after(shape, constants))

    @property
    def exact(self) -> bool:
        return True


def number_inputs(shape: Shape) -> Integers:
    """Return the inputs numbered from 1, shape (1, 1, *shape); 0 stands for padding."""
    return np.arange(1, math.prod(shape) + 1).reshape(1, 1, *shape)
