"""Operators that only reshape or reorder: Flatten, Reshape, Transpose and others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.models.matrices import Matrices, Sparse
from leaveout.models.onnx.operators.base import (
    Affine,
    Constants,
    Move,
    Shape,
    Shapes,
    number_inputs,
)


@dataclass(frozen=True)
class Identity(Move):
    """Identity, and Dropout at inference."""

    ratio: str = ""

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        return values

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        return shape

    def flaws(self, constants: Constants) -> Mapping[str, NDArray[np.bool_]]:
        if not self.ratio:
            return {}
        ratio = constants[self.ratio]
        ratio = ratio.reshape(len(ratio), -1)
        outside = np.asarray(((ratio < 0) | (ratio >= 1)).any(axis=1))
        return {"its ratio is not in [0, 1)": outside}

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        return 0


@dataclass(frozen=True)
class Reshape(Move):
    """Any operator that keeps the order of the elements."""

    shape: Shape  # shape of one sample afterwards (no batch axis, no -1)

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        return values.reshape(*values.shape[:2], *self.shape)

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        if math.prod(shape) != math.prod(self.shape):
            raise ValueError(f"{list(shape)} cannot be reshaped to {list(self.shape)}")
        return self.shape

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        return 0


@dataclass(frozen=True)
class Permute(Move):
    """Transpose that keeps the batch axis first."""

    order: Shape  # ONNX's ``perm`` (its first entry is 0)

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        return np.asarray(values.transpose(0, *(axis + 1 for axis in self.order)))

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        if sorted(self.order) != list(range(1 + len(shape))) or self.order[0] != 0:
            raise ValueError(
                f"perm = {list(self.order)} is not an order of the axes of {['batch', *shape]} "
                "that keeps the batch first"
            )
        return tuple(shape[axis - 1] for axis in self.order[1:])

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        return 0


@dataclass(frozen=True)
class Take(Move):
    """Selected numbers along one axis, in a given order."""

    axis: int  # counted with the batch axis, at least 1
    places: tuple[int, ...]  # positions along the axis, from 0; may repeat
    single: bool = False  # whether the axis is dropped; needs a single position

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        found = values.take(self.places, axis=self.axis + 1)
        return np.asarray(found.squeeze(self.axis + 1) if self.single else found)

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        at = self.axis - 1
        if not 0 <= at < len(shape):
            raise ValueError(f"axis = {self.axis} is out of range for shape {['batch', *shape]}")
        if any(not 0 <= place < shape[at] for place in self.places):
            raise ValueError(
                f"it selects a position outside the {shape[at]} along axis {self.axis}"
            )
        count = () if self.single else (len(self.places),)
        return (*shape[:at], *count, *shape[at + 1 :])

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        return 0


@dataclass(frozen=True)
class Pick(Move):
    """Selected numbers of the whole sample, in a given order: Resize, Tile, Expand and others."""

    places: tuple[int, ...]  # positions in the flattened sample, from 0; may repeat
    shape: Shape  # shape of one sample afterwards

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        flat = values.reshape(*values.shape[:2], -1)
        return np.asarray(flat[:, :, list(self.places)].reshape(*values.shape[:2], *self.shape))

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        if max(self.places) >= math.prod(shape) or len(self.places) != math.prod(self.shape):
            raise ValueError(f"{['batch', *shape]} has no {1 + max(self.places)} numbers to pick")
        return self.shape

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        return 0


@dataclass(frozen=True)
class BesideZero(Move):
    """Two scores from one number: 0 and the number."""

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        return np.pad(values.reshape(*values.shape[:2], 1), ((0, 0), (0, 0), (1, 0)))

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        if math.prod(shape) != 1:
            raise ValueError(f"{['batch', *shape]} is not a single number")
        return (2,)

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        return 0


@dataclass(frozen=True)
class Place(Move):
    """Numbers placed among copies of a constant."""

    widths: tuple[tuple[int, int], ...]  # how many before and after, along each axis of a sample
    fill: str = ""  # name of the constant, a single number; empty for 0

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        widths = ((0, 0), (0, 0), *self.widths)
        found = np.pad(values, widths)
        if not biased or not self.fill:
            return found
        given = constants[self.fill]
        around = np.pad(np.zeros((1, 1, *values.shape[2:])), widths, constant_values=1.0)
        return np.asarray(found + around * given.reshape(len(given), *(1,) * (values.ndim - 1)))

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        if len(self.widths) != len(shape):
            raise ValueError(
                f"it pads {1 + len(self.widths)} axes, but its input has shape {['batch', *shape]}"
            )
        if self.fill and constants[self.fill] not in {(), (1,)}:
            raise ValueError(
                f"it fills with {self.fill!r} of shape {list(constants[self.fill])}, expected one "
                "number"
            )
        return tuple(n + sum(each) for n, each in zip(shape, self.widths, strict=True))

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        """See `Affine.roundings`; none, but an embedded number counts as one."""
        return 1 if self.fill else 0


@dataclass(frozen=True)
class Reduce(Affine):
    """ReduceSum, ReduceMean, and the average over all spatial axes."""

    axes: tuple[int, ...]  # counted with the batch axis, each at least 1
    mean: bool  # whether the sum is divided by the number of its terms
    kept: bool  # whether the axes are kept with length one

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        axes = tuple(axis + 1 for axis in self.axes)
        total = values.sum(axis=axes, keepdims=self.kept)
        count = math.prod(values.shape[axis] for axis in axes)
        return np.asarray(total / count if self.mean else total)

    def matrix(self, shape: Shape, constants: Constants) -> Matrices:
        order = [axis for axis in range(1, 1 + len(shape)) if axis not in self.axes]
        count = math.prod(shape[axis - 1] for axis in self.axes)
        marks = number_inputs(shape)[0].transpose(0, *order, *sorted(self.axes))
        factors = np.full((1, 1, count), 1.0 / count if self.mean else 1.0)
        return Sparse.of_taps(marks.reshape(-1, count) - 1, factors, math.prod(shape))

    def entries(self, shape: Shape, constants: Shapes) -> int:
        return math.prod(shape)

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        if any(not 1 <= axis <= len(shape) for axis in self.axes):
            raise ValueError(
                f"axes = {list(self.axes)} are out of range for shape {['batch', *shape]}"
            )
        left = (1,) if self.kept else ()
        pairs = enumerate(shape, 1)
        return tuple(k for i, n in pairs for k in (left if i in self.axes else (n,)))

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        """See `Affine.roundings`: the sums, and a division by the inverse."""
        return math.prod(shape[axis - 1] for axis in self.axes) + 2
