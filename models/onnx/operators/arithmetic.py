"""Gemm and MatMul."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.models.matrices import Matrices, Sparse, scale
from leaveout.models.onnx.operators.base import (
    Affine,
    Constants,
    Move,
    Shape,
    Shapes,
    number_inputs,
)


@dataclass(frozen=True)
class Gemm(Affine):
    """``alpha * x @ B + beta * C``, with ``B`` optionally transposed."""

    weight: str  # name of a constant
    bias: str  # name of a constant; empty if there is none
    alpha: float = 1.0
    beta: float = 1.0
    transposed: bool = False

    @property
    def exact(self) -> bool:
        return {self.alpha, self.beta} <= {1.0, -1.0}

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        weight = constants[self.weight]
        if self.transposed:
            weight = weight.transpose(0, 2, 1)
        result = self.alpha * (values @ weight)
        if biased and self.bias:
            bias = constants[self.bias]
            width = weight.shape[2]
            flat = bias.reshape(len(bias), 1, -1)
            result = result + self.beta * np.broadcast_to(flat, (len(bias), 1, width))
        return np.asarray(result)

    def matrix(self, shape: Shape, constants: Constants) -> Matrices:
        weight = constants[self.weight]
        matrix = weight if self.transposed else weight.transpose(0, 2, 1)
        return matrix if self.alpha == 1.0 else scale(matrix, self.alpha)

    def entries(self, shape: Shape, constants: Shapes) -> int:
        return math.prod(constants[self.weight])

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        weight = _matrix(constants[self.weight])
        inputs, outputs = weight[::-1] if self.transposed else weight
        if shape != (inputs,):
            raise ValueError(
                f"its input has shape {['batch', *shape]}, expected ['batch', {inputs}] from the "
                f"shape {list(weight)} of its weight"
            )
        if self.bias:
            bias = constants[self.bias]
            if (*(1,) * (2 - len(bias)), *bias) not in {(1, 1), (1, outputs)}:
                raise ValueError(f"its bias has shape {list(bias)}, expected [{outputs}]")
        return (outputs,)

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        """See `Affine.roundings`: a product, the sums, both factors, the bias."""
        return shape[0] + 5

    def regrouping_bound(self, constants: Constants) -> float:
        """See `Affine.regrouping_bound`; a runtime may scale the sum or the weights."""
        if self.alpha == 1.0 and self.beta == 1.0:
            return 1.0
        largest = float(np.abs(constants[self.weight]).max(initial=0.0))
        return max(1.0, abs(self.alpha)) * max(1.0, abs(self.beta)) * max(1.0, largest)


@dataclass(frozen=True)
class MatMul(Affine):
    """``x @ B`` over the last axis of ``x``."""

    weight: str

    @property
    def exact(self) -> bool:
        return True

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        weight = constants[self.weight]
        axes = (1,) * (values.ndim - 3)
        return values @ weight.reshape(len(weight), *axes, *weight.shape[1:])

    def matrix(self, shape: Shape, constants: Constants) -> Matrices:
        weight = constants[self.weight].transpose(0, 2, 1)
        if len(shape) == 1:
            return weight
        places = number_inputs(shape).reshape(-1, 1, shape[-1]) - 1
        count, outputs = len(places), weight.shape[1]
        return Sparse.of_taps(
            np.repeat(places, outputs, axis=1).reshape(-1, shape[-1]),
            np.tile(weight, (1, count, 1)),
            math.prod(shape),
        )

    def entries(self, shape: Shape, constants: Shapes) -> int:
        return math.prod(shape) * constants[self.weight][1]

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        inputs, outputs = _matrix(constants[self.weight])
        if shape[-1] != inputs:
            raise ValueError(
                f"its input has shape {['batch', *shape]}, expected {inputs} numbers along its "
                "last axis"
            )
        return (*shape[:-1], outputs)

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        """See `Affine.roundings`: a product and the sums."""
        return shape[-1] + 1


def _matrix(shape: Shape) -> Shape:
    if len(shape) != 2:
        raise ValueError(f"its constant has shape {list(shape)}, expected a matrix")
    return shape


_LEAST = 2.0**-100
"""Least variance plus epsilon: a smaller variance, even if a runtime takes it for 0, moves the sum
by less than one rounding, and the inverse deviation cannot overflow."""


def _broadcast(shape: Shape, constant: Shape) -> Shape:
    try:
        result = np.broadcast_shapes((1, *shape), constant)
    except ValueError:
        raise ValueError(
            f"a constant of shape {list(constant)} does not fit an input of shape "
            f"{['batch', *shape]}"
        ) from None
    if len(result) != 1 + len(shape) or result[0] != 1:
        raise ValueError(f"a constant of shape {list(constant)} mixes the samples of a batch")
    return result[1:]


def _align_axes(constant: Floats, values: Floats) -> Floats:
    """Align a stacked constant's axes: stack, batch, then its own on the right."""
    shape = constant.shape[1:]
    return constant.reshape(len(constant), *(1,) * (values.ndim - 1 - len(shape)), *shape)


