"""What float32 makes of a batch normalisation is within what is charged for it."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from leaveout.encoders import (
    Box,
    confidence_error,
    evaluation_of,
    network_bounds,
    rounding_error,
)
from leaveout.models.onnx.file import network_from

from support.networks import model

F32 = np.float32


def normalised(rng, variance, epsilon, convolved):
    """Return scores of a normalisation of four channels, after a convolution or none."""
    given = {} if epsilon is None else {"epsilon": epsilon}
    normal = lambda *shape: rng.normal(size=shape).astype(F32)
    spread = np.sqrt(variance + (1e-5 if epsilon is None else epsilon))
    c = {"k": normal(4, 4, 1, 1), "d": normal(4), "s": spread * normal(4), "b": normal(4)}
    c |= {"m": normal(4), "v": variance * (1 + rng.random(4)), "W": normal(4, 2)}
    nodes = [
        helper.make_node("Conv", ["x", "k", "d"], ["a"])
        if convolved
        else helper.make_node("Identity", ["x"], ["a"]),
        helper.make_node("BatchNormalization", ["a", "s", "b", "m", "v"], ["n_"], **given),
        helper.make_node("Relu", ["n_"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("MatMul", ["f", "W"], ["y"]),
    ]
    return model(nodes, {k: F32(v) for k, v in c.items()}, ["n", 4, 1, 1], ["n", 2])


@pytest.mark.parametrize("convolved", [False, True])
@pytest.mark.parametrize(
    ("variance", "epsilon"),
    [
        (1.0, None),
        (1e-05, None),
        (1e-09, None),
        (0.0, None),
        (1e-09, 0.0),
        (1e-29, 0.0),
        (1e-42, 1e-29),
        (1e20, None),
    ],
)
def test_normalisations_of_any_variance_are_within_what_is_charged(variance, epsilon, convolved):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        network = network_from(normalised(rng, variance, epsilon, convolved), "N")
        box = Box(-np.ones(4), np.ones(4))
        bounds = network_bounds(network.stack, box)
        own = {name: value[None] for name, value in network.parameters.items()}
        allowed = min(
            confidence_error(network.graph, own, bounds, box),
            rounding_error(evaluation_of(network.graph, own), bounds, box).of_margins(0, [1]),
        )
        points = rng.uniform(-1, 1, (200, 4)).astype(F32)
        exact = network.stack.scores(points.astype(np.float64))[0]
        for level in onnxruntime.GraphOptimizationLevel.__members__.values():
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = level
            running = onnxruntime.InferenceSession(network.model.SerializeToString(), options)
            found = running.run(None, {"x": points[:, :, None, None]})[0].astype(np.float64)
            off = (found[:, 0] - found[:, 1]) - (exact[:, 0] - exact[:, 1])
            assert np.abs(off).max() <= allowed
