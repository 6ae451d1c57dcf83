"""Add, Sub, Mul and Div by constants, and batch normalisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from leaveout.models.operators.base import Affine, Constants, Floats, Shape

__all__ = ["BatchNormalization", "Scale", "Shift"]


def _aligned(constant: Floats, values: Floats) -> Floats:
    """Give a stacked constant the axes of ``values``: stack, batch, then its own on the right."""
    shape = constant.shape[1:]
    wanted = values.ndim - 1
    if len(shape) > wanted:
        raise ValueError(f"a constant of shape {shape} does not broadcast")
    return constant.reshape(len(constant), *(1,) * (wanted - len(shape)), *shape)


@dataclass(frozen=True)
class Shift(Affine):
    """``sign * x + other_sign * constant``.

    Attributes
    ----------
    constant : str
    sign, other_sign : int
        1 or -1.
    """

    constant: str
    sign: int = 1
    other_sign: int = 1

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """See `Affine.apply`."""
        constant = _aligned(constants[self.constant], values)
        shift = self.other_sign * constant if biased else np.zeros_like(constant)
        # Adding even a zero shift broadcasts the linear part to the shape of the output.
        return np.asarray(self.sign * values + shift)


@dataclass(frozen=True)
class Scale(Affine):
    """``x * constant`` or ``x / constant``.

    Attributes
    ----------
    constant : str
    kind : {"multiply", "divide"}
    """

    constant: str
    kind: Literal["multiply", "divide"]

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """See `Affine.apply`."""
        constant = _aligned(constants[self.constant], values)
        return np.asarray(values * constant if self.kind == "multiply" else values / constant)


@dataclass(frozen=True)
class BatchNormalization(Affine):
    """Inference-time batch normalisation over axis 1 (the channels).

    Attributes
    ----------
    scale, bias, mean, variance : str
        Names of constants of shape (channels,).
    epsilon : float
    """

    scale: str
    bias: str
    mean: str
    variance: str
    epsilon: float

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """See `Affine.apply`."""
        axes = (1,) * (values.ndim - 3)
        factor = self._factor(constants)
        result = values * factor.reshape(len(factor), 1, -1, *axes)
        if biased:
            shift = constants[self.bias] - constants[self.mean] * factor
            result = result + shift.reshape(len(shift), 1, -1, *axes)
        return np.asarray(result)

    def constant_magnitude(self, shape: Shape, constants: Constants) -> Floats:
        """See `Affine.constant_magnitude`: the mean and the bias may cancel in the sum."""
        shift = np.abs(constants[self.bias]) + np.abs(
            constants[self.mean] * self._factor(constants)
        )
        axes = (1,) * (len(shape) - 1)
        return np.asarray(
            np.broadcast_to(shift.reshape(len(shift), -1, *axes), (len(shift), *shape))
        )

    def regrouped(self, constants: Constants) -> float:
        """See `Affine.regrouped`: the deviation is inverted before it meets the scale."""
        least = float((constants[self.variance] + self.epsilon).min())
        inverse = 1.0 / np.sqrt(least) if least > 0 else np.inf
        scale = float(np.abs(constants[self.scale]).max(initial=0.0))
        mean = float(np.abs(constants[self.mean]).max(initial=0.0))
        return max(1.0, float(inverse)) * max(1.0, scale) * max(1.0, mean)

    def _factor(self, constants: Constants) -> Floats:
        return np.asarray(constants[self.scale] / np.sqrt(constants[self.variance] + self.epsilon))
