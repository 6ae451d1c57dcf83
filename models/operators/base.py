"""What an operator must do to be lowered: act on a stack of batches, with or without its bias."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
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
    """The one non-linear operator, ``max(x, 0)``."""


class Affine(Operator, ABC):
    """An operator that is an affine map of its one variable input."""

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

    @abstractmethod
    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        """Infer the shape of one sample of the output; nothing is computed.

        Parameters
        ----------
        shape : tuple of int
            Shape of one sample of the input.
        constants : mapping of str to tuple of int
            Shapes of the constants.

        Raises
        ------
        ValueError
            If the shapes do not fit, or samples of a batch would be mixed.
        """

    @abstractmethod
    def roundings(self, shape: Shape, constants: Shapes) -> int:
        """Count the float32 roundings that one term of an output may meet where nothing is fused.

        Parameters
        ----------
        shape, constants
            As in `shape_after`.

        Returns
        -------
        int
            0 where numbers are moved only.
        """

    @property
    def exact(self) -> bool:
        """Whether the map is made of the constants as they are, so that float64 holds it."""
        return False

    def widest(self, shape: Shape, constants: Shapes) -> int:
        """Count the numbers that one sample takes at most while the map is applied.

        Parameters
        ----------
        shape, constants
            As in `shape_after`.
        """
        return max(math.prod(shape), math.prod(self.shape_after(shape, constants)))

    def flaws(self, constants: Constants) -> Mapping[str, NDArray[np.bool_]]:
        """Tell which of the stacked networks have constants that the map is not computed of.

        Parameters
        ----------
        constants : Constants

        Returns
        -------
        mapping of str to ndarray of bool, shape (m or 1,)
            What is wrong, to the networks that have it.
        """
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

    def regrouped(self, constants: Constants) -> float:
        """Bound products of the operator's own constants that its matrix does not show.

        Parameters
        ----------
        constants : Constants

        Returns
        -------
        float
            At least 1, which is right for one constant.
        """
        return 1.0