@dataclass(frozen=True)
class Shift(Move):
    """``sign * x + other_sign * constant``."""

    constant: str
    sign: int = 1  # 1 or -1
    other_sign: int = 1  # 1 or -1

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        constant = _align_axes(constants[self.constant], values)
        shift = self.other_sign * constant if biased else np.zeros_like(constant)
        # Adding even a zero shift broadcasts the linear part to the output's shape.
        return np.asarray(self.sign * values + shift)

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        return _broadcast(shape, constants[self.constant])

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        return 1


@dataclass(frozen=True)
class Scale(Affine):
    """``x * constant`` or ``x / constant``."""

    constant: str
    kind: Literal["multiply", "divide"]

    @property
    def exact(self) -> bool:
        return self.kind == "multiply"

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        constant = _align_axes(constants[self.constant], values)
        return np.asarray(values * constant if self.kind == "multiply" else values / constant)

    def matrix(self, shape: Shape, constants: Constants) -> Matrices:
        factors = self.apply(np.ones((1, 1, *shape)), constants, False)
        places = np.broadcast_to(number_inputs(shape) - 1, (1, 1, *factors.shape[2:]))
        return Sparse.of_taps(
            places.reshape(-1, 1), factors.reshape(len(factors), -1, 1), math.prod(shape)
        )

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        return _broadcast(shape, constants[self.constant])

    def entries(self, shape: Shape, constants: Shapes) -> int:
        return math.prod(self.shape_after(shape, constants))

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        return 1

    def flaws(self, constants: Constants) -> Mapping[str, NDArray[np.bool_]]:
        if self.kind == "multiply":
            return {}
        constant = constants[self.constant]
        return {"it divides by zero": (constant.reshape(len(constant), -1) == 0).any(axis=1)}


@dataclass(frozen=True)
class BatchNormalization(Affine):
    """Inference-time batch normalisation over axis 1 (the channels)."""

    scale: str  # names of constants of shape (channels,)
    bias: str  # names of constants of shape (channels,)
    mean: str  # names of constants of shape (channels,)
    variance: str  # names of constants of shape (channels,)
    epsilon: float  # a float32, at least 0

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        axes = (1,) * (values.ndim - 3)
        factor = self._factor(constants)
        result = values * factor.reshape(len(factor), 1, -1, *axes)
        if biased:
            shift = constants[self.bias] - constants[self.mean] * factor
            result = result + shift.reshape(len(shift), 1, -1, *axes)
        return np.asarray(result)

    def matrix(self, shape: Shape, constants: Constants) -> Matrices:
        factors = self.apply(np.ones((1, 1, *shape)), constants, False)
        return Sparse.of_taps(
            np.arange(math.prod(shape))[:, None],
            factors.reshape(len(factors), -1, 1),
            math.prod(shape),
        )

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        for name in (self.scale, self.bias, self.mean, self.variance):
            if constants[name] != shape[:1]:
                raise ValueError(
                    f"{name!r} has shape {list(constants[name])}, expected {list(shape[:1])}, "
                    "one number per channel"
                )
        return shape

    def entries(self, shape: Shape, constants: Shapes) -> int:
        return math.prod(self.shape_after(shape, constants))

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        """See `Affine.roundings`.

        Four for the factor (sum with epsilon, root, inverse, scale), two more for inexact roots and
        inverses, then a product and two sums.
        """
        return 10

    def flaws(self, constants: Constants) -> Mapping[str, NDArray[np.bool_]]:
        variance = constants[self.variance]
        negative = np.asarray((variance < 0).any(axis=1))
        small = np.asarray((variance + self.epsilon < _LEAST).any(axis=1))
        return {
            "a variance is negative": negative,
            "a variance plus epsilon is below 2^-100, where float32 cannot invert the root": small,
        }

    def constant_magnitude(self, shape: Shape, constants: Constants) -> Floats:
        """See `Affine.constant_magnitude`; mean and bias may cancel in the sum."""
        shift = np.abs(constants[self.bias]) + np.abs(
            constants[self.mean] * self._factor(constants)
        )
        axes = (1,) * (len(shape) - 1)
        return np.asarray(
            np.broadcast_to(shift.reshape(len(shift), -1, *axes), (len(shift), *shape))
        )

    def regrouping_bound(self, constants: Constants) -> float:
        """See `Affine.regrouping_bound`; the deviation is inverted before scaling."""
        least = float((constants[self.variance] + self.epsilon).min(initial=np.inf))
        inverse = 1.0 / np.sqrt(least) if least > 0 else np.inf
        scale = float(np.abs(constants[self.scale]).max(initial=0.0))
        mean = float(np.abs(constants[self.mean]).max(initial=0.0))
        return max(1.0, float(inverse)) * max(1.0, scale) * max(1.0, mean)

    def _factor(self, constants: Constants) -> Floats:
        return np.asarray(constants[self.scale] / np.sqrt(constants[self.variance] + self.epsilon))
