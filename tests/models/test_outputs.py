"""Outputs: one number, probabilities, labels beside them; data without a batch axis."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from leaveout.errors import ModelError
from leaveout.models import confidence, load_network, lower
from leaveout.models.onnx.file import check_against_onnxruntime, network_from

from support import networks
from support.depth import rounds

F32 = np.float32
node = helper.make_node
W = np.asarray([[1.0, -1.0], [2.0, 0.5], [-0.5, 1.0]], F32)
COLUMN = np.asarray([[1.0], [2.0], [-3.0]], F32)

ENDS = {
    "a number": [node("MatMul", ["x", "W"], ["y"])],
    "a sigmoid": [node("MatMul", ["x", "W"], ["z"]), node("Sigmoid", ["z"], ["y"])],
    "a squeezed number": [
        node("MatMul", ["x", "W"], ["z"]),
        node("Squeeze", ["z", "one"], ["y"]),
    ],
    "a squeezed sigmoid": [
        node("MatMul", ["x", "W"], ["z"]),
        node("Sigmoid", ["z"], ["p"]),
        node("Squeeze", ["p", "one"], ["y"]),
    ],
    "a reshaped sigmoid": [
        node("MatMul", ["x", "W"], ["z"]),
        node("Sigmoid", ["z"], ["p"]),
        node("Reshape", ["p", "flat"], ["q"]),
        node("Identity", ["q"], ["y"]),
    ],
    "a reshaped number": [
        node("MatMul", ["x", "W"], ["z"]),
        node("Reshape", ["z", "flat"], ["y"]),
    ],
}


def ending(name, batch="n"):
    constants = {"W": COLUMN, "one": np.asarray([1]), "flat": np.asarray([-1])}
    flat = "squeezed" in name or "reshaped" in name
    return networks.model(ENDS[name], constants, [batch, 3], ["n"] if flat else ["n", 1])


@pytest.mark.parametrize("batch", ["n", 1])
@pytest.mark.parametrize("name", ENDS)
def test_one_number_is_two_labels_of_which_one_is_where_it_is_above_zero(
    name, batch, tmp_path, snapshot
):
    onnx.save(ending(name, batch), tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")
    assert network.labels == 2
    assert network.graph.notes == snapshot
    assert any("Sigmoid" in note for note in network.graph.notes) == ("sigmoid" in name)
    points = np.asarray([[1, 1, 1], [0, 0, 0], [1, 1, 0.5], [-1, 0, 0]], F32)
    number = points @ COLUMN
    scores = network.runner().scores(points)
    np.testing.assert_array_equal(scores, np.concatenate([0 * number, number], axis=1))
    np.testing.assert_array_equal(network.stack.scores(points)[0], scores)
    # At 0 it is label 0, as where a probability must be above a half.
    assert scores.argmax(axis=1).tolist() == [0, 0, 1, 0]
    # The confidence is the logarithm of the odds, as of two scores before a softmax.
    np.testing.assert_array_equal(confidence(scores, 1), number[:, 0])


@settings(max_examples=rounds(25), deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_members_of_a_network_of_one_number(seed):
    rng = np.random.default_rng(seed)
    network = network_from(networks.bent(rng), "net.onnx")
    stacked = {
        name: rng.normal(size=(3, *value.shape)).astype(F32)
        for name, value in network.parameters.items()
    }
    points = rng.normal(size=(10, 3)).astype(F32)
    found = lower(network.graph, stacked).scores(points.astype(np.float64))
    for member in range(3):
        runner = network.runner({name: stack[member] for name, stack in stacked.items()})
        np.testing.assert_allclose(found[member], runner.scores(points), rtol=1e-4, atol=1e-4)


def classifier(batch="n", unity=1.0, kind="int"):
    """Return what skl2onnx writes of MLPClassifier for two classes."""
    names = {"int": {"classlabels_int64s": [0, 1]}, "text": {"classlabels_strings": ["a", "b"]}}
    nodes = [
        node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        node("Scaler", ["f"], ["s"], domain="ai.onnx.ml", offset=[1.0, 0, 2], scale=[0.5, 3.0, 1]),
        node("MatMul", ["s", "W"], ["z"]),
        node("Sigmoid", ["z"], ["p"]),
        node("Sub", ["unity", "p"], ["q"]),
        node("Concat", ["q", "p"], ["both"], axis=1),
        node("ArgMax", ["both"], ["label"], axis=1, keepdims=0),
        node("ZipMap", ["both"], ["probability"], domain="ai.onnx.ml", **names[kind]),
    ]
    constants = {"W": COLUMN, "unity": np.asarray(unity, F32)}
    graph = helper.make_graph(
        nodes,
        "sklearn",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, ["n"]),
            onnx.ValueInfoProto(name="probability"),
        ],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    key = TensorProto.INT64 if kind == "int" else TensorProto.STRING
    graph.output[1].type.sequence_type.elem_type.map_type.key_type = key
    value = graph.output[1].type.sequence_type.elem_type.map_type.value_type.tensor_type
    value.elem_type = TensorProto.FLOAT
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("kind", ["int", "text"])
def test_labels_and_dictionaries_beside_the_scores_are_dropped_with_a_note(
    kind, tmp_path, snapshot
):
    model = classifier(kind=kind)
    onnx.save(model, tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")
    # The scaler and the weights are parameters, the number 1 is none.
    assert [*network.parameters] == ["W", "s/offset", "s/scale"]
    assert network.graph.notes[0] == snapshot
    points = np.random.default_rng(0).normal(size=(50, 3)).astype(F32)
    running = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"))
    labels, _ = running.run(None, {"x": points})
    assert network.runner().scores(points).argmax(axis=1).tolist() == labels.tolist()
    assert len(set(labels.tolist())) == 2


def test_what_is_not_one_minus_a_probability_is_not_taken_for_it():
    network = network_from(classifier(unity=0.5), "net.onnx")
    points = np.random.default_rng(0).normal(size=(50, 3)).astype(F32)
    scores = network.stack.scores(points.astype(float))[0]
    # The Sigmoid is part of the network: its scores are 0.5 - p and p.
    np.testing.assert_allclose(scores.sum(axis=1), 0.5, atol=1e-6)
    np.testing.assert_allclose(network.runner().scores(points), scores, atol=1e-5)


def test_several_outputs_of_scores_are_refused_by_name(snapshot):
    model = networks.model(
        [node("MatMul", ["x", "W"], ["y"]), node("Relu", ["y"], ["z"])],
        {"W": W},
        ["n", 3],
        ["n", 2],
    )
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 2]))
    with pytest.raises(ModelError) as told:
        network_from(model, "net.onnx")
    assert str(told.value) == snapshot


def test_a_sigmoid_a_label_is_dropped():
    nodes = [node("MatMul", ["x", "W"], ["z"]), node("Sigmoid", ["z"], ["y"])]
    network = network_from(networks.model(nodes, {"W": W}, ["n", 3], ["n", 2]), "net.onnx")
    assert network.graph.output == "z"
    check_against_onnxruntime(network)


def test_columns_of_probabilities_are_read_as_the_scores_before_them(snapshot):
    """The option of skl2onnx that gives each class an output."""
    nodes = [
        node("MatMul", ["x", "W"], ["z"]),
        node("Softmax", ["z"], ["p"], axis=1),
        node("Slice", ["p", "nil", "one", "one"], ["y"]),
        node("Slice", ["p", "one", "two", "one"], ["s"]),
        node("Reshape", ["s", "flat"], ["q"]),
    ]
    places = {"nil": [0], "one": [1], "two": [2], "flat": [-1]}
    constants = {"W": W, **{name: np.asarray(value) for name, value in places.items()}}
    model = networks.model(nodes, constants, ["n", 3], ["n", 1])
    model.graph.output.append(helper.make_tensor_value_info("q", TensorProto.FLOAT, ["n"]))
    network = network_from(model, "net.onnx")
    assert network.graph.output == "z"
    model.graph.initializer[2].CopyFrom(numpy_helper.from_array(np.asarray([0]), "one"))
    with pytest.raises(ModelError) as told:
        network_from(model, "net.onnx")
    assert str(told.value) == snapshot


def linear(kind, transform="SOFTMAX", classes=3):
    """Return what skl2onnx writes of a linear model."""
    rng = np.random.default_rng(0)
    given = {
        "coefficients": rng.normal(size=3 * classes).tolist(),
        "intercepts": rng.normal(size=classes).tolist(),
        "post_transform": transform,
    }
    probabilities = ["y"]
    nodes = [node(kind, ["x"], ["y"], domain="ai.onnx.ml", targets=classes, **given)]
    if kind == "LinearClassifier":
        given |= {"classlabels_ints": [*range(classes)], "multi_class": 1}
        nodes = [
            node(kind, ["x"], ["label", "p"], domain="ai.onnx.ml", **given),
            node("Normalizer", ["p"], ["y"], domain="ai.onnx.ml", norm="L1"),
        ]
        probabilities = ["label", "y"]
    types = {"y": TensorProto.FLOAT, "label": TensorProto.INT64}
    shapes = {"y": ["n", classes], "label": ["n"]}
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info(name, types[name], shapes[name]) for name in probabilities],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize(
    ("kind", "transform", "classes"),
    [
        ("LinearClassifier", "SOFTMAX", 3),
        ("LinearClassifier", "LOGISTIC", 2),
        ("LinearClassifier", "LOGISTIC", 3),
        ("LinearRegressor", "NONE", 1),
        ("LinearRegressor", "NONE", 3),
    ],
)
def test_linear_models_of_scikit_learn(kind, transform, classes, tmp_path):
    model = linear(kind, transform, classes)
    onnx.save(model, tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")
    assert len(network.parameters) == 2
    points = np.random.default_rng(1).normal(size=(40, 3)).astype(F32)
    running = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"))
    first, scores = running.run(None, {"x": points})[0], network.runner().scores(points)
    if kind == "LinearClassifier":
        assert scores.argmax(axis=1).tolist() == first.tolist()
    else:
        np.testing.assert_allclose(scores[:, -classes:], first, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("end", ["Softmax", "LogSoftmax", "Sigmoid"])
def test_a_copy_of_probabilities_is_as_good_as_they_are(end):
    nodes = [
        node("MatMul", ["x", "W"], ["z"]),
        node(end, ["z"], ["p"]),
        node("Identity", ["p"], ["y"]),
    ]
    network = network_from(networks.model(nodes, {"W": W}, ["n", 3], ["n", 2]), "net.onnx")
    assert network.graph.output == "z"


def bare(nodes, constants, shape=(3,)):
    return networks.model(nodes, constants, list(shape), ["labels"])


BARE = {
    "dense": [
        node("MatMul", ["x", "W"], ["a"]),
        node("Add", ["a", "b"], ["c"]),
        node("LeakyRelu", ["c"], ["y"]),
    ],
    "softmax": [node("MatMul", ["x", "W"], ["z"]), node("Softmax", ["z"], ["y"], axis=0)],
    "a batch of its own": [
        node("Unsqueeze", ["x", "nil"], ["u"]),
        node("Gemm", ["u", "W", "b"], ["g"]),
        node("Relu", ["g"], ["r"]),
        node("Squeeze", ["r", "nil"], ["y"]),
    ],
    "reshaped": [
        node("Reshape", ["x", "row"], ["u"]),
        node("Gemm", ["u", "W", "b"], ["g"]),
        node("Reshape", ["g", "flat"], ["y"]),
    ],
}
CONSTANTS = {
    "W": W,
    "b": np.asarray([0.5, -1], F32),
    "nil": np.asarray([0]),
    "row": np.asarray([1, -1]),
    "flat": np.asarray([-1]),
}


@pytest.mark.parametrize("name", BARE)
def test_data_without_a_batch_axis(name, tmp_path):
    onnx.save(bare(BARE[name], CONSTANTS), tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")
    assert (network.inputs, network.labels) == (3, 2)
    points = np.random.default_rng(0).normal(size=(7, 3)).astype(F32)
    np.testing.assert_allclose(
        network.stack.scores(points)[0], network.runner().scores(points), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Transpose", ["x"], ["t"]), node("MatMul", ["t", "W"], ["y"])],
        [node("Add", ["x", "rows"], ["t"]), node("MatMul", ["t", "W"], ["y"])],
        [
            node("Unsqueeze", ["x", "nil"], ["u"]),
            node("Add", ["u", "x"], ["s"]),
            node("MatMul", ["s", "W"], ["y"]),
        ],
    ],
)
def test_what_may_mean_something_else_without_a_batch_axis_is_refused(nodes, snapshot):
    constants = {**CONSTANTS, "rows": np.ones((2, 3), F32)}
    with pytest.raises(ModelError) as told:
        network_from(bare(nodes, constants), "net.onnx")
    assert str(told.value) == snapshot


def test_some_columns_of_the_scores_are_not_the_scores(snapshot):
    wide = np.asarray([[1.0, -1.0, 0.0], [2.0, 0.5, 0.0], [-0.5, 1.0, 0.0]], np.float32)
    nodes = [
        node("MatMul", ["x", "W"], ["z"]),
        node("Slice", ["z", "nil", "one", "one"], ["y"]),
        node("Slice", ["z", "one", "two", "one"], ["q"]),
    ]
    places = {"nil": [0], "one": [1], "two": [2]}
    constants = {"W": wide, **{name: np.asarray(value) for name, value in places.items()}}
    model = networks.model(nodes, constants, ["n", 3], ["n", 1])
    model.graph.output.append(helper.make_tensor_value_info("q", TensorProto.FLOAT, ["n", 1]))
    with pytest.raises(ModelError) as told:
        network_from(model, "net.onnx")
    assert str(told.value) == snapshot
