"""Convolution and average pooling, one- and two-dimensional."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.models.matrices import Matrices, Sparse
from leaveout.models.onnx.operators.base import Affine, Constants, Shape, Shapes, number_inputs

_TAPS = 2**12  # most positions of a kernel; they are processed one at a time
_PADDED = 2**26  # most places of an image with its padding


@dataclass(frozen=True)
class Window:
    """Positions of a kernel over the spatial axes."""

    kernel: Shape  # one number per spatial axis
    strides: Shape  # one number per spatial axis
    dilations: Shape  # one number per spatial axis
    pads: Shape  # as in ONNX: all beginnings, then all ends
    auto_pad: str = "NOTSET"  # NOTSET, VALID, SAME_UPPER or SAME_LOWER

    def padding(self, spatial: Shape) -> tuple[tuple[int, int], ...]:
        """Return the zeros before and after each spatial axis."""
        rank = len(spatial)
        if self.auto_pad == "VALID":
            return ((0, 0),) * rank
        if self.auto_pad == "NOTSET":
            return tuple((self.pads[i], self.pads[i + rank]) for i in range(rank))
        result = []
        for size, kernel, stride, dilation in zip(
            spatial, self.kernel, self.strides, self.dilations, strict=True
        ):
            steps = -(-size // stride)
            total = max(0, (steps - 1) * stride + dilation * (kernel - 1) + 1 - size)
            small, large = total // 2, total - total // 2
            result.append((small, large) if self.auto_pad == "SAME_UPPER" else (large, small))
        return tuple(result)

    def positions(self, spatial: Shape) -> Shape:
        """Return the number of kernel positions along each spatial axis."""
        rank = len(spatial)
        if rank not in {1, 2} or len(self.kernel) != rank:
            raise ValueError(
                f"a kernel of {len(self.kernel)} axes on an input of {rank} spatial axes; only "
                "one and two are supported"
            )
        if (len(self.strides), len(self.dilations), len(self.pads)) != (rank, rank, 2 * rank):
            raise ValueError(
                f"strides, dilations and pads must be {rank}, {rank} and {2 * rank} numbers"
            )
        if math.prod(self.kernel) > _TAPS:
            raise ValueError(
                f"a {list(self.kernel)} kernel; at most {_TAPS} positions are supported"
            )
        whole = math.prod(n + sum(p) for n, p in zip(spatial, self.padding(spatial), strict=True))
        if whole > _PADDED:
            raise ValueError(f"its padded input has {whole:.3g} places; use fewer pads")
        found = tuple(
            (size + sum(pads) - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, dilation, pads in zip(
                spatial,
                self.kernel,
                self.strides,
                self.dilations,
                self.padding(spatial),
                strict=True,
            )
        )
        if min(found) < 1:
            raise ValueError(f"a {list(self.kernel)} window does not fit a {list(spatial)} input")
        return found

    def patches(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the windows of zero-padded values, taps before positions."""
        spatial = values.shape[3:]
        padded = np.pad(values, ((0, 0), (0, 0), (0, 0), *self.padding(spatial)))
        positions = self.positions(spatial)
        taps = []
        for offset in product(*(range(k) for k in self.kernel)):
            where = tuple(
                slice(o * d, o * d + (n - 1) * s + 1, s)
                for o, d, n, s in zip(offset, self.dilations, positions, self.strides, strict=True)
            )
            taps.append(padded[(slice(None),) * 3 + where])
        return np.stack(taps, axis=3)


