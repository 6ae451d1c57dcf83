"""An operator in disguise is read as what it is, charged no less than it rounds, or refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from leaveout.encoders import Box, evaluation_of, network_bounds, rounding_error
from leaveout.errors import ModelError
from leaveout.models import load_network, lower, onnx_reader
from leaveout.models.onnx_attributes import FINITE, accepting, only
from leaveout.models.onnx_file import check_against_onnxruntime, network_from
from leaveout.models.onnx_use import UnsupportedError
from leaveout.models.replay import session
from leaveout.models.rewrites import REWRITES, Rewrite

from support import networks
from support.cases import shaken

F32 = np.float32
FLOAT = TensorProto.FLOAT


# Other drafts than the program's own: several nodes, constants, parameters, two inputs.


class Absolute(Rewrite):
    """``|x|`` as the sum of two ReLUs."""

    operator = "Abs"

    def visit(self, use, draft):
        (x,) = use.variables
        return draft("Add", draft("Relu", x), draft("Relu", draft("Neg", x)))


class HardSigmoid(Rewrite):
    """``min(max(alpha x + beta, 0), 1)``."""

    operator = "HardSigmoid"
    attributes = accepting(alpha=FINITE, beta=FINITE)

    def visit(self, use, draft):
        alpha, beta = use.attribute("alpha", F32(0.2)), use.attribute("beta", 0.5)
        line = draft("Mul", use.variables[0], draft.constant(alpha))
        line = draft("Add", line, draft.constant(beta))
        over = draft("Relu", draft("Sub", line, draft.constant(1.0)))
        return draft("Sub", draft("Relu", line), over)


class Slopes(Rewrite):
    """PRelu: the slope is a parameter, known by its name."""

    operator = "PRelu"
    inputs = ("data", "floats")

    def visit(self, use, draft):
        x, slope = use.proto.input
        return draft("Sub", draft("Relu", x), draft("Mul", draft("Relu", draft("Neg", x)), slope))


class Largest(Rewrite):
    """Max of two tensors, ``a + relu(b - a)``."""

    operator = "Max"
    inputs = ("data", "data")

    def visit(self, use, draft):
        a, b = use.proto.input
        return draft("Add", a, draft("Relu", draft("Sub", b, a)))


ADDED = {each.operator: each for each in (Absolute(), HardSigmoid(), Slopes(), Largest())}
OWN = ("Cast", "Neg", "Reshape")


@pytest.fixture
def more(monkeypatch):
    """Let the reader apply some more rewrites."""

    def add(*rewrites):
        monkeypatch.setattr(onnx_reader, "REWRITES", (*rewrites, *REWRITES))

    add(*ADDED.values())
    return add


def random_case(rng, kind, size=1.0):
    """Return a model: a dense layer, a node of this kind, another layer; and how it is called."""
    constants = {
        "W": (size * rng.normal(size=(3, 4))).astype(F32),
        "b": (size * rng.normal(size=4)).astype(F32),
        "V": rng.normal(size=(4, 2)).astype(F32),
        "c": rng.normal(size=4).astype(F32),
    }
    inputs, attributes = ["a"], {}
    if kind == "Cast":
        attributes = {"to": FLOAT}
    elif kind == "Reshape":
        constants["shape"] = np.asarray([-1, 4], np.int64)
        inputs, attributes = ["a", "shape"], {"allowzero": 1}
    elif kind == "HardSigmoid" and rng.random() < 0.7:
        attributes = {"alpha": float(F32(rng.normal())), "beta": float(F32(rng.normal()))}
    elif kind == "PRelu":
        constants["slope"] = rng.normal(size=4).astype(F32)
        inputs = ["a", "slope"]
    elif kind == "Max":
        inputs = [*rng.permutation(["a", "other"])]
    nodes = [
        helper.make_node("Gemm", ["x", "W", "b"], ["a"]),
        helper.make_node("Mul", ["a", "c"], ["other"]),
        helper.make_node(kind, inputs, ["t"], name="it", **attributes),
        helper.make_node("MatMul", ["t", "V"], ["y"]),
    ]
    return networks.model(nodes, constants, ["n", 3], ["n", 2])


@pytest.mark.parametrize("kind", [*OWN, *ADDED])
@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([1.0, 1e-4, 1e4, 1e-36]))
def test_what_onnxruntime_computes_is_within_the_rounding_charged(kind, seed, size):
    rng = np.random.default_rng(seed)
    model = random_case(rng, kind, size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx_reader, "REWRITES", (*ADDED.values(), *REWRITES))
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
    plain = network_from(_model(helper.make_node("Identity", ["x"], ["y"])), "net.onnx")
    for kind in ("Cast", "Reshape"):
        nodes = random_case(np.random.default_rng(0), kind).graph.node[2]
        nodes.input[0], nodes.output[0] = "x", "y"
        model = _model(nodes, {"shape": np.asarray([-1, 3], np.int64)})
        found = network_from(model, "net.onnx").stack.layers
        np.testing.assert_array_equal(found[0].weights[0], plain.stack.layers[0].weights[0])
        np.testing.assert_array_equal(found[0].bias, plain.stack.layers[0].bias)


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


def test_a_rewrite_that_is_off_by_a_few_roundings_is_caught(more):
    node = helper.make_node("HardSigmoid", ["x"], ["y"], name="it", alpha=0.5, beta=0.25)
    more(OffBy(1.0))
    check_against_onnxruntime(network_from(_model(node), "net.onnx"))
    more(OffBy(1 + 2.0**-19))
    with pytest.raises(
        ModelError, match=r"node 'it' \(Scale and Shift and Relu and Join\) differs"
    ):
        check_against_onnxruntime(network_from(_model(node), "net.onnx"))


class Wrong(Rewrite):
    """Abs as the difference of the ReLUs: x itself."""

    operator = "Abs"

    def visit(self, use, draft):
        (x,) = use.variables
        return draft("Sub", draft("Relu", x), draft("Relu", draft("Neg", x)))


def test_a_wrong_rewrite_is_caught(more, tmp_path):
    more(Wrong())
    onnx.save(random_case(np.random.default_rng(0), "Abs"), tmp_path / "net.onnx")
    with pytest.raises(ModelError, match=r"node 'it' .* differs from onnxruntime"):
        load_network(tmp_path / "net.onnx")


@pytest.mark.parametrize("batch", ["n", 1])
@pytest.mark.parametrize("kind", ["Add", "Sub", "Max"])
def test_a_tensor_that_is_read_twice_is_compared(kind, batch, more, tmp_path):
    model = _model(helper.make_node(kind, ["x", "x"], ["y"]), batch=batch)
    onnx.save(model, tmp_path / "net.onnx")
    weight = {"Add": 2, "Sub": 0, "Max": 1}[kind]
    points = np.asarray([[1.0, -2.0, 3.0], [0.0, 1.0, -1.0]])
    network = load_network(tmp_path / "net.onnx")
    np.testing.assert_array_equal(network.stack.scores(points)[0], weight * points)


class Peeking(Rewrite):
    """Whether all slopes are 1 is to be told from a parameter's value."""

    operator = "PRelu"
    inputs = ("data", "floats")

    def visit(self, use, draft):
        slope = use.values[use.constant(1)]
        if (slope == 1).all():
            return use.proto.input[0]
        return draft("Mul", use.proto.input[0], draft.constant(slope))


