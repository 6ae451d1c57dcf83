"""Operators that only re-shape or re-order: Flatten, Reshape, Transpose, Squeeze, Unsqueeze."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leaveout.models.operators.base import Affine, Constants, Floats, Shape

__all__ = ["Identity", "Permute", "Reshape"]


@dataclass(frozen=True)
class Identity(Affine):
    """Identity, and Dropout at inference."""

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """See `Affine.apply`."""
        return values


@dataclass(frozen=True)
class Reshape(Affine):
    """Any operator that keeps the order of the elements.

    Attributes
    ----------
    shape : tuple of int
        Shape of one sample afterwards (no batch axis, no -1).
    """

    shape: Shape

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """See `Affine.apply`."""
        return values.reshape(*values.shape[:2], *self.shape)


@dataclass(frozen=True)
class Permute(Affine):
    """Transpose that leaves the batch axis first.

    Attributes
    ----------
    order : tuple of int
        ONNX's ``perm`` (its first entry is 0).
    """

    order: Shape

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """See `Affine.apply`."""
        return np.asarray(values.transpose(0, *(axis + 1 for axis in self.order)))