@dataclass(frozen=True)
class Conv(Affine):
    """Convolution over one or two spatial axes."""

    weight: str  # name of a constant
    bias: str  # name of a constant; empty if there is none
    window: Window
    groups: int = 1

    @property
    def exact(self) -> bool:
        return True

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        weight = constants[self.weight]
        patches = self.window.patches(values)
        positions = patches.shape[4:]
        size = math.prod(positions)
        outputs, taps = weight.shape[1], math.prod(weight.shape[3:])
        g = self.groups
        # (m, batch, group, channels * taps, positions) and (m, 1, group, outputs, channels * taps)
        columns = patches.reshape(*patches.shape[:2], g, -1, size)
        kernels = weight.reshape(len(weight), 1, g, outputs // g, weight.shape[2] * taps)
        result = kernels @ columns
        result = result.reshape(*result.shape[:2], outputs, *positions)
        if biased and self.bias:
            bias = constants[self.bias]
            result = result + bias.reshape(len(bias), 1, outputs, *(1,) * len(positions))
        return np.asarray(result)

    def matrix(self, shape: Shape, constants: Constants) -> Matrices:
        weight = constants[self.weight]
        m, outputs = weight.shape[:2]
        taps = math.prod(weight.shape[2:])
        # (group, channels * taps, positions), for each of the group's outputs
        places = self.window.patches(number_inputs(shape)).reshape(self.groups, taps, -1)
        places = np.repeat(places.transpose(0, 2, 1), outputs // self.groups, axis=0)
        factors = np.broadcast_to(weight.reshape(m, outputs, 1, taps), (m, *places.shape))
        return Sparse.of_taps(
            places.reshape(-1, taps) - 1, factors.reshape(m, -1, taps), math.prod(shape)
        )

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        weight = constants[self.weight]
        if weight[2:] != self.window.kernel:
            raise ValueError(
                f"kernel_shape = {list(self.window.kernel)}, but its weight has shape "
                f"{list(weight)}"
            )
        positions = self.window.positions(shape[1:])
        if weight[1] * self.groups != shape[0] or weight[0] % self.groups:
            raise ValueError(
                f"weight shape {list(weight)} with group = {self.groups} does not fit {shape[0]} "
                "input channels"
            )
        if self.bias and constants[self.bias] != weight[:1]:
            raise ValueError(
                f"its bias has shape {list(constants[self.bias])}, expected {list(weight[:1])}"
            )
        return (weight[0], *positions)

    def entries(self, shape: Shape, constants: Shapes) -> int:
        weight = constants[self.weight]
        return math.prod(weight) * math.prod(self.window.positions(shape[1:]))

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        """See `Affine.roundings`: a product, the sums, the bias."""
        return math.prod(constants[self.weight][1:]) + 2


@dataclass(frozen=True)
class ConvTranspose(Affine):
    """Transposed convolution: the transposed matrix of a convolution of its output."""

    weight: str  # name of a constant
    bias: str  # name of a constant; empty if there is none
    window: Window  # over the output
    more: Shape  # numbers added at the end of each spatial axis, fewer than the strides
    groups: int = 1

    @property
    def exact(self) -> bool:
        return True

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        shape = values.shape[2:]
        after = self.shape_after(shape, {k: constants[k].shape[1:] for k in self._names})
        if values.any():
            rows = values.reshape(*values.shape[:2], -1)
            found = rows @ self._convolution.matrix(after, constants)
        else:
            # As where only the constant part is asked for: the matrix may be a large one.
            count = max(len(values), len(constants[self.weight]))
            found = np.zeros((count, values.shape[1], math.prod(after)))
        found = found.reshape(*found.shape[:2], *after)
        if biased and self.bias:
            bias = constants[self.bias]
            found = found + bias.reshape(len(bias), 1, -1, *(1,) * (len(shape) - 1))
        return np.asarray(found)

    def matrix(self, shape: Shape, constants: Constants) -> Matrices:
        after = self.shape_after(shape, {k: constants[k].shape[1:] for k in self._names})
        return self._convolution.matrix(after, constants).transpose(0, 2, 1)

    @property
    def _names(self) -> tuple[str, ...]:
        return (self.weight, self.bias) if self.bias else (self.weight,)

    @property
    def _convolution(self) -> Conv:
        return Conv(self.weight, "", self.window, self.groups)

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        weight, window, rank = constants[self.weight], self.window, len(shape) - 1
        outputs = weight[1] * self.groups
        sizes = tuple(
            stride * (size - 1) + more + dilation * (kernel - 1) + 1 - before - behind
            for size, stride, more, dilation, kernel, before, behind in zip(
                shape[1:],
                window.strides,
                self.more,
                window.dilations,
                window.kernel,
                window.pads[:rank],
                window.pads[rank:],
                strict=True,
            )
        )
        if min(sizes) < 1 or any(n >= s for n, s in zip(self.more, window.strides, strict=True)):
            raise ValueError(f"pads = {list(window.pads)} and output_padding = {list(self.more)}")
        if weight[0] != shape[0]:
            raise ValueError(f"its weight has shape {list(weight)}, its input {shape[0]} channels")
        if self.bias and constants[self.bias] != (outputs,):
            raise ValueError(f"its bias has shape {list(constants[self.bias])}, not [{outputs}]")
        self._convolution.shape_after((outputs, *sizes), {self.weight: weight})
        return (outputs, *sizes)

    def entries(self, shape: Shape, constants: Shapes) -> int:
        return math.prod(constants[self.weight]) * math.prod(shape[1:])

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        """See `Affine.roundings`: a product, the sums over channels and taps, the bias."""
        weight = constants[self.weight]
        return weight[0] // self.groups * math.prod(weight[2:]) + 2


@dataclass(frozen=True)
class AveragePool(Affine):
    """Average over a sliding window."""

    window: Window
    include_padding: bool  # whether padded zeros count in the denominator

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        patches = self.window.patches(values)
        return np.asarray(patches.sum(axis=3) / self._counts(values.shape[2:]))

    def matrix(self, shape: Shape, constants: Constants) -> Matrices:
        places = np.moveaxis(self.window.patches(number_inputs(shape))[0, 0], 1, -1)
        shares = np.broadcast_to(1.0 / self._counts(shape)[0, 0], places.shape[:-1])
        taps = places.shape[-1]
        return Sparse.of_taps(
            places.reshape(-1, taps) - 1, shares.reshape(1, -1, 1).repeat(taps, 2), math.prod(shape)
        )

    def _counts(self, shape: Shape) -> Floats:
        """Return how many numbers each window averages, shape (1, 1, 1, *positions)."""
        ones = np.ones((1, 1, 1, *shape[1:]))
        counted = self.window.patches(ones).sum(axis=3)
        return (
            np.full_like(counted, math.prod(self.window.kernel))
            if self.include_padding
            else counted
        )

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        positions = self.window.positions(shape[1:])
        for pads, kernel in zip(self.window.padding(shape[1:]), self.window.kernel, strict=True):
            if max(pads) >= kernel:
                raise ValueError("pads must be smaller than kernel_shape")
        return (shape[0], *positions)

    def entries(self, shape: Shape, constants: Shapes) -> int:
        return math.prod(self.window.kernel) * math.prod(self.shape_after(shape, constants))

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        """See `Affine.roundings`: the sums, and a division by the inverse."""
        return math.prod(self.window.kernel) + 2


@dataclass(frozen=True)
class GlobalAveragePool(Affine):
    """Average over all spatial axes, kept as axes of length one."""

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        return np.asarray(values.mean(axis=tuple(range(3, values.ndim)), keepdims=True))

    def matrix(self, shape: Shape, constants: Constants) -> Matrices:
        places = number_inputs(shape).reshape(shape[0], -1) - 1
        factors = np.full((1, 1, places.shape[1]), 1.0 / places.shape[1])
        return Sparse.of_taps(places, factors, math.prod(shape))

    def entries(self, shape: Shape, constants: Shapes) -> int:
        return math.prod(shape)

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        if len(shape) < 2:
            raise ValueError(f"an input of shape {['batch', *shape]} has no spatial axes")
        return (shape[0], *(1,) * (len(shape) - 1))

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        """See `Affine.roundings`: the sums, and a division by the inverse."""
        return math.prod(shape[1:]) + 2
