"""Sums and averages over axes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from leaveout.models.operators.base import Affine, Constants, Floats, Shape, Shapes


@dataclass(frozen=True)
class Reduce(Affine):
    """ReduceSum, ReduceMean and the average over all spatial axes."""

    axes: tuple[int, ...]  # counted with the batch axis, each at least 1
    mean: bool  # whether the sum is divided by how many numbers it is of
    kept: bool  # whether the axes stay, of length one

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """See `Affine.apply`."""
        axes = tuple(axis + 1 for axis in self.axes)
        total = values.sum(axis=axes, keepdims=self.kept)
        count = math.prod(values.shape[axis] for axis in axes)
        return np.asarray(total / count if self.mean else total)

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        """See `Affine.shape_after`."""
        if any(not 1 <= axis <= len(shape) for axis in self.axes):
            raise ValueError(f"axes = {list(self.axes)} of {['batch', *shape]}")
        left = (1,) if self.kept else ()
        pairs = enumerate(shape, 1)
        return tuple(k for i, n in pairs for k in (left if i in self.axes else (n,)))

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        """See `Affine.roundings`: the sums, and a division by the inverse."""
        return math.prod(shape[axis - 1] for axis in self.axes) + 2
