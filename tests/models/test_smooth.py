"""Smooth activations in files: as one node or several, read as what onnxruntime computes."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from leaveout.encoders import Box, evaluation_of, network_bounds, rounding_error
from leaveout.errors import ModelError
from leaveout.kernel.smooth import FUNCTIONS, KIND, declared_error
from leaveout.models import load_network
from leaveout.models.onnx.file import network_from
from leaveout.models.onnx.outlines import FORMS, OUTLINED
from leaveout.models.onnx.repairs import repair_model

from attacks.operator_draft import Draft
from attacks.operator_smooth import write
from support import networks

F32 = np.float32
node = helper.make_node
RNG = np.random.default_rng(0)
W, V = RNG.normal(size=(3, 4)).astype(F32), RNG.normal(size=(4, 2)).astype(F32)
PLAIN = {
    "Sigmoid": {}, "Tanh": {}, "Softplus": {}, "Elu": {}, "Gelu": {},
    "GeluTanh": {"approximate": "tanh"},
}  # fmt: skip


def around(nodes, last, constants=(), opset=20):
    """Return a network with an activation between two layers, from ``h`` to a tensor."""
    nodes = [node("MatMul", ["x", "W"], ["h"]), *nodes, node("MatMul", [last, "V"], ["y"])]
    held = {"W": W, "V": V, **dict(constants)}
    model = networks.model(nodes, held, ["n", 3], ["n", 2])
    model.opset_import[0].version = opset
    return model


def form_model(text, opset=20):
    draft = Draft(np.random.default_rng(1), (4,), opset)
    draft.last = "h"
    write(draft, text)
    held = {k: np.float32(v["data"][0]).reshape(()) for k, v in draft.constants.items()}
    made = [
        node("Constant", [], [k], value=numpy_helper.from_array(np.asarray(v), k))
        for k, v in held.items()
    ]
    made += [node(each["op"], each["inputs"], each["outputs"]) for each in draft.nodes]
    return around(made, draft.last, opset=opset)


def check(model, name, tmp_path):
    onnx.save(model, tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")
    kinds = [getattr(each.operator, "name", None) for each in network.graph.nodes]
    assert kinds == [None, name, None]
    points = np.random.default_rng(2).normal(size=(500, 3)).astype(F32) * 4
    hidden = points.astype(float) @ W.astype(float)
    own = FUNCTIONS[KIND[name]]
    exact = np.vectorize(own.value)(hidden) @ V.astype(float)
    # Only rounding of the products is added to what is declared.
    room = declared_error(KIND[name], np.abs(hidden), np.abs(hidden)) + 1e-6 * (1 + np.abs(hidden))
    allowed = 3 * room @ np.abs(V) + 1e-6
    assert (np.abs(network.runner().scores(points) - exact) <= allowed).all()
    assert (np.abs(network.stack.scores(points.astype(float))[0] - exact) <= 1e-8).all()


@pytest.mark.parametrize("name", PLAIN)
def test_an_activation_of_one_node(name, tmp_path):
    kind = "Gelu" if name == "GeluTanh" else name
    check(around([node(kind, ["h"], ["a"], **PLAIN[name])], "a"), name, tmp_path)


@pytest.mark.parametrize("text", sorted(FORMS))
def test_an_activation_of_several_nodes(text, tmp_path):
    check(form_model(text), FORMS[text].partition("_")[0], tmp_path)


def test_numbers_of_a_form_may_be_stored_and_are_no_parameters(tmp_path):
    model = form_model("Mul(0.5, Mul(Add(1.0, Erf(Div(x, 1.4142135381698608))), x))")
    for each in [n for n in model.graph.node if n.op_type == "Constant"]:
        model.graph.initializer.append(each.attribute[0].t)
        model.graph.node.remove(each)
    check(model, "Gelu", tmp_path)
    network = network_from(model, "net.onnx")
    assert [*network.parameters] == ["W", "V"]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_activations_may_share_numbers_that_nothing_else_reads(elsewhere, tmp_path):
    held = {"one": F32(1), "half": F32(0.5), "root": F32(np.sqrt(2))}
    nodes = []
    for source, out in (("h", "a"), ("a", "b")):
        nodes += [
            node("Div", [source, "root"], [f"{out}0"]),
            node("Erf", [f"{out}0"], [f"{out}1"]),
            node("Add", [f"{out}1", "one"], [f"{out}2"]),
            node("Mul", [source, f"{out}2"], [f"{out}3"]),
            node("Mul", [f"{out}3", "half"], [out]),
        ]
    if elsewhere:
        nodes.append(node("Add", ["b", "half"], ["c"]))
        with pytest.raises(ModelError):
            network_from(around(nodes, "c", held), "net.onnx")
        return
    onnx.save(around(nodes, "b", held), tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")
    kinds = [getattr(each.operator, "name", None) for each in network.graph.nodes]
    assert kinds == [None, "Gelu", "Gelu", None]
    assert [*network.parameters] == ["W", "V"]


@pytest.mark.parametrize(
    "text",
    [
        "Mul(0.5, Mul(Add(1.0, Erf(Div(x, 1.41421))), x))",
        "Mul(0.5, Mul(Add(1.0, Erf(Div(1.4142135381698608, x))), x))",
    ],
)
def test_what_is_only_nearly_a_form_is_refused(text):
    with pytest.raises(ModelError) as told:
        network_from(form_model(text), "net.onnx")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    "text",
    [
        "Mul(Tanh(x), x)",
        "Mul(Sigmoid(Mul(1.702, x)), x)",
        "Mul(0.5, Mul(Add(1.0, Tanh(Mul(0.79788, Add(Mul(0.0447, Pow(x, 3.0)), x)))), x))",
    ],
)
def test_what_is_only_nearly_a_form_is_read_as_its_products(text):
    network = network_from(form_model(text), "net.onnx")
    assert "Square" in [getattr(each.operator, "name", None) for each in network.graph.nodes]
    points = np.random.default_rng(2).normal(size=(500, 3)).astype(F32)
    exact = network.stack.scores(points.astype(float))[0]
    assert np.abs(network.runner().scores(points) - exact).max() < 1e-5


def test_a_tensor_inside_a_form_that_is_read_elsewhere_is_refused():
    model = form_model("Mul(0.5, Mul(Add(1.0, Erf(Div(x, 1.4142135381698608))), x))")
    erf = next(each for each in model.graph.node if each.op_type == "Erf")
    last = model.graph.node[-1]
    model.graph.node.insert(
        len(model.graph.node) - 1, node("Add", [last.input[0], erf.output[0]], ["s"])
    )
    last.input[0] = "s"
    with pytest.raises(ModelError, match="Erf"):
        network_from(model, "net.onnx")


@pytest.mark.parametrize("fake", [True, False])
def test_functions_of_a_file_are_refused_unless_they_are_what_their_name_says(fake):
    model, _ = repair_model(form_model("Mul(Sigmoid(x), x)"))
    assert [each.domain for each in model.functions] == [OUTLINED]
    if fake:
        model.functions[0].node[0].op_type = "Tanh"
        with pytest.raises(ModelError, match="defines its own functions"):
            network_from(model, "net.onnx")
    else:
        network_from(model, "net.onnx")


def test_a_final_sigmoid_is_dropped_and_one_before_is_not():
    nodes = [node("Sigmoid", ["h"], ["a"])]
    inner = network_from(around(nodes, "a"), "net.onnx")
    assert inner.stack.is_smooth
    model = around(nodes, "a")
    model.graph.node[-1].output[0] = "z"
    model.graph.node.append(node("Sigmoid", ["z"], ["y"]))
    assert network_from(model, "net.onnx").graph.output == "z"


STRETCHED = {
    "Elu": ({"alpha": 0.37}, lambda z: np.where(z > 0, z, 0.37 * np.expm1(np.minimum(z, 0)))),
    "Celu": ({"alpha": 2.3}, lambda z: np.where(z > 0, z, 2.3 * np.expm1(np.minimum(z, 0) / 2.3))),
    "Selu": ({}, lambda z: SELU[1] * np.where(z > 0, z, SELU[0] * np.expm1(np.minimum(z, 0)))),
}
SELU = 1.67326319217681884765625, 1.05070102214813232421875


@pytest.mark.parametrize("kind", STRETCHED)
def test_elus_of_other_slopes_are_exact_up_to_the_rounding_that_is_charged(kind):
    given, exact = STRETCHED[kind]
    w = np.array([[1, 0], [0, 1]], F32)
    nodes = [node(kind, ["x"], ["a"], **given), node("MatMul", ["a", "w"], ["y"])]
    network = network_from(networks.model(nodes, {"w": w}, ["n", 2], ["n", 2]), "net.onnx")
    near = np.concatenate([np.geomspace(1e-30, 100, 4000), np.linspace(0, 20, 4000)])
    points = np.stack([-near, near], 1).astype(F32)
    expected = exact(points.astype(float))
    np.testing.assert_allclose(network.stack.scores(points.astype(float))[0], expected, atol=2e-9)
    stacked = {name: value[None] for name, value in network.parameters.items()}
    for at in range(0, len(points), 19):
        box = Box(*[points[at].astype(float)] * 2)
        bounds = network_bounds(network.stack, box)
        charged = rounding_error(evaluation_of(network.graph, stacked), bounds, box).of_forms(
            np.eye(2)
        )
        shown = network.runner().scores(points[at][None])[0]
        assert (np.abs(shown - expected[at]) <= charged).all()
        assert (charged <= 2e-5 * (1 + near[at])).all()


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("inf")])
def test_a_celu_that_divides_by_nothing_is_refused(alpha):
    with pytest.raises(ModelError, match="Celu"):
        network_from(around([node("Celu", ["h"], ["a"], alpha=alpha)], "a"), "net.onnx")


def test_activations_of_several_nodes_may_share_their_numbers():
    text = "Mul(0.5, Mul(Add(1.0, Erf(Div(x, 1.4142135381698608))), x))"
    model = form_model(text)
    for each in [n for n in model.graph.node if n.op_type == "Constant"]:
        model.graph.initializer.append(each.attribute[0].t)
        model.graph.node.remove(each)
    numbers = [each.name for each in model.graph.initializer if each.name not in {"W", "V"}]
    first = [each for each in model.graph.node if each.op_type != "MatMul"]
    last = first[-1].output[0]
    again = lambda name: name if name in numbers else last if name == "h" else f"{name}2"
    more = [node(n.op_type, [*map(again, n.input)], [f"{n.output[0]}2"]) for n in first]
    copy = around([*first, *more], f"{last}2")
    copy.graph.initializer.extend(i for i in model.graph.initializer if i.name in numbers)
    network = network_from(copy, "net.onnx")
    kinds = [getattr(each.operator, "name", None) for each in network.graph.nodes]
    assert kinds == [None, "Gelu", "Gelu", None]
    copy.graph.node.insert(1, node("Add", ["h", numbers[0]], ["unread"]))
    copy.graph.node[-1].input[0] = "sum"
    copy.graph.node.insert(len(copy.graph.node) - 1, node("Add", [f"{last}2", "unread"], ["sum"]))
    with pytest.raises(ModelError, match=r"Erf|Mul|Div"):
        network_from(copy, "net.onnx")


def test_residuals_around_smooth_activations(tmp_path):
    nodes = [
        node("Tanh", ["h"], ["t"]),
        node("Add", ["h", "t"], ["s"]),
        node("Gelu", ["s"], ["g"]),
        node("Sub", ["g", "t"], ["r"]),
    ]
    onnx.save(around(nodes, "r"), tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")
    points = np.random.default_rng(2).normal(size=(50, 3)).astype(F32)
    own = network.stack.scores(points.astype(float))[0]
    np.testing.assert_allclose(network.runner().scores(points), own, atol=1e-5)
