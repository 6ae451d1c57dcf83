"""What rounding is charged is what the checker finds, no more, and covers what is computed."""

from __future__ import annotations

import subprocess
import sys
from unittest import mock

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from leaveout.encoders import (
    Applied,
    Box,
    Interval,
    confidence_error,
    evaluation_of,
    network_bounds,
    rounding_error,
)
from leaveout.encoders import rounding as rounding_module
from leaveout.kernel.float32 import Region, Rounding
from leaveout.models import Family, Members
from leaveout.models.lowering import program_of
from leaveout.models.onnx.file import network_from
from leaveout.models.replay import with_parameters

from attacks.onnx_cases import Runtime
from support import networks
from support.cases import family_of
from support.depth import rounds

SEEDS = st.integers(0, 2**32 - 1)
FIRST = np.zeros(1, np.int64)


def random_graph(rng):
    """Convolutions, scalings, normalisations, ReLUs and residual sums in any order, then dense."""
    normal = lambda *shape: (
        rng.normal(size=shape) * 2.0 ** rng.choice([-10, 0, 0, 0, 10]) / 2
    ).astype(np.float32)
    c = {"first": normal(2, 1, 3), "W": normal(6, 3), "b": normal(3)}
    nodes = [helper.make_node("Conv", ["x", "first"], ["t0"], pads=[1, 1])]
    for i in range(1, int(rng.integers(2, 9))):
        given, out = [f"t{i - 1}"], [f"t{i}"]
        kind = str(rng.choice(["Conv", "Mul", "BatchNormalization", "Relu", "Add", "Sub"]))
        attributes = {"pads": [1, 1]} if kind == "Conv" else {}
        if kind == "Conv":
            c |= {f"k{i}": normal(2, 2, 3), f"d{i}": normal(2)}
            given += [f"k{i}", f"d{i}"]
        elif kind == "Mul":
            c[f"s{i}"] = normal(2, 1)
            given.append(f"s{i}")
        elif kind == "BatchNormalization":
            c |= {f"s{i}": normal(2), f"m{i}": normal(2), f"n{i}": normal(2)}
            c[f"v{i}"] = (0.1 + rng.random(2)).astype(np.float32)
            given += [f"{letter}{i}" for letter in "smnv"]
        elif kind in {"Add", "Sub"}:
            given.append(f"t{int(rng.integers(0, i))}")
        nodes.append(helper.make_node(kind, given, out, **attributes))
    nodes.append(helper.make_node("Flatten", [nodes[-1].output[0]], ["f"]))
    nodes.append(helper.make_node("Gemm", ["f", "W", "b"], ["y"]))
    return networks.model(nodes, c, ["n", 1, 3], ["n", 3])


def random_case(seed):
    """Return a random network, a family of it, and a box."""
    rng = np.random.default_rng(seed)
    kind = str(rng.choice([*networks.ALL, *["random"] * 6]))
    network = network_from({**networks.ALL, "random": random_graph}[kind](rng), kind)
    family = family_of(rng, network, int(rng.integers(1, 4)), float(rng.choice([0, 1e-4, 0.02])))
    box = random_box(rng, network.inputs)
    return rng, network, Members(network.graph, family), box


def margin_error(network, box, label, rivals):
    bounds = network_bounds(network.stack, box)
    error = rounding_error(evaluation_of(network.graph, own_parameters(network)), bounds, box)
    return error.of_margins(label, rivals), bounds


def random_box(rng, inputs):
    """Return a box of random size: somewhere, at the origin, or a point; also negative."""
    centre = rng.uniform(-2, 2, inputs) * (rng.random(inputs) < 0.8)
    half = rng.choice([0.0, 1e-4, 0.05, 1.0], inputs)
    # Points of the box are float32 numbers.
    low, high = np.float32(centre - half), np.float32(centre + half)
    return Box(low.astype(np.float64), high.astype(np.float64))


def own_parameters(network):
    return {name: value[None] for name, value in network.parameters.items()}


def margins(labels, label):
    """Forms of a label's margins over all others."""
    return np.delete(np.eye(labels)[label] - np.eye(labels), label, axis=0)


@settings(max_examples=rounds(150), deadline=None)
@given(seed=SEEDS)
def test_errors_of_margins_are_the_kernels_where_phases_are_known_by_a_millionth(seed):
    _, network, _, box = random_case(seed)
    own, bounds = own_parameters(network), network_bounds(network.stack, box)
    found = rounding_error(evaluation_of(network.graph, own), bounds, box)
    program = program_of(network.graph, own)
    theirs = []
    for room in (0.0, 2e-6):
        off = [room * (np.abs(each.lower) + np.abs(each.upper)) for each in bounds]
        region = Region(
            np.maximum(box.upper, 0)[None],
            np.maximum(-box.lower, 0)[None],
            [(each.lower - by)[None] for each, by in zip(bounds, off)],
            [(each.upper + by)[None] for each, by in zip(bounds, off)],
        )
        errors = Rounding(program, FIRST, region)
        theirs.append(errors.of_forms(margins(network.labels, 0)[None], subtract=True).max())
    margin = found.of_margins(0, range(1, network.labels))
    assert theirs[0] * (1 - 1e-9) <= margin <= theirs[1] * (1 + 1e-9) + 1e-36
    forms = found.of_forms(margins(network.labels, 0))
    assert (forms <= margin).all()
    np.testing.assert_allclose(
        found.of_forms(-2 * margins(network.labels, 0)), 2 * forms, atol=1e-30
    )


