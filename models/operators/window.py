"""Convolution and average pooling, one- and two-dimensional."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

from leaveout.models.operators.base import Affine, Constants, Floats, Shape

__all__ = ["AveragePool", "Conv", "GlobalAveragePool", "Window"]


@dataclass(frozen=True)
class Window:
    """Where a kernel is laid over the spatial axes.

    Attributes
    ----------
    kernel, strides, dilations : tuple of int
        One number a spatial axis.
    pads : tuple of int
        As ONNX has it: all beginnings, then all ends.
    auto_pad : str
        NOTSET, VALID, SAME_UPPER or SAME_LOWER.
    """

    kernel: Shape
    strides: Shape
    dilations: Shape
    pads: Shape
    auto_pad: str = "NOTSET"

    def padding(self, spatial: Shape) -> tuple[tuple[int, int], ...]:
        """Zeros before and after each spatial axis."""
        rank = len(spatial)
        if self.auto_pad == "VALID":
            return ((0, 0),) * rank
        if self.auto_pad == "NOTSET":
            return tuple((self.pads[i], self.pads[i + rank]) for i in range(rank))
        result = []
        for size, kernel, stride, dilation in zip(
            spatial, self.kernel, self.strides, self.dilations, strict=True
        ):
            steps = math.ceil(size / stride)
            total = max(0, (steps - 1) * stride + dilation * (kernel - 1) + 1 - size)
            small, large = total // 2, total - total // 2
            result.append((small, large) if self.auto_pad == "SAME_UPPER" else (large, small))
        return tuple(result)

    def patches(self, values: Floats) -> Floats:
        """Lay the window over zero-padded values.

        Parameters
        ----------
        values : ndarray of float64, shape (m, batch, channels, *spatial)

        Returns
        -------
        ndarray of float64, shape (m, batch, channels, taps, *positions)
        """
        spatial = values.shape[3:]
        padded = np.pad(values, ((0, 0), (0, 0), (0, 0), *self.padding(spatial)))
        positions = tuple(
            (size - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, dilation in zip(
                padded.shape[3:], self.kernel, self.strides, self.dilations, strict=True
            )
        )
        if min(positions) < 1:
            raise ValueError(f"a {self.kernel} window does not fit a {spatial} input")
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
    """Convolution over one or two spatial axes.

    Attributes
    ----------
    weight, bias : str
        Names of constants; ``bias`` is empty where there is none.
    window : Window
    groups : int
    """

    weight: str
    bias: str
    window: Window
    groups: int = 1

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """See `Affine.apply`."""
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


@dataclass(frozen=True)
class AveragePool(Affine):
    """Average over a sliding window.

    Attributes
    ----------
    window : Window
    include_padding : bool
        Whether padded zeros count in the denominator.
    """

    window: Window
    include_padding: bool

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """See `Affine.apply`."""
        patches = self.window.patches(values)
        counts: Floats | int = patches.shape[3]
        if not self.include_padding:
            counts = self.window.patches(np.ones((1, 1, 1, *values.shape[3:]))).sum(axis=3)
        return np.asarray(patches.sum(axis=3) / counts)


@dataclass(frozen=True)
class GlobalAveragePool(Affine):
    """Average over all spatial axes, kept as axes of length one."""

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """See `Affine.apply`."""
        return np.asarray(values.mean(axis=tuple(range(3, values.ndim)), keepdims=True))
