"""A rewrite that is wrong, or given what it is not for, is refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from leaveout.errors import ModelError
from leaveout.models import load_network
from leaveout.models.onnx import reader
from leaveout.models.onnx.file import check_against_onnxruntime, network_from
from leaveout.models.onnx.rewrites import Rewrite
from leaveout.models.onnx.use import UnsupportedError, accepted_values, only

from support.rewrites import F32, FLOAT, HardSigmoid, model_of, random_case


class OffBy(Rewrite):
    """HardSigmoid with a factor that is a little too large."""

    operator = "HardSigmoid"
    attributes = HardSigmoid.attributes

    def __init__(self, factor):
        self.factor = factor

    def visit(self, use, draft):
        return HardSigmoid().visit(_Attributes(use, alpha=self.factor * 0.5, beta=0.25), draft)


class _Attributes:
    def __init__(self, use, **given):
        self.use, self.given = use, given

    def __getattr__(self, name):
        return getattr(self.use, name)

    def attribute(self, name, default):
        return self.given[name]


def test_a_rewrite_that_is_off_by_a_few_roundings_is_caught(more, snapshot):
    node = helper.make_node("HardSigmoid", ["x"], ["y"], name="it", alpha=0.5, beta=0.25)
    more(OffBy(1.0))
    check_against_onnxruntime(network_from(model_of(node), "net.onnx"))
    more(OffBy(1 + 2.0**-19))
    with pytest.raises(ModelError) as told:
        check_against_onnxruntime(network_from(model_of(node), "net.onnx"))
    assert str(told.value) == snapshot


class Wrong(Rewrite):
    """Abs as the difference of the ReLUs: x itself."""

    operator = "Abs"

    def visit(self, use, draft):
        (x,) = use.variables
        return draft("Sub", draft("Relu", x), draft("Relu", draft("Neg", x)))


def test_a_wrong_rewrite_is_caught(more, tmp_path, snapshot):
    more(Wrong())
    onnx.save(random_case(np.random.default_rng(0), "Abs"), tmp_path / "net.onnx")
    with pytest.raises(ModelError) as told:
        load_network(tmp_path / "net.onnx")
    assert str(told.value) == snapshot


class Peeking(Rewrite):
    """Whether all slopes are 1 is to be told from a parameter's value."""

    operator = "PRelu"
    inputs = ("data", "floats")

    def visit(self, use, draft):
        slope = use.values[use.constant(1)]
        if (slope == 1).all():
            return use.proto.input[0]
        return draft("Mul", use.proto.input[0], draft.constant(slope))


def test_values_of_parameters_are_not_shown_but_those_of_constants_are(more, snapshot):
    more(Peeking())
    node = helper.make_node("PRelu", ["x", "s"], ["y"], name="it")
    ones = np.ones(3, F32)
    with pytest.raises(ModelError) as told:
        network_from(model_of(node, {"s": ones}), "net.onnx")
    assert str(told.value) == snapshot
    copied = [helper.make_node("Transpose", ["p"], ["s"]), node]
    with pytest.raises(ModelError) as told:
        network_from(model_of(*copied, constants={"p": ones}), "net.onnx")
    assert str(told.value) == snapshot
    held = helper.make_node("Constant", [], ["s"], value_floats=[1.0, 1.0, 1.0])
    network = network_from(model_of(held, node), "net.onnx")
    np.testing.assert_array_equal(network.stack.layers[0].weights[0][0], np.eye(3))


class Reaching(Rewrite):
    """A draft that reads a tensor of another node."""

    operator = "Abs"

    def visit(self, use, draft):
        return draft("Add", use.variables[0], "x")


class Elsewhere(Rewrite):
    """A result that is a tensor of another node."""

    operator = "Abs"

    def visit(self, use, draft):
        return "x"


class Itself(Rewrite):
    """A node written as itself."""

    operator = "Abs"

    def visit(self, use, draft):
        return draft("Abs", use.variables[0])


@pytest.mark.parametrize("rewrite", [Reaching, Elsewhere])
def test_a_draft_reads_inputs_of_its_node_only(rewrite, more, snapshot):
    more(rewrite())
    nodes = [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Abs", ["h"], ["y"])]
    with pytest.raises(ModelError) as told:
        network_from(model_of(*nodes), "net.onnx")
    assert str(told.value) == snapshot


def test_applying_rewrites_comes_to_an_end(monkeypatch, snapshot):
    monkeypatch.setattr(reader, "REWRITES", (Itself(),))
    with pytest.raises(ModelError) as told:
        network_from(model_of(helper.make_node("Abs", ["x"], ["y"])), "net.onnx")
    assert str(told.value) == snapshot


INT = TensorProto.INT64
REFUSED = {
    "cast to another type": model_of(helper.make_node("Cast", ["x"], ["y"], to=INT)),
    "cast of a parameter to another type": model_of(
        helper.make_node("Cast", ["c"], ["d"], to=TensorProto.DOUBLE),
        helper.make_node("Add", ["x", "d"], ["y"]),
        {"c": np.ones(3, F32)},
    ),
    "cast to no type": model_of(helper.make_node("Cast", ["x"], ["y"], to=99)),
    "cast with an attribute of newer operators": model_of(
        helper.make_node("Cast", ["x"], ["y"], to=FLOAT, round_mode="up")
    ),
    "cast back": model_of(
        helper.make_node("Cast", ["x"], ["d"], to=TensorProto.DOUBLE),
        helper.make_node("Cast", ["d"], ["y"], to=FLOAT),
    ),
    "negation with an attribute": model_of(helper.make_node("Neg", ["x"], ["y"], slope=0.1)),
    "negation of a constant": model_of(
        helper.make_node("Neg", ["c"], ["d"]),
        helper.make_node("Add", ["x", "d"], ["y"]),
        {"c": np.ones(3, F32)},
    ),
    "zeros that are allowed": model_of(
        helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=1),
        {"s": np.asarray([0, 3], np.int64)},
    ),
    "a shape that depends on the input": model_of(
        helper.make_node("Reshape", ["x", "x"], ["y"], allowzero=1)
    ),
    "a shape of floats": model_of(
        helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=1),
        {"s": np.asarray([-1, 3], F32)},
    ),
    "no list of sizes": model_of(
        helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=1),
        {"s": np.asarray([[-1, 3]], np.int64)},
    ),
    "no shape at all": model_of(
        helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=1),
        {"s": np.asarray([], np.int64)},
    ),
    "a batch that is re-shaped": model_of(
        helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=1),
        {"s": np.asarray([3, -1], np.int64)},
    ),
    "an unknown operator": model_of(helper.make_node("Det", ["x"], ["y"])),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_rewrite_is_not_for_is_refused_by_name(case, snapshot):
    model = REFUSED[case]
    with pytest.raises(ModelError) as caught:
        network_from(model, "net.onnx")
    assert str(caught.value) == snapshot
    assert "\n" not in str(caught.value)


class Seen(Rewrite):
    """Reshape with an attribute of this value only."""

    operator = "Reshape"
    inputs = ("data", "integers")
    attributes = accepted_values(allowzero=only(1))

    def visit(self, use, draft):
        raise UnsupportedError("seen")


def test_a_rewrite_is_asked_about_what_it_declares_only(more):
    more(Seen())
    node = helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=0)
    shape = {"s": np.asarray([-1, 3], np.int64)}
    assert network_from(model_of(node, shape), "net.onnx").labels == 3
    node.attribute[0].i = 1
    with pytest.raises(ModelError, match="seen"):
        network_from(model_of(node, shape), "net.onnx")
