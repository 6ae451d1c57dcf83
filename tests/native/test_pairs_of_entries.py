"""Pairs of networks kept as entries: numbers are subtracted only where they stand for the same."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from leaveout.bab import NativeOptions
from leaveout.bab.native.claims import Claims
from leaveout.bab.native.kernels.interface import layout_of
from leaveout.encoders import Box
from leaveout.encoders.joint import join
from leaveout.encoders.query import Application, Case, Condition, Form, Query
from leaveout.models import matrices
from leaveout.models.onnx.file import network_from

from support.claims import asked, maximise

WIDTH = 6


@pytest.fixture(autouse=True)
def entries(monkeypatch):
    """Keep all matrices of convolutions as entries, however small."""
    monkeypatch.setattr(matrices, "_DENSE", 0)
    monkeypatch.setattr(matrices, "_FILLED", 2.0)


def convolution(seed, pads):
    rng = np.random.default_rng(seed)
    numbers = {
        "kernel": rng.normal(size=(1, 1, 3)), "dense": rng.normal(size=(2, WIDTH)),
    }  # fmt: skip
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "kernel"], ["moved"], kernel_shape=[3], pads=pads),
            helper.make_node("Relu", ["moved"], ["on"]),
            helper.make_node("Flatten", ["on"], ["flat"]),
            helper.make_node("Gemm", ["flat", "dense"], ["scores"], transB=1),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, WIDTH])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 2])],
        [numpy_helper.from_array(v.astype(np.float32), name) for name, v in numbers.items()],
    )
    opset = [helper.make_opsetid("", 13)]
    return network_from(helper.make_model(graph, opset_imports=opset, ir_version=8), "net")


def difference(sign):
    return Form((), ((0, 0, sign), (1, 0, -sign)))


def queries():
    """Yield one point of two networks, two points of one, and two points that are near."""
    box = Box(np.zeros(WIDTH), np.ones(WIDTH))
    left, right = convolution(0, [2, 0]), convolution(0, [0, 2])
    even, other = convolution(0, [1, 1]), convolution(1, [1, 1])
    near = tuple(
        Condition(Form(((0, i, -sign), (1, i, sign)), (), 0.5))
        for i in range(WIDTH)
        for sign in (1, -1)
    )
    for first, second in ((left, right), (left, even), (even, other)):
        yield Query((box,), (Application(first, 0), Application(second, 0)), ()), ()
        yield Query((box, box), (Application(first, 0), Application(second, 1)), ()), ()
        yield Query((box, box), (Application(first, 0), Application(second, 1)), ()), near
    yield Query((box, box), (Application(left, 0), Application(left, 1)), ()), ()
    yield Query((box, box), (Application(left, 0), Application(left, 1)), ()), near


@pytest.mark.parametrize(("query", "case"), list(queries()))
def test_both_have_entries_at_the_same_places_and_compute_their_networks(query, case):
    joint = join(query, [Case(case)])
    assert joint.is_pair and joint.first.is_sparse
    second = joint.members.take(np.zeros(1, np.int64))
    assert layout_of(joint.first).fits(second)
    u = np.random.default_rng(0).normal(size=(20, joint.box.dimension))
    for stack, application in zip((joint.first, second), query.applications, strict=True):
        points = u @ joint.points[application.point].dense()[0].T
        expected = application.network.stack.scores(points)
        np.testing.assert_allclose(stack.scores(u), expected, atol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(("query", "case"), list(queries()))
def test_bounds_of_their_difference_hold_without_an_attack(query, case, sign, monkeypatch):
    for name in ("first", "follow"):
        monkeypatch.setattr(Claims, name, lambda *_: None)
    found = maximise(asked(query, case, [difference(sign)]), NativeOptions(nodes=60))
    rng = np.random.default_rng(0)
    x = rng.random((4000, WIDTH)).round()
    y = np.clip(x + rng.choice([-0.5, 0.5], x.shape), 0, 1) if case else x[::-1]
    points = (x, x if len(query.points) == 1 else y)
    one, other = (
        each.network.stack.scores(points[each.point])[0, :, 0] for each in query.applications
    )
    assert (sign * (one - other)).max() <= found.upper < np.inf


def test_numbers_of_other_places_are_refused():
    left, right = convolution(0, [2, 0]).stack, convolution(0, [0, 2]).stack
    assert not layout_of(left).fits(right) and layout_of(left).fits(left.take([0]))
