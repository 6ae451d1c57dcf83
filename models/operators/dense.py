"""Gemm and MatMul."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leaveout.models.operators.base import Affine, Constants, Floats, Shape, Shapes


@dataclass(frozen=True)
class Gemm(Affine):
    """``alpha * x @ B + beta * C``, with ``B`` optionally transposed."""

    weight: str  # names of constants; ``bias`` is empty where there is none
    bias: str  # names of constants; ``bias`` is empty where there is none
    alpha: float = 1.0
    beta: float = 1.0
    transposed: bool = False

    @property
    def exact(self) -> bool:
        """See `Affine.exact`."""
        return {self.alpha, self.beta} <= {1.0, -1.0}

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """See `Affine.apply`."""
        weight = constants[self.weight]
        if self.transposed:
            weight = weight.transpose(0, 2, 1)
        result = self.alpha * _product(values, weight)
        if biased and self.bias:
            bias = constants[self.bias]
            width = weight.shape[2]
            flat = bias.reshape(len(bias), 1, -1)
            result = result + self.beta * np.broadcast_to(flat, (len(bias), 1, width))
        return np.asarray(result)

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        """See `Affine.shape_after`."""
        weight = _matrix(constants[self.weight])
        inputs, outputs = weight[::-1] if self.transposed else weight
        if shape != (inputs,):
            raise ValueError(
                f"its input has shape {['batch', *shape]}, expected ['batch', {inputs}] by the "
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
        """See `Affine.exact`."""
        return True

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """See `Affine.apply`."""
        weight = constants[self.weight]
        axes = (1,) * (values.ndim - 3)
        return _product(values, weight.reshape(len(weight), *axes, *weight.shape[1:]))

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        """See `Affine.shape_after`."""
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


def _product(values: Floats, weight: Floats) -> Floats:
    """Return ``values @ weight``; for a basis, as lowering mostly has, the weight."""
    if values.ndim == 3 and len(values) == 1 and values.shape[1] == values.shape[2]:
        basis = values[0]
        if np.array_equal(basis, np.eye(len(basis))):
            return weight
    return np.asarray(values @ weight)