@settings(max_examples=rounds(100), deadline=None)
@given(seed=SEEDS)
def test_a_form_of_any_member_is_charged_no_more_than_a_confidence(seed):
    rng, network, members, box = random_case(seed)
    anyone = Applied(network, members)
    rounding, bounds = anyone.rounding(box), anyone.bounds(box)
    whole = confidence_error(network.graph, members.family.parameters, bounds, box)
    for label in range(network.labels):
        assert (rounding.of_forms(margins(network.labels, label)) <= whole).all()
    alone = Applied(network).rounding(box)
    forms = rng.normal(size=(5, network.labels))
    found = alone.of_forms(forms)
    assert (found >= 0).all()
    with mock.patch.object(rounding_module, "_TOGETHER", 2):
        np.testing.assert_allclose(alone.of_forms(forms), found, rtol=1e-12)
    assert alone.of_forms(forms[:0]).shape == (0,)


@settings(max_examples=rounds(100), deadline=None)
@given(seed=SEEDS)
def test_what_holds_for_any_member_covers_what_the_kernel_charges_each(seed):
    rng, network, members, box = random_case(seed)
    anyone = Applied(network, members)
    bounds, forms = anyone.bounds(box), rng.normal(size=(4, network.labels))
    whole = anyone.rounding(box).of_forms(forms)
    count = len(members.family)
    region = Region(
        np.maximum(box.upper, 0)[None],
        np.maximum(-box.lower, 0)[None],
        [each.lower[None] for each in bounds],
        [each.upper[None] for each in bounds],
    )
    same = np.zeros(count, np.int64)
    each = Rounding(
        program_of(network.graph, members.family.parameters), np.arange(count), region.take(same)
    ).of_forms(np.broadcast_to(forms, (count, *forms.shape)))
    assert (each.max(axis=0) <= whole * (1 + 1e-9) + 1e-36).all()


@settings(max_examples=rounds(60), deadline=None)
@given(seed=SEEDS)
def test_onnxruntime_is_within_it_with_optimisations_and_without(seed):
    rng, network, members, box = random_case(seed)
    points = np.clip(box.sample(rng, 100).astype(np.float32), *np.float32((box.lower, box.upper)))
    forms = np.concatenate([np.eye(network.labels), rng.normal(size=(4, network.labels))])
    alone, anyone = Applied(network).rounding(box), Applied(network, members).rounding(box)
    taken = {name: value[0] for name, value in members.family.take([0]).items()}
    for model, stack, rounding in (
        (network.model, network.stack, alone),
        (with_parameters(network.model, taken), members.take([0]), anyone),
    ):
        exact = stack.scores(points.astype(np.float64))[0]
        allowed = rounding.of_forms(forms)
        margin = [rounding.of_margins(0, [rival]) for rival in range(1, network.labels)]
        samples = points.reshape(-1, *network.graph.input_shape)
        first = model.graph.input[0].type.tensor_type.shape.dim[0]
        for is_optimised in (True, False):
            runtime = Runtime(model, network.graph, is_optimised)
            batched = [] if first.dim_value == 1 else [runtime.together(samples)]
            for scores in (runtime.scores(samples[:20]), *batched):
                off = scores - exact[: len(scores)]
                assert (np.abs(off @ forms.T).max(axis=0) <= allowed).all()
                assert (np.abs(off[:, :1] - off[:, 1:]).max(axis=0) <= margin).all()


FLUSHED = """
import sys
import numpy as np
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.add_session_config_entry("session.set_denormal_as_zero", "1")
found = onnxruntime.InferenceSession(sys.argv[1], options).run(None, {"x": np.load(sys.argv[2])})
print(*found[0].view(np.uint32).ravel())
"""


