"""The torch learner: one float32 network per part, also as an ONNX model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leaveout.models.train.architecture import layers_of
from leaveout.models.train.export import network_model, unflatten
from leaveout.models.train.recipe import Recipe
from leaveout.models.train.stacked import NOTHING, Stack

if TYPE_CHECKING:
    import onnx


def train_network(
    recipe: Recipe, X: NDArray[np.float64], y: NDArray[np.int64], labels: int, scale: bool
) -> onnx.ModelProto:
    """Train a single network as a stack of one, leaving no row out."""
    shift, factor = np.zeros(X.shape[1]), np.ones(X.shape[1])
    if scale:
        shift, deviation = X.mean(axis=0), X.std(axis=0)
        factor = 1 / np.where(deviation > 0, deviation, 1)
    scaled = ((X - shift) * factor).astype(np.float32)
    layers = layers_of(recipe, X.shape[1], labels)
    stack = Stack(layers, recipe, scaled, y, np.array([NOTHING]))
    stack.train()
    parameters = unflatten(layers, stack.parameters()[0])
    first = parameters["layers.0.weight"] * factor
    bias = parameters["layers.0.bias"] - first @ shift
    folded = {
        **parameters,
        "layers.0.weight": first.astype(np.float32),
        "layers.0.bias": bias.astype(np.float32),
    }
    if not all(np.isfinite(value).all() for value in folded.values()):
        raise ValueError("its weights are not finite; lower the learning rate, --set lr=0.01")
    return network_model(layers, folded)
