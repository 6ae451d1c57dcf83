"""What a runtime multiplies together beforehand is part of what it may round."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper

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
from leaveout.models import Family
from leaveout.models.lowering import program_of
from leaveout.models.onnx.file import network_from

from support.depth import rounds
from support.networks import model

F32 = np.float32


def scaled(kind, first, second, third, last):
    """A convolution, something linear after it, a ReLU, a convolution: scores (last * h, 1/4)."""
    c = {
        "axes": np.asarray([1], np.int64),
        "A": F32([[[first]]]),
        "B": F32([[[second]]]),
        "s": F32([[[third]]]),
        "V": F32([[last], [0]]),
        "v": F32([0, 0.25]),
    }
    nodes = [
        helper.make_node("Unsqueeze", ["x", "axes"], ["u"]),
        helper.make_node("Conv", ["u", "A"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "B"], ["c"]),
    ]
    if kind == "mul":
        nodes.append(helper.make_node("Mul", ["c", "s"], ["d"]))
    else:
        c |= {"zero": F32([0]), "one": F32([1]), "s": F32([third])}
        names = ["c", "s", "zero", "zero", "one"]
        nodes.append(helper.make_node("BatchNormalization", names, ["d"], epsilon=0.0))
    nodes += [
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("Gemm", ["f", "V", "v"], ["y"], transB=1),
    ]
    return model(nodes, c, ["n", 1], ["n", 2])


def between(first, second, third, last):
    """A scaling, a matrix, a scaling: a runtime may put the scalings together."""
    c = {
        "p": F32(first),
        "W": F32([[second, 0.0]]),
        "q": F32(third),
        "V": F32([[last, 0], [0, 1]]),
        "v": F32([0, 0.25]),
    }
    nodes = [
        helper.make_node("Mul", ["x", "p"], ["a"]),
        helper.make_node("MatMul", ["a", "W"], ["b"]),
        helper.make_node("Mul", ["b", "q"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Gemm", ["r", "V", "v"], ["y"]),
    ]
    return model(nodes, c, ["n", 1], ["n", 2])


def gemm(first, second, third, last):
    """A factor of its own in each Gemm."""
    c = {"W": F32([[first]]), "V": F32([[last, 0]]), "v": F32([0, 0.25])}
    nodes = [
        helper.make_node("Gemm", ["x", "W"], ["a"], alpha=float(F32(second))),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Gemm", ["r", "V", "v"], ["y"], alpha=float(F32(third))),
    ]
    return model(nodes, c, ["n", 1], ["n", 2])


MAKERS = {
    "mul": lambda *n: scaled("mul", *n),
    "norm": lambda *n: scaled("norm", *n),
    "between": between,
    "gemm": gemm,
}


def bounded(network, box):
    """Return the bounds of the error that the encoders and the checker give."""
    with np.errstate(all="ignore"):
        bounds = network_bounds(network.stack, box)
        own = {name: value[None] for name, value in network.parameters.items()}
        if not all(np.isfinite(each.width).all() for each in bounds):
            return []
        which = np.zeros(1, np.int64)
        region = Region(
            np.maximum(box.upper, 0)[None],
            np.maximum(-box.lower, 0)[None],
            [each.lower[None] for each in bounds],
            [each.upper[None] for each in bounds],
        )
        kernel = Rounding(program_of(network.graph, own), which, region)
        margin = np.zeros((1, 1, network.labels))
        margin[0, 0, :2] = 1.0, -1.0
        return [
            confidence_error(network.graph, own, bounds, box),
            rounding_error(evaluation_of(network.graph, own), bounds, box).of_margins(0, [1]),
            kernel.of_forms(margin, subtract=True)[0, 0],
        ]


def error(network, top):
    """Largest difference between the exact margin and the computed one on some inputs."""
    points = np.linspace(0, top, 41, dtype=np.float32)[:, None]
    with np.errstate(all="ignore"):
        exact = network.stack.scores(points.astype(np.float64))[0]
        found = network.runner().scores(points).astype(np.float64)
        off = np.abs((found[:, 0] - found[:, 1]) - (exact[:, 0] - exact[:, 1]))
    return math.inf if np.isnan(off).any() else float(off.max())


POWER = st.sampled_from([-100, -80, -70, -64, -50, -20, 0, 20, 50, 64, 70, 80, 100])


@settings(max_examples=rounds(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(sorted(MAKERS)), powers=st.tuples(POWER, POWER, POWER),
    top=st.sampled_from([1.0, 1e8]),
)  # fmt: skip
def test_constants_of_any_size(kind, powers, top):
    """Factors that cancel in exact arithmetic, and may not in float32."""
    last = -sum(powers) if kind != "gemm" else -(powers[0] + powers[1] + powers[2])
    if abs(last) > 120:
        return
    network = network_from(MAKERS[kind](*(2.0**p for p in (*powers, last))), "N")
    off = error(network, top)
    for allowed in bounded(network, Box(np.zeros(1), np.full(1, top))):
        assert off <= allowed


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_usual_constants_cost_nothing(kind):
    network = network_from(MAKERS[kind](0.7, -1.3, 2.1, 0.4), "N")
    for allowed in bounded(network, Box(np.zeros(1), np.ones(1))):
        assert allowed < 1e-4


def test_a_product_that_vanishes_is_seen():
    """Convolution times scaling is 1e-46: onnxruntime loses it, and nothing is claimed."""
    network = network_from(scaled("mul", 1e15, 1e-23, 1e-23, 1e23), "N")
    assert error(network, 1e8) > 0.5
    assert min(bounded(network, Box(np.zeros(1), np.full(1, 1e8)))) > 0.5


def test_a_product_that_overflows_is_refused(snapshot):
    plain = network_from(scaled("mul", 1, 1, 1, 1), "N")
    wild = network_from(scaled("mul", 1e-22, 1e22, 1e22, 1e-22), "M").parameters
    family = Family({k: np.asarray(v, F32)[None] for k, v in wild.items()}, np.zeros(1, np.int64))
    with pytest.raises(LeaveoutError) as told:
        make_instance(plain, family, Box(np.zeros(1), np.ones(1)))
    assert str(told.value) == snapshot


@pytest.mark.parametrize("doublings", [10, 24, 30])
def test_too_many_roundings_for_float32_have_no_bound(doublings):
    """Each sum of a tensor with itself may be computed from twice as many terms."""
    nodes = [helper.make_node("Add", [f"t{i}", f"t{i}"], [f"t{i + 1}"]) for i in range(doublings)]
    first = helper.make_node("MatMul", ["x", "W"], ["t0"])
    last = helper.make_node("MatMul", [f"t{doublings}", "V"], ["y"])
    constants = {"W": F32([[1, 0]]), "V": np.eye(2, dtype=F32) * F32(2.0**-doublings)}
    network = network_from(model([first, *nodes, last], constants, ["n", 1], ["n", 2]), "sums")
    found = bounded(network, Box(np.zeros(1), np.ones(1)))
    assert len(found) == 3
    assert all(each > 0 for each in found)
    assert all((each == math.inf) == (doublings > 20) for each in found)


@pytest.mark.parametrize("width", [16, 256, 1024])
def test_two_products_in_one_are_within_the_bounds(width):
    """The columns of the folded matrix are summed first, each with terms of one sign."""
    tiny, less = F32(2.0**-24 * (1 + 2**-20)), F32(2.0**-24 * (1 - 2**-20))
    first = np.zeros((2, width), F32)
    first[0], first[1] = tiny, -less
    first[:, 0] = 1, -1
    second = np.zeros((width, 2), F32)
    second[:, 0] = 1
    nodes = [
        helper.make_node("MatMul", ["x", "A"], ["h"]),
        helper.make_node("MatMul", ["h", "B"], ["y"]),
    ]
    network = network_from(model(nodes, {"A": first, "B": second}, ["n", 2], ["n", 2]), "folded")
    folded = [F32(0), F32(0)]
    for each in range(2):
        for value in first[each]:
            folded[each] = F32(folded[each] + value)
    off = abs(float(folded[0] + folded[1]) - float(first.astype(np.float64).sum()))
    found = bounded(network, Box(np.zeros(2), np.ones(2)))
    assert len(found) == 3
    assert all(off < each for each in found)
