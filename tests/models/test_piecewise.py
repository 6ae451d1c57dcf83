"""Kinks, maxima and pooling: onnxruntime is within what is charged for their rewrites."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from leaveout.encoders import Box, evaluation_of, network_bounds, rounding_error
from leaveout.errors import ModelError
from leaveout.models import load_network, lower
from leaveout.models.onnx.file import check_against_onnxruntime, network_from
from leaveout.models.replay import session

from support import networks
from support.depth import rounds

F32 = np.float32
node = helper.make_node


def case(rng, kind, size=1.0):
    """Return a network with a node of this kind between two layers."""
    wide = kind in {"MaxPool", "GlobalMaxPool", "ReduceMax", "Pad"}
    c = {
        "W": (size * rng.normal(size=(3, 8))).astype(F32),
        "b": (size * rng.normal(size=8)).astype(F32),
        "image": np.asarray([0, 2, 2, 2], np.int64),
        "scale": rng.normal(size=8).astype(F32),
    }
    before = [node("Gemm", ["x", "W", "b"], ["a"]), node("Mul", ["a", "scale"], ["other"])]
    inputs, given_, out = ["a"], {}, ["t"]
    if kind == "LeakyRelu":
        given_ = {"alpha": float(rng.choice([0.01, 0.2, 1.0, 1.5, -0.5, 3e-8, 0.0]))}
    elif kind == "PRelu":
        c["slope"] = (2 * rng.normal(size=8)).astype(F32)
        inputs = ["a", "slope"]
    elif kind == "Clip":
        for name in ("low", "high"):
            if rng.random() < 0.8:
                c[name] = F32(size * rng.normal())
                inputs.append(name)
            else:
                inputs.append("")
    elif kind == "HardSigmoid":
        given_ = {"alpha": float(F32(rng.normal())), "beta": float(F32(rng.normal()))}
    elif kind in {"Max", "Min"}:
        c["floor"] = (size * rng.normal(size=8)).astype(F32)
        inputs = [str(name) for name in rng.permutation(["a", "other", "floor"])]
    elif kind == "MaxPool":
        given_ = {"kernel_shape": [2, 2], "pads": [0, 1, 1, 0], "strides": [1, 1]}
    elif kind == "ReduceMax":
        given_ = {"axes": [1, 3]}
    elif kind == "Concat":
        inputs, given_ = ["other", "a"], {"axis": 1}
    elif kind == "Pad":
        c["pads"], c["fill"] = np.asarray([0, 1, 0, 0, 0, 0, 1, 0]), F32(size)
        inputs = ["a", "pads", "fill"]
    elif kind == "Split":
        inputs, out, given_ = ["a"], ["left", "t"], {"axis": 1}
    if wide:
        before.append(node("Reshape", ["a", "image"], ["i"]))
        inputs[0] = "i"
    nodes = [*before, node(kind, inputs, out, name="it", **given_), node("Flatten", ["t"], ["f"])]
    width = _width(nodes, c)
    c["V"] = rng.normal(size=(width, 2)).astype(F32)
    nodes.append(node("MatMul", ["f", "V"], ["y"]))
    return networks.model(nodes, c, ["n", 3], ["n", 2])


def _width(nodes, constants):
    model = networks.model([*nodes, node("Identity", ["f"], ["y"])], constants, ["n", 3], ["n", 2])
    return session(model, "m").run(None, {"x": np.zeros((1, 3), F32)})[0].shape[1]


KINDS = (
    *("LeakyRelu", "PRelu", "Abs", "Clip", "HardSigmoid", "Max", "Min", "MaxPool"),
    *("GlobalMaxPool", "ReduceMax", "Concat", "Pad", "Split"),
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=rounds(20), deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([1.0, 1.0, 1e-4, 1e4, 1e-36]))
def test_onnxruntime_is_within_the_rounding_charged_and_so_are_its_labels(kind, seed, size):
    rng = np.random.default_rng(seed)
    model = case(rng, kind, size)
    network = network_from(model, "net.onnx")
    check_against_onnxruntime(network)
    stack, points = network.stack, rng.normal(size=(40, 3)).astype(F32)
    # Ties, and zeros of both signs.
    points[:4] = [[0, 0, 0], [-0.0, 0, -0.0], [1, 1, 1], [-1, 0, 1]]
    exact = points.astype(np.float64)
    box = Box(exact.min(axis=0), exact.max(axis=0))
    stacked = {name: value[None] for name, value in network.parameters.items()}
    error = rounding_error(evaluation_of(network.graph, stacked), network_bounds(stack, box), box)
    allowed = error.of_forms(np.eye(2)) + 1e-13 * (1 + size)
    assert np.isfinite(allowed).all()
    margin = error.of_confidence()
    scores = stack.scores(exact)[0]
    clear = np.abs(scores[:, 0] - scores[:, 1]) > margin
    for optimised in (True, False):
        found = session(model, "net.onnx", optimised=optimised).run(None, {"x": points})[0]
        assert (np.abs(scores - found) <= allowed).all()
        assert (found.argmax(axis=1) == scores.argmax(axis=1))[clear].all()


@pytest.mark.parametrize("kind", KINDS)
def test_members_keep_their_own_parameters(kind):
    """Slopes and bounds too, which may cross in a member."""
    rng = np.random.default_rng(7)
    network = network_from(case(rng, kind), "net.onnx")
    stacked = {
        name: np.stack([rng.normal(size=value.shape).astype(F32) for _ in range(4)])
        for name, value in network.parameters.items()
    }
    points = rng.normal(size=(20, 3)).astype(F32)
    found = lower(network.graph, stacked).scores(points.astype(np.float64))
    for member in range(4):
        runner = network.runner({name: stack[member] for name, stack in stacked.items()})
        np.testing.assert_allclose(found[member], runner.scores(points), rtol=1e-4, atol=1e-4)


def test_a_clip_whose_bounds_cross_gives_the_upper_one(tmp_path):
    model = _one(node("Clip", ["x", "low", "high"], ["y"]), low=F32(2), high=F32(-1))
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    network = load_network(tmp_path / "net.onnx")
    points = np.asarray([[-3.0, 0.0, 5.0]])
    assert network.stack.scores(points)[0].tolist() == [[-1, -1, -1]]
    assert network.runner().scores(points).tolist() == [[-1, -1, -1]]


def test_a_kink_is_one_relu_a_number():
    rng = np.random.default_rng(0)
    for kind, count in (("LeakyRelu", 8), ("PRelu", 8), ("Abs", 8), ("MaxPool", 8)):
        layers = network_from(case(rng, kind), "net.onnx").stack.layers[:-1]
        assert max(layer.width for layer in layers) == count


@pytest.mark.parametrize("between", [(), ("Identity",), ("Dropout",)])
@pytest.mark.parametrize("fill", [None, 0.0, -1.0])
def test_a_maximum_over_padding_that_onnxruntime_takes_away_is_refused(between, fill, snapshot):
    """Its optimiser makes one node of the two, and of 0 no number at all."""
    constants = {"pads": np.asarray([0, 0, 0, 0, 0, 0, 1, 1])}
    constants |= {} if fill is None else {"fill": F32(fill)}
    nodes, last = [node("Pad", ["x", *constants], ["p"])], "p"
    for kind in between:
        nodes.append(node(kind, [last], [f"{last}_"]))
        last += "_"
    nodes += [node("MaxPool", [last], ["m"], kernel_shape=[2, 2]), node("Flatten", ["m"], ["y"])]
    model = networks.model(nodes, constants, ["n", 1, 3, 3], ["n", 9])
    with pytest.raises(ModelError) as told:
        network_from(model, "net.onnx")
    assert str(told.value) == snapshot
    nodes[0].input[0] = "r"
    model = networks.model(
        [node("Relu", ["x"], ["r"]), *nodes], constants, ["n", 1, 3, 3], ["n", 9]
    )
    if fill is None:
        network = network_from(model, "net.onnx")
        check_against_onnxruntime(network)
        points = -np.ones((1, 9))
        np.testing.assert_array_equal(network.stack.scores(points)[0], np.zeros((1, 9)))
    else:
        with pytest.raises(ModelError) as told:
            network_from(model, "net.onnx")
        assert str(told.value) == snapshot


REFUSED = {
    "no window": node("MaxPool", ["x"], ["y"], kernel_shape=[5]),
    "entirely in the padding": node("MaxPool", ["x"], ["y"], kernel_shape=[2], pads=[10**9, 10**9]),
    "places of the maximum": node("MaxPool", ["x"], ["t", "y"], kernel_shape=[1]),
    "column by column": node("MaxPool", ["x"], ["y"], kernel_shape=[1], storage_order=1),
    "a jump": node("ThresholdedRelu", ["x"], ["y"]),
    "no line": node("Softsign", ["x"], ["y"]),
    "slope that is no number": node("LeakyRelu", ["x"], ["y"], alpha=float("nan")),
    "bound that is no number": node("Clip", ["x", "", "c"], ["y"]),
    "maxima of samples": node("ReduceMax", ["x"], ["y"], axes=[0]),
    "maxima of everything": node("ReduceMax", ["x"], ["y"]),
    "means of samples": node("ReduceMean", ["x"], ["y"], axes=[0, 1]),
    "samples joined": node("Concat", ["x", "x"], ["y"], axis=0),
    "a constant joined": node("Concat", ["x", "c"], ["y"], axis=1),
    "samples cut": node("Slice", ["x", "one", "two", "nil"], ["y"]),
    "samples padded": node("Pad", ["x", "pads"], ["y"]),
    "parts that do not fit": node("Split", ["x", "two"], ["y", "z"], axis=1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_refused_in_a_line_that_says_what_to_do(name, snapshot):
    made = REFUSED[name]
    shape = ["n", 1, 3] if made.op_type == "MaxPool" else ["n", 3]
    constants = {
        "c": np.ones(3, F32),
        "nil": np.asarray([0]),
        "one": np.asarray([1]),
        "two": np.asarray([2]),
        "pads": np.asarray([1, 0, 0, 0]),
    }
    model = networks.model([made], constants, shape, ["n", "labels"])
    with pytest.raises(ModelError) as caught:
        network_from(model, "net.onnx")
    assert str(caught.value) == snapshot
    assert "\n" not in str(caught.value)


def test_a_member_may_have_other_slopes_from_a_constant_of_the_file():
    """A Constant node is part of the architecture, an initialiser a parameter."""
    held = node("Constant", [], ["s"], value=numpy_helper.from_array(np.full(3, 0.5, F32)))
    fixed = networks.model([held, node("PRelu", ["x", "s"], ["y"])], {}, ["n", 3], ["n", 3])
    assert network_from(fixed, "net.onnx").parameters == {}
    free = _one(node("PRelu", ["x", "s"], ["y"]), s=np.full(3, 0.5, F32))
    assert list(network_from(free, "net.onnx").parameters) == ["s"]


def _one(made, **constants):
    return networks.model([made], constants, ["n", 3], ["n", 3])