def test_values_of_parameters_are_not_shown_but_those_of_constants_are(more):
    more(Peeking())
    node = helper.make_node("PRelu", ["x", "s"], ["y"], name="it")
    ones = np.ones(3, F32)
    with pytest.raises(ModelError, match="parameters only, or what is not finite"):
        network_from(_model(node, {"s": ones}), "net.onnx")
    copied = [helper.make_node("Transpose", ["p"], ["s"]), node]
    with pytest.raises(ModelError, match="parameters only, or what is not finite"):
        network_from(_model(*copied, constants={"p": ones}), "net.onnx")
    held = helper.make_node("Constant", [], ["s"], value_floats=[1.0, 1.0, 1.0])
    network = network_from(_model(held, node), "net.onnx")
    np.testing.assert_array_equal(network.stack.layers[0].weights[0][0], np.eye(3))


def test_names_of_a_draft_are_none_of_the_file(more):
    nodes = [
        helper.make_node("Relu", ["x"], ["y//0"]),
        helper.make_node("Identity", ["y//0"], ["y//1"]),
        helper.make_node("Neg", ["x"], ["y//2"]),
        helper.make_node("Neg", ["y//2"], ["y//2/"]),
        helper.make_node("Abs", ["y//2/"], ["y"]),
    ]
    network = network_from(_model(*nodes), "net.onnx")
    outputs = [node.output for node in network.graph.nodes]
    assert len(outputs) == len(set(outputs))
    points = np.asarray([[1.0, -2.0, 0.0]])
    np.testing.assert_array_equal(network.stack.scores(points)[0], abs(points))
    check_against_onnxruntime(network)


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
def test_a_draft_reads_inputs_of_its_node_only(rewrite, more):
    more(rewrite())
    nodes = [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Abs", ["h"], ["y"])]
    with pytest.raises(ModelError, match="reads 'x', no input of it"):
        network_from(_model(*nodes), "net.onnx")


def test_applying_rewrites_comes_to_an_end(monkeypatch):
    monkeypatch.setattr(onnx_reader, "REWRITES", (Itself(),))
    with pytest.raises(ModelError, match=r"\(Abs\): not supported in this form"):
        network_from(_model(helper.make_node("Abs", ["x"], ["y"])), "net.onnx")


def test_what_a_draft_has_beyond_its_result_is_left_out(more):
    class Wasteful(Rewrite):
        operator = "Abs"

        def visit(self, use, draft):
            found = Absolute().visit(use, draft)
            draft("Sigmoid", found)
            return found

    more(Wasteful())
    network = network_from(_model(helper.make_node("Abs", ["x"], ["y"])), "net.onnx")
    check_against_onnxruntime(network)
    assert network.graph.nodes[-1].output == "y"


def _model(*nodes, constants=None, batch="n"):
    *nodes, last = nodes
    if isinstance(last, dict):
        constants, last = last, nodes.pop()
    return networks.model([*nodes, last], constants or {}, [batch, 3], [batch, "labels"])


INT = TensorProto.INT64
REFUSED = {
    "cast to another type": (
        _model(helper.make_node("Cast", ["x"], ["y"], to=INT)),
        r"\(Cast\): it casts float32 to int64; only a cast to itself is exact",
    ),
    "cast of a parameter to another type": (
        _model(
            helper.make_node("Cast", ["c"], ["d"], to=TensorProto.DOUBLE),
            helper.make_node("Add", ["x", "d"], ["y"]),
            {"c": np.ones(3, F32)},
        ),
        r"\(Cast\): it computes on the parameter 'c' alone, which members change; fold it into",
    ),
    "cast to no type": (
        _model(helper.make_node("Cast", ["x"], ["y"], to=99)),
        r"\(Cast\): ",
    ),
    "cast with an attribute of newer operators": (
        _model(helper.make_node("Cast", ["x"], ["y"], to=FLOAT, round_mode="up")),
        r"\(Cast\): .*round_mode",
    ),
    "cast back": (
        _model(
            helper.make_node("Cast", ["x"], ["d"], to=TensorProto.DOUBLE),
            helper.make_node("Cast", ["d"], ["y"], to=FLOAT),
        ),
        r"\(Cast\): it casts float32 to double; ",
    ),
    "negation with an attribute": (
        _model(helper.make_node("Neg", ["x"], ["y"], slope=0.1)),
        r"\(Neg\): .*slope",
    ),
    "negation of a constant": (
        _model(
            helper.make_node("Neg", ["c"], ["d"]),
            helper.make_node("Add", ["x", "d"], ["y"]),
            {"c": np.ones(3, F32)},
        ),
        r"\(Neg\): it computes on the parameter 'c' alone, which members change; fold it into",
    ),
    "zeros that are allowed": (
        _model(
            helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=1),
            {"s": np.asarray([0, 3], np.int64)},
        ),
        r"allowzero = 1: only 0 is supported",
    ),
    "a shape that depends on the input": (
        _model(helper.make_node("Reshape", ["x", "x"], ["y"], allowzero=1)),
        r"\(Reshape\): ",
    ),
    "a shape of floats": (
        _model(
            helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=1),
            {"s": np.asarray([-1, 3], F32)},
        ),
        r"\(Reshape\): ",
    ),
    "no list of sizes": (
        _model(
            helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=1),
            {"s": np.asarray([[-1, 3]], np.int64)},
        ),
        "must be a list of integers",
    ),
    "no shape at all": (
        _model(
            helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=1),
            {"s": np.asarray([], np.int64)},
        ),
        "allowzero = 1: only 0 is supported",
    ),
    "a batch that is re-shaped": (
        _model(
            helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=1),
            {"s": np.asarray([3, -1], np.int64)},
        ),
        "mixes the samples of a batch",
    ),
    "an unknown operator": (
        _model(helper.make_node("Det", ["x"], ["y"])),
        r"not supported; supported operators: Abs, Add, .*Cast, .*Neg, .*; simplify the model",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_rewrite_is_not_for_is_refused_by_name(case):
    model, message = REFUSED[case]
    with pytest.raises(ModelError, match=message) as caught:
        network_from(model, "net.onnx")
    assert str(caught.value).startswith("net.onnx: node ")
    assert "\n" not in str(caught.value)


def test_a_float_parameter_may_be_cast_to_itself_and_stays_one():
    nodes = [
        helper.make_node("Cast", ["s"], ["t"], to=FLOAT),
        helper.make_node("Mul", ["x", "t"], ["y"]),
    ]
    network = network_from(_model(*nodes, constants={"s": np.ones(3, F32)}), "net.onnx")
    stacked = {"s": np.asarray([[1, 2, 3], [4, 5, 6]], F32)}
    weights = lower(network.graph, stacked).layers[0].weights[0]
    np.testing.assert_array_equal(weights, [np.diag(row) for row in stacked["s"]])


class Seen(Rewrite):
    """Reshape with an attribute of this value only."""

    operator = "Reshape"
    inputs = ("data", "integers")
    attributes = accepting(allowzero=only(1))

    def visit(self, use, draft):
        raise UnsupportedError("seen")


def test_a_rewrite_is_asked_about_what_it_declares_only(more):
    more(Seen())
    node = helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=0)
    shape = {"s": np.asarray([-1, 3], np.int64)}
    assert network_from(_model(node, shape), "net.onnx").labels == 3
    node.attribute[0].i = 1
    with pytest.raises(ModelError, match="seen"):
        network_from(_model(node, shape), "net.onnx")
