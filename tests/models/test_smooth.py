"""Smooth activations in files: as one node or several, read as what onnxruntime computes."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

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
        "Mul(Tanh(x), x)",
        "Mul(Sigmoid(Mul(1.702, x)), x)",
        "Mul(0.5, Mul(Add(1.0, Tanh(Mul(0.79788, Add(Mul(0.0447, Pow(x, 3.0)), x)))), x))",
    ],
)
def test_what_is_only_nearly_a_form_is_refused(text):
    with pytest.raises(ModelError) as told:
        network_from(form_model(text), "net.onnx")
    assert "\n" not in str(told.value)


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


def test_elu_of_another_slope_is_refused():
    with pytest.raises(ModelError, match="only 1"):
        network_from(around([node("Elu", ["h"], ["a"], alpha=0.5)], "a"), "net.onnx")


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
