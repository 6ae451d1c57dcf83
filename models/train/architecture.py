"""Architectures: the layers of a recipe, and their parameter shapes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.train.recipe import Recipe

if TYPE_CHECKING:
    import onnx

_CHANNELS = 6
_WIDTH = 3
_CNN_HIDDEN = 2


class Dense(msgspec.Struct, frozen=True):
    """A fully connected layer from ``inputs`` to ``outputs`` numbers."""

    inputs: int
    outputs: int

    @property
    def fan_in(self) -> int:
        """The number of inputs of one output."""
        return self.inputs

    @property
    def positions(self) -> int:
        """The number of places where the same weights apply."""
        return 1

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """The shape of the weight in the ONNX file."""
        return (self.outputs, self.inputs)


class Conv(msgspec.Struct, frozen=True):
    """A one-dimensional convolution without padding, stride 1."""

    channels: int  # input length, in positions per channel
    length: int
    outputs: int  # output channels
    width: int  # kernel size

    @property
    def fan_in(self) -> int:
        """The number of inputs of one output."""
        return self.channels * self.width

    @property
    def positions(self) -> int:
        """The number of places where the same weights apply: the output's length."""
        return self.length - self.width + 1

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """The shape of the weight in the ONNX file."""
        return (self.outputs, self.channels, self.width)


Layer = Dense | Conv


def layers_of(recipe: Recipe, features: int, labels: int) -> tuple[Layer, ...]:
    """Return the layers; an activation follows each but the last.

    The CNN is that of LUCID's authors: two 1x3 convolutions of 6 channels, a dense layer to 2, one
    to the labels.
    """
    if not recipe.cnn:
        widths = (features, *recipe.layers, labels)
        return tuple(Dense(a, b) for a, b in itertools.pairwise(widths))
    first = Conv(1, features, _CHANNELS, _WIDTH)
    second = Conv(_CHANNELS, first.positions, _CHANNELS, _WIDTH)
    if second.positions < 1:
        raise TrainingError(
            f"--cnn needs at least {2 * _WIDTH - 1} features for its two convolutions, but the "
            f"data has {features}; use --layers"
        )
    flat = _CHANNELS * second.positions
    return (first, second, Dense(flat, _CNN_HIDDEN), Dense(_CNN_HIDDEN, labels))


def parameter_shapes(layers: tuple[Layer, ...]) -> dict[str, tuple[int, ...]]:
    """Return each parameter's name and shape, in the order of the ONNX initialisers."""
    shapes: dict[str, tuple[int, ...]] = {}
    for index, layer in enumerate(layers):
        shapes[f"layers.{index}.weight"] = layer.weight_shape
        shapes[f"layers.{index}.bias"] = (layer.outputs,)
    return shapes


def count_parameters(layers: tuple[Layer, ...]) -> int:
    """Return the number of parameters of one network."""
    return sum(math.prod(shape) for shape in parameter_shapes(layers).values())


class Signature(msgspec.Struct, frozen=True):
    """An architecture."""

    shapes: dict[str, tuple[int, ...]]  # of every parameter, in the order of the ONNX initialisers
    architecture: str  # hash of the graph without weights; only for an ONNX model

    @classmethod
    def of(cls, model: onnx.ModelProto) -> Signature:
        """Return the signature of an ONNX model."""
        from leaveout.models.onnx.signature import architecture_hash
        from leaveout.models.onnx.values import read_parameters

        shapes = {name: value.shape for name, value in read_parameters(model).items()}
        return cls(shapes, architecture_hash(model))

    @property
    def size(self) -> int:
        """The number of parameters of one network."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def difference(self, other: Signature) -> str | None:
        """Return how another signature differs; None if it is equal."""
        for name, shape in self.shapes.items():
            if name not in other.shapes:
                return f"it has no parameter {name!r}"
            if other.shapes[name] != shape:
                return f"{name!r} has shape {other.shapes[name]}, expected {shape}"
        for name in other.shapes:
            if name not in self.shapes:
                return f"it has an extra parameter {name!r}"
        if self.architecture != other.architecture:
            return "its operators or constants differ"
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
