"""What the networks of a family share: parameter names and shapes, and the graph."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import onnx


class Signature(msgspec.Struct, frozen=True):
    """An architecture."""

    shapes: dict[str, tuple[int, ...]]  # of every parameter, in the order of the ONNX initialisers
    architecture: str  # hash of the graph without the weights; of an ONNX model alone

    @classmethod
    def of(cls, model: onnx.ModelProto) -> Signature:
        """Return the signature of an ONNX model."""
        from leaveout.models.architecture import architecture_hash
        from leaveout.models.onnx_values import read_parameters

        shapes = {name: value.shape for name, value in read_parameters(model).items()}
        return cls(shapes, architecture_hash(model))

    @property
    def size(self) -> int:
        """The number of parameters of one network."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def difference(self, other: Signature) -> str | None:
        """Return how another signature differs; None if it does not."""
        for name, shape in self.shapes.items():
            if name not in other.shapes:
                return f"it has no parameter {name!r}"
            if other.shapes[name] != shape:
                return f"{name!r} has shape {other.shapes[name]}, expected {shape}"
        for name in other.shapes:
            if name not in self.shapes:
                return f"it has a parameter {name!r} more"
        if self.architecture != other.architecture:
            return "its operators or constants are others"
        return None


def flatten_parameters(
    shapes: Mapping[str, tuple[int, ...]], parameters: Mapping[str, NDArray[np.floating]]
) -> NDArray[np.float32]:
    """Return named parameters as one vector, shape (parameters,)."""
    parts = [np.asarray(parameters[name], dtype=np.float32).ravel() for name in shapes]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.float32)


def unflatten_parameters(
    shapes: Mapping[str, tuple[int, ...]], parameters: NDArray[np.float32]
) -> dict[str, NDArray[np.float32]]:
    """Split flat parameters into named views (.., *shape)."""
    split, first = {}, 0
    for name, shape in shapes.items():
        last = first + math.prod(shape)
        split[name] = parameters[..., first:last].reshape(*parameters.shape[:-1], *shape)
        first = last
    return split
