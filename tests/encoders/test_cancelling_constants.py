"""Constants that cancel in an operator's matrix are rounded by a runtime all the same."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from onnx import helper

import leaveout
from leaveout.bab import make_instance
from leaveout.encoders import (
    Box,
    confidence_error,
    evaluation_of,
    network_bounds,
    rounding_error,
)
from leaveout.errors import LeaveoutError
from leaveout.kernel.float32 import Region, Rounding
from leaveout.models import load_family, load_network
from leaveout.models.lowering import program_of
from leaveout.models.onnx.file import network_from

from support import networks

ONE = np.eye(2, dtype=np.float32)


def own_parameters(network):
    return {name: value[None] for name, value in network.parameters.items()}


def charged(network, box):
    """What three analyses charge: the engine's, over everything and by slopes, and the kernel's."""
    own, bounds = own_parameters(network), network_bounds(network.stack, box)
    known = [each.upper[None] for each in bounds[:-1]]
    low = [each.lower[None] for each in bounds[:-1]]
    region = Region(np.maximum(box.upper, 0)[None], np.maximum(-box.lower, 0)[None], low, known)
    first = np.zeros(1, np.int64)
    return {
        "engine, whole": confidence_error(network.graph, own, bounds, box),
        "engine, slopes": rounding_error(evaluation_of(network.graph, own), bounds, box).of_margins(
            0, [1]
        ),
        "kernel": float(
            Rounding(program_of(network.graph, own), first, region).of_forms(
                np.array([[[1.0, -1.0]]]), subtract=True
            )[0, 0]
        ),
    }


def chained(node, count, constants):
    """Return a network of so many equal operators."""
    nodes, source = [], "x"
    for i in range(count):
        out = "y" if i == count - 1 else f"t{i}"
        nodes.append(node(source, out))
        source = out
    return network_from(networks.model(nodes, constants, ["n", 2], ["n", 2]), "chain")


def normalisation():
    """Return 100 normalisations by exactly 1 in float64, of which float32 rounds each."""
    scale, variance, epsilon = np.float32(1.7294966), np.float32(2.9911582), 2.3634256e-07
    exact = float(scale) / math.sqrt(float(variance) + float(np.float32(epsilon)))
    assert exact == 1.0
    constants = {
        "s": np.full(2, scale), "m": np.zeros(2, np.float32), "v": np.full(2, variance),
    }  # fmt: skip
    return chained(
        lambda a, b: helper.make_node(
            "BatchNormalization", [a, "s", "m", "m", "v"], [b], epsilon=epsilon
        ),
        100,
        constants,
    )


CHAINS = {
    "BatchNormalization": normalisation,
    "Gemm": lambda: chained(
        lambda a, b: helper.make_node("Gemm", [a, "W"], [b], alpha=2.0**-100),
        1,
        {"W": 2.0**100 * ONE},
    ),
    "MatMul": lambda: chained(
        lambda a, b: helper.make_node("MatMul", [a, "W"], [b]), 3, {"W": ONE}
    ),
    "Mul": lambda: chained(
        lambda a, b: helper.make_node("Mul", [a, "one"], [b]), 3, {"one": np.ones(2, np.float32)}
    ),
}


@pytest.mark.parametrize("kind", CHAINS)
def test_whatever_computes_is_charged_though_its_matrix_is_the_identity(kind):
    network = CHAINS[kind]()
    box = Box(np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    x = np.array([[1.0, 0.0]], np.float32)
    exact = network.stack.scores(x.astype(float))[0, 0]
    off = np.abs(network.runner().scores(x).astype(float)[0] - exact).max()
    if kind == "BatchNormalization":
        assert off > 5e-6
    for how, error in charged(network, box).items():
        assert error >= off > -1, how
        assert error >= 2.0**-24, how


def test_a_product_that_overflows_before_it_is_scaled_back_has_no_bound():
    network = CHAINS["Gemm"]()
    x = np.array([[2.0**29, 1.0]], np.float32)
    assert np.isinf(network.runner().scores(x)).any()
    box = Box(np.zeros(2), np.full(2, 2.0**30))
    for how, error in charged(network, box).items():
        assert error == math.inf, how


@pytest.mark.parametrize("kind", ["Identity", "Dropout", "Flatten", "Reshape", "Transpose"])
def test_what_only_moves_numbers_costs_nothing(kind):
    inputs = {"Reshape": ["x", "shape"]}.get(kind, ["x"])
    attributes = {"Transpose": {"perm": [0, 1]}}.get(kind, {})
    constants = {"shape": np.array([-1, 2])} if kind == "Reshape" else {}
    node = helper.make_node(kind, inputs, ["y"], **attributes)
    network = network_from(networks.model([node], constants, ["n", 2], ["n", 2]), kind)
    box = Box(np.zeros(2), np.ones(2))
    # What is left is the difference of two scores.
    assert all(error <= 2.1 * 2.0**-24 for error in charged(network, box).values())


def test_a_member_that_overflows_is_in_no_question(tmp_path):
    """N scales by 2^80 and back, the member by 2^100 and not quite: it computes infinity."""

    def scaled(up, after):
        nodes = [
            helper.make_node("Gemm", ["x", "W"], ["r"], alpha=2.0**-100),
            helper.make_node("Relu", ["r"], ["q"]),
            helper.make_node("Mul", ["q", "V"], ["y"]),
        ]
        constants = {"W": 2.0**up * ONE, "V": np.full(2, 2.0**after, np.float32)}
        return networks.model(nodes, constants, ["n", 2], ["n", 2])

    onnx.save(scaled(80, 20), tmp_path / "full.onnx")
    (tmp_path / "members").mkdir()
    onnx.save(scaled(100, 0), tmp_path / "members" / "member_0.onnx")
    network = load_network(tmp_path / "full.onnx")
    family = load_family(tmp_path / "members", network)
    box = Box(np.array([2.0**29, 2.0**30]), np.array([2.0**29 + 8, 2.0**30 + 8]))
    with pytest.raises(LeaveoutError, match="overflow"):
        make_instance(network, family, box)


def test_a_claim_about_scores_that_may_overflow_ends_at_once_and_bounds_nothing(tmp_path):
    network = CHAINS["Gemm"]()
    onnx.save(network.model, tmp_path / "n.onnx")
    (tmp_path / "s.spec").write_text(
        'let N = network("n.onnx")\nlet X = box(0, 1073741824)\n'
        "guarantee a: forall x in X: score(N, x, 0) <= 1073741900\n"
        "find b: least b such that forall x in X: score(N, x, 0) <= b\n"
    )
    # Without a limit on time.
    results = leaveout.verify(tmp_path / "s.spec").results
    assert [(each.verdict, each.upper) for each in results] == [("unknown", None)] * 2
    assert all(str(each.reason).startswith("numerical") for each in results)
