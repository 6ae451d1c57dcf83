"""Operators that only reshape or reorder: Flatten, Reshape, Transpose and others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.models.operators.base import Affine, Constants, Floats, Shape, Shapes


@dataclass(frozen=True)
class Identity(Affine):
    """Identity, and Dropout at inference."""

    ratio: str = ""

    @property
    def exact(self) -> bool:
        """See `Affine.exact`."""
        return True

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """See `Affine.apply`."""
        return values

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        """See `Affine.shape_after`."""
        return shape

    def flaws(self, constants: Constants) -> Mapping[str, NDArray[np.bool_]]:
        """See `Affine.flaws`."""
        if not self.ratio:
            return {}
        ratio = constants[self.ratio]
        ratio = ratio.reshape(len(ratio), -1)
        outside = np.asarray(((ratio < 0) | (ratio >= 1)).any(axis=1))
        return {"its ratio is not in [0, 1)": outside}

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        """See `Affine.roundings`."""
        return 0


@dataclass(frozen=True)
class Reshape(Affine):
    """Any operator that keeps the order of the elements."""

    shape: Shape  # shape of one sample afterwards (no batch axis, no -1)

    @property
    def exact(self) -> bool:
        """See `Affine.exact`."""
        return True

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """See `Affine.apply`."""
        return values.reshape(*values.shape[:2], *self.shape)

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        """See `Affine.shape_after`."""
        if math.prod(shape) != math.prod(self.shape):
            raise ValueError(f"{list(shape)} cannot be re-shaped to {list(self.shape)}")
        return self.shape

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        """See `Affine.roundings`."""
        return 0


@dataclass(frozen=True)
class Permute(Affine):
    """Transpose that keeps the batch axis first."""

    order: Shape  # ONNX's ``perm`` (its first entry is 0)

    @property
    def exact(self) -> bool:
        """See `Affine.exact`."""
        return True

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """See `Affine.apply`."""
        return np.asarray(values.transpose(0, *(axis + 1 for axis in self.order)))

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        """See `Affine.shape_after`."""
        if sorted(self.order) != list(range(1 + len(shape))) or self.order[0] != 0:
            raise ValueError(
                f"perm = {list(self.order)} is no order of the axes of {['batch', *shape]} that "
                "leaves the batch first"
            )
        return tuple(shape[axis - 1] for axis in self.order[1:])

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        """See `Affine.roundings`."""
        return 0
