"""Models of one operator, or of a few."""

from __future__ import annotations

import numpy as np
from onnx import helper

from support import networks

F32 = np.float32
W = np.ones((3, 2), F32)
KERNEL = np.ones((1, 1, 3, 3), F32)
IMAGE = ("n", 1, 8, 8)


def one(kind, constants=None, shape=("n", 3), opset=17, inputs=None, outputs=("y",), **attributes):
    """Return a model of one operator on ``x``."""
    constants = constants or {}
    names = ["x", *constants] if inputs is None else inputs
    model = networks.model(
        [helper.make_node(kind, names, list(outputs), name="it", **attributes)],
        constants,
        list(shape),
        ["n", "labels"],
    )
    model.opset_import[0].version = opset
    return model


def normal(variance, count=3, **attributes):
    """Return a batch normalisation with this variance."""
    ones = np.ones(count, F32)
    constants = {"s": ones, "b": 0 * ones, "m": 0 * ones, "v": F32(variance) * ones}
    return one("BatchNormalization", constants, shape=("n", count), **attributes)


def flattened(model):
    """Let a Flatten follow the one operator of a model."""
    model.graph.node[0].output[0] = "image"
    model.graph.node.append(helper.make_node("Flatten", ["image"], ["y"]))
    return model


def chain(*nodes, constants, shape):
    """Return a model of nodes from ``x`` to ``y``."""
    return networks.model(list(nodes), constants, list(shape), ["n", "labels"])