@pytest.mark.parametrize("kind", ["Relu", "Add", "Sub"])
@pytest.mark.parametrize("doublings", [0, 1, 3])
def test_denormals_that_are_flushed_before_and_after_joins_are_within_it(tmp_path, kind, doublings):
    last = {"Relu": ("Relu", ["a"]), "Add": ("Add", ["x", "a"]), "Sub": ("Sub", ["a", "x"])}[kind]
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node(*last, ["t0"])]
    for i in range(doublings):
        nodes.append(helper.make_node("Add", [f"t{i}", f"t{i}"], [f"t{i + 1}"]))
    nodes.append(helper.make_node("Identity", [f"t{doublings}"], ["y"]))
    network = network_from(networks.model(nodes, {}, ["n", 2], ["n", 2]), "joins")
    tiny = np.finfo(np.float32).tiny
    grid = np.linspace(-1.2, 1.2, 25) * tiny
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2).astype(np.float32)
    onnx.save(network.model, tmp_path / "n.onnx")
    np.save(tmp_path / "x.npy", points)
    # Flushing is set for a process.
    command = [sys.executable, "-c", FLUSHED, tmp_path / "n.onnx", tmp_path / "x.npy"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    scores = np.array(told, np.uint32).view(np.float32).reshape(-1, 2).astype(np.float64)
    exact = network.stack.scores(points.astype(np.float64))[0]
    off = scores - exact
    assert off.any()
    box = Box(np.full(2, grid[0]), np.full(2, grid[-1]))
    family = Family({}, np.zeros(1, np.int64))
    forms = np.array([[1.0, 0.0], [1e6, -1e6], [1e6, 1e6]])
    for each in (Applied(network), Applied(network, Members(network.graph, family))):
        found = each.rounding(box)
        assert (np.abs(off @ forms.T).max(axis=0) <= found.of_forms(forms)).all()
        margin = np.abs(off[:, 0] - off[:, 1]).max()
        assert margin <= found.of_margins(0, [1])
        assert margin <= found.of_confidence()


def test_several_networks_are_not_told_apart_by_sign(snapshot):
    _, network, members, _ = random_case(0)
    twice = {name: np.repeat(v[:1], 2, axis=0) for name, v in members.family.parameters.items()}
    with pytest.raises(ValueError) as told:
        evaluation_of(network.graph, twice)
    assert str(told.value) == snapshot


def in_any_order(rng, network, points):
    """Scores of a dense network in float32, every sum in another random order."""
    values = points
    for layer, last in zip(
        range(len(network.stack.layers)), [False] * (len(network.stack.layers) - 1) + [True]
    ):
        weight = network.parameters[f"layers.{layer}.weight"]
        bias = network.parameters[f"layers.{layer}.bias"]
        columns = []
        for row, constant in zip(weight, bias, strict=True):
            terms = np.concatenate(
                [values * row, np.full((len(values), 1), constant, np.float32)], axis=1
            )
            order = rng.permutation(terms.shape[1])
            total = np.zeros(len(values), np.float32)
            for i in order:
                total = total + terms[:, i]
            columns.append(total)
        values = np.stack(columns, axis=1)
        if not last:
            values = np.maximum(values, np.float32(0))
    assert values.dtype == np.float32
    return values.astype(np.float64)


@settings(max_examples=rounds(150), deadline=None)
@given(seed=SEEDS)
def test_no_order_of_summation_exceeds_it(seed):
    rng = np.random.default_rng(seed)
    widths = (int(rng.integers(1, 4)), *rng.integers(3, 40, int(rng.integers(1, 4))), 3)
    scale = float(rng.choice([1e-6, 0.3, 1.0, 1e3]))
    network = network_from(networks.dense(rng, tuple(int(w) for w in widths), scale), "random")
    box = random_box(rng, network.inputs)
    points = box.sample(rng, 200).astype(np.float32)
    points = np.clip(points, box.lower.astype(np.float32), box.upper.astype(np.float32))
    exact = network.stack.scores(points.astype(np.float64))[0]
    for computed in (
        in_any_order(rng, network, points),
        network.runner().scores(points).astype(np.float64),
    ):
        for label in range(3):
            rivals = [c for c in range(3) if c != label]
            for rival in rivals:
                error, _ = margin_error(network, box, label, [rival])
                off = (computed[:, label] - computed[:, rival]) - (
                    exact[:, label] - exact[:, rival]
                )
                assert np.abs(off).max() <= error
            both, _ = margin_error(network, box, label, rivals)
            assert both >= error * (1 - 1e-12)


def test_it_is_far_below_what_holds_for_any_network_and_phase():
    rng = np.random.default_rng(1)
    network = network_from(networks.dense(rng, (8, 50, 50, 2), 0.3), "random")
    for half, less in ((0.5, 0.9), (0.001, 0.6)):
        box = Box(np.full(8, 0.5 - half), np.full(8, 0.5 + half))
        error, bounds = margin_error(network, box, 0, [1])
        assert error < less * confidence_error(network.graph, own_parameters(network), bounds, box)


def test_sums_that_may_overflow_have_no_bound():
    network = network_from(networks.dense(np.random.default_rng(0), (2, 4, 4, 2), 1e15), "random")
    box = Box(np.zeros(2), np.full(2, 1e20))
    assert margin_error(network, box, 0, [1])[0] == np.inf


def test_a_wrong_phase_would_be_noticed():
    """A neuron just below 0 exactly, whose computed value may be just above, passes its error."""
    network = network_from(networks.dense(np.random.default_rng(3), (2, 3, 2)), "random")
    box = Box(np.full(2, 0.3), np.full(2, 0.3))
    alone = own_parameters(network)
    evaluation = evaluation_of(network.graph, alone)
    clearly = [Interval(np.full(3, -5.0), np.full(3, -4.0))]
    barely = [Interval(np.full(3, -5.0), np.full(3, -1e-9))]
    unknown, known = (rounding_error(evaluation, each, box) for each in (barely, clearly))
    assert unknown.of_margins(0, [1]) > known.of_margins(0, [1])
