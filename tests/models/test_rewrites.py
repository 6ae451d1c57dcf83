"""An operator in disguise is read as what it is, and charged no less than it rounds."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from leaveout.encoders import Box, evaluation_of, network_bounds, rounding_error
from leaveout.models import load_network, lower
from leaveout.models.onnx import reader
from leaveout.models.onnx.file import check_against_onnxruntime, network_from
from leaveout.models.onnx.rewrites import REWRITES, Rewrite
from leaveout.models.replay import session

from support.cases import shaken
from support.depth import rounds
from support.rewrites import ADDED, F32, FLOAT, OWN, Absolute, model_of, random_case


@pytest.mark.parametrize("kind", [*OWN, *ADDED])
@settings(max_examples=rounds(30), deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([1.0, 1e-4, 1e4, 1e-36]))
def test_what_onnxruntime_computes_is_within_the_rounding_charged(kind, seed, size):
    rng = np.random.default_rng(seed)
    model = random_case(rng, kind, size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "REWRITES", (*ADDED.values(), *REWRITES))
        network = network_from(model, "net.onnx")
        check_against_onnxruntime(network)
    stack, points = network.stack, rng.normal(size=(40, 3)).astype(F32)
    exact = points.astype(np.float64)
    box = Box(exact.min(axis=0), exact.max(axis=0))
    stacked = {name: value[None] for name, value in network.parameters.items()}
    error = rounding_error(evaluation_of(network.graph, stacked), network_bounds(stack, box), box)
    allowed = error.of_forms(np.eye(2)) + 1e-13 * (1 + size)
    assert np.isfinite(allowed).all()
    for optimised in (True, False):
        found = session(model, "net.onnx", optimised=optimised).run(None, {"x": points})[0]
        assert (np.abs(stack.scores(exact)[0] - found) <= allowed).all()


@pytest.mark.parametrize("kind", ADDED)
def test_members_keep_their_own_parameters_through_a_rewrite(kind, more):
    rng = np.random.default_rng(3)
    network = network_from(random_case(rng, kind), "net.onnx")
    stacked = shaken(rng, network, 3, 0.5)
    points = rng.normal(size=(20, 3)).astype(F32)
    found = lower(network.graph, stacked).scores(points.astype(np.float64))
    for member in range(3):
        runner = network.runner({name: stack[member] for name, stack in stacked.items()})
        np.testing.assert_allclose(found[member], runner.scores(points), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [*OWN, *ADDED])
def test_what_is_read_is_the_file_as_it_was(kind, more):
    model = random_case(np.random.default_rng(0), kind)
    before = model.SerializeToString()
    network = network_from(model, "net.onnx")
    assert network.model.SerializeToString() == before
    given = {name for node in model.graph.node for name in node.output}
    assert given <= {node.output for node in network.graph.nodes}
    assert {node.name for node in network.graph.nodes if node.output.startswith("t")} == {"it"}


def test_only_the_operator_changes(more):
    """A cast or a re-shaping to what is there leaves the very same matrices."""
    plain = network_from(model_of(helper.make_node("Identity", ["x"], ["y"])), "net.onnx")
    for kind in ("Cast", "Reshape"):
        nodes = random_case(np.random.default_rng(0), kind).graph.node[2]
        nodes.input[0], nodes.output[0] = "x", "y"
        model = model_of(nodes, {"shape": np.asarray([-1, 3], np.int64)})
        found = network_from(model, "net.onnx").stack.layers
        np.testing.assert_array_equal(found[0].weights[0], plain.stack.layers[0].weights[0])
        np.testing.assert_array_equal(found[0].bias, plain.stack.layers[0].bias)


@pytest.mark.parametrize("batch", ["n", 1])
@pytest.mark.parametrize("kind", ["Add", "Sub", "Max"])
def test_a_tensor_that_is_read_twice_is_compared(kind, batch, more, tmp_path):
    model = model_of(helper.make_node(kind, ["x", "x"], ["y"]), batch=batch)
    onnx.save(model, tmp_path / "net.onnx")
    weight = {"Add": 2, "Sub": 0, "Max": 1}[kind]
    points = np.asarray([[1.0, -2.0, 3.0], [0.0, 1.0, -1.0]])
    network = load_network(tmp_path / "net.onnx")
    np.testing.assert_array_equal(network.stack.scores(points)[0], weight * points)


def test_names_of_a_draft_are_none_of_the_file(more):
    nodes = [
        helper.make_node("Relu", ["x"], ["y//0"]),
        helper.make_node("Identity", ["y//0"], ["y//1"]),
        helper.make_node("Neg", ["x"], ["y//2"]),
        helper.make_node("Neg", ["y//2"], ["y//2/"]),
        helper.make_node("Abs", ["y//2/"], ["y"]),
    ]
    network = network_from(model_of(*nodes), "net.onnx")
    outputs = [node.output for node in network.graph.nodes]
    assert len(outputs) == len(set(outputs))
    points = np.asarray([[1.0, -2.0, 0.0]])
    np.testing.assert_array_equal(network.stack.scores(points)[0], abs(points))
    check_against_onnxruntime(network)


def test_what_a_draft_has_beyond_its_result_is_left_out(more):
    class Wasteful(Rewrite):
        operator = "Abs"

        def visit(self, use, draft):
            found = Absolute().visit(use, draft)
            draft("Sigmoid", found)
            return found

    more(Wasteful())
    network = network_from(model_of(helper.make_node("Abs", ["x"], ["y"])), "net.onnx")
    check_against_onnxruntime(network)
    assert network.graph.nodes[-1].output == "y"


def test_a_float_parameter_may_be_cast_to_itself_and_stays_one():
    nodes = [
        helper.make_node("Cast", ["s"], ["t"], to=FLOAT),
        helper.make_node("Mul", ["x", "t"], ["y"]),
    ]
    network = network_from(model_of(*nodes, constants={"s": np.ones(3, F32)}), "net.onnx")
    stacked = {"s": np.asarray([[1, 2, 3], [4, 5, 6]], F32)}
    weights = lower(network.graph, stacked).layers[0].weights[0]
    np.testing.assert_array_equal(weights, [np.diag(row) for row in stacked["s"]])
