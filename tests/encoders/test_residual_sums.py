"""A runtime may start a sum of products at the residual that is added to it: that is charged."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from leaveout.encoders import Applied, Box, network_bounds, rounding_error
from leaveout.encoders.applied import computed_ends
from leaveout.kernel.float32 import Region, Rounding
from leaveout.models.lowering import program_of
from leaveout.models.onnx.file import network_from
from leaveout.models.replay import session

TERMS = 264


def residual_model(convolution):
    """Return x + W relu(1), of a W whose large terms sum to 0, as exporters write it."""
    weights = np.zeros((TERMS, 2), np.float32)
    weights[:256, 0], weights[256:, 0] = 2.0**15, -(2.0**20)
    parts = {"W1": np.zeros((2, TERMS)), "b1": np.ones(TERMS), "W2": weights}
    nodes = [
        helper.make_node("MatMul", ["x", "W1"], ["a"]),
        helper.make_node("Add", ["a", "b1"], ["b"]),
        helper.make_node("Relu", ["b"], ["r"]),
        helper.make_node("MatMul", ["r", "W2"], ["m"]),
        helper.make_node("Add", ["m", "x"], ["y"]),
    ]
    shape = ["n", 2]
    if convolution:
        # 16 channels are added at a time, each time to what stands there already.
        shape = [1, 16, 1, 1]
        wide = np.zeros((16, TERMS), np.float32)
        wide[0] = weights[:, 0]
        parts = {
            "W1": np.zeros((TERMS, 16, 1, 1)), "b1": np.ones(TERMS),
            "W2": wide[:, :, None, None], "I": np.eye(16)[:, :, None, None],
        }  # fmt: skip
        nodes = [
            helper.make_node("Conv", ["x", "W1", "b1"], ["a"]),
            helper.make_node("Relu", ["a"], ["r"]),
            helper.make_node("Conv", ["x", "I"], ["s"]),
            helper.make_node("Conv", ["r", "W2"], ["m"]),
            helper.make_node("Add", ["m", "s"], ["z"]),
            helper.make_node("Flatten", ["z"], ["y"]),
        ]
    graph = helper.make_graph(
        nodes,
        "residual",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [shape[0], shape[1]])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in parts.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model, shape


@pytest.mark.parametrize("convolution", [False, True])
def test_what_a_runtime_computes_of_a_residual_is_within_what_is_charged(convolution):
    model, shape = residual_model(convolution)
    network = network_from(model, "residual.onnx")
    width = network.inputs
    low, high = np.zeros(width), np.ones(width)
    low[0], high[0] = 0.5, 0.75
    box = Box(low, high)
    bounds = network_bounds(network.stack, box)
    error = rounding_error(Applied(network).evaluation(), bounds, box)
    forms = np.eye(network.labels)
    here = Region(
        high[None],
        np.zeros((1, width)),
        [each.lower[None] for each in bounds],
        [each.upper[None] for each in bounds],
    )
    own = {name: value[None] for name, value in network.parameters.items()}
    kernel = Rounding(program_of(network.graph, own), np.zeros(1, np.int64), here)
    charged = np.minimum(error.of_forms(forms), kernel.of_forms(forms[None])[0])
    ends = computed_ends(error, box)
    rng = np.random.default_rng(1)
    points = low + (high - low) * rng.random((200, width))
    points[0] = low
    points[0, 0] = np.nextafter(np.float32(0.5), np.float32(1))
    worst = 0.0
    for optimised in (True, False):
        runtime = session(model, "residual.onnx", optimised=optimised)
        for point in points.astype(np.float32):
            (scores,) = runtime.run(None, {"x": point.reshape([1, *shape[1:]])})
            moved = np.abs(scores[0].astype(float) - point.astype(float)[: network.labels])
            assert (moved <= charged).all()
            assert (ends.lower <= scores[0]).all() and (scores[0] <= ends.upper).all()
            worst = max(worst, moved[0])
    # It is far more than the one rounding of an addition.
    assert worst > 0.1
