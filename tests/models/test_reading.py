"""What we read from an ONNX file is what onnxruntime computes; anything else is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from leaveout.errors import ModelError
from leaveout.models import load_network, lower
from leaveout.models.onnx import table
from leaveout.models.onnx.file import network_from
from leaveout.models.onnx.operators.shape import Identity
from leaveout.models.onnx.signature import architecture_hash

from support import networks
from support.cases import shaken


@pytest.fixture
def file(tmp_path: Path):
    def write(model: onnx.ModelProto) -> Path:
        path = tmp_path / "model.onnx"
        onnx.save(model, path)
        return path

    return write


@pytest.mark.parametrize("kind", networks.ALL)
@pytest.mark.parametrize("seed", range(4))
def test_every_supported_shape_equals_onnxruntime(kind, seed, file):
    network = load_network(file(networks.ALL[kind](np.random.default_rng(seed))))
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(50, network.inputs)).astype(np.float32)
    expected = network.runner().scores(points)
    found = network.stack.scores(points.astype(np.float64))[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", networks.ALL)
def test_stacked_members_equal_each_member_in_onnxruntime(kind):
    rng = np.random.default_rng(3)
    network = network_from(networks.ALL[kind](rng), kind)
    parameters = shaken(rng, network, 3, 0.01)
    points = rng.normal(size=(20, network.inputs)).astype(np.float32)
    found = lower(network.graph, parameters).scores(points.astype(np.float64))
    for member in range(3):
        runner = network.runner({name: stack[member] for name, stack in parameters.items()})
        np.testing.assert_allclose(found[member], runner.scores(points), rtol=1e-4, atol=1e-4)


def test_a_trailing_softmax_is_dropped_with_a_note_and_scores_come_before_it():
    network = network_from(networks.matmul_add_softmax(np.random.default_rng(0)), "m")
    scores = network.runner().scores(np.ones((1, 3)))
    assert abs(float(scores.sum()) - 1) > 1e-3
    assert any("Softmax" in note for note in network.graph.notes)


def test_a_misread_operator_is_caught_by_onnxruntime(monkeypatch, file, snapshot):
    monkeypatch.setitem(table.OPERATORS, "Relu", table.SupportedOperator(lambda use: Identity()))
    with pytest.raises(ModelError) as told:
        load_network(file(networks.dense(np.random.default_rng(0))))
    assert str(told.value) == snapshot


def test_constants_that_cancel_in_the_normal_form_are_no_misreading(file):
    # A pruned channel passes on its shift alone, whose large products cancel.
    parts = {
        "scale": [0.0], "shift": [-0.28338], "mean": [-0.12872], "variance": [0.86153],
        "weight": [[2**20 / 3], [-(2**20) / 7], [-(2**20) * 4 / 21]], "bias": [0.1],
    }  # fmt: skip
    model = helper.make_model(
        helper.make_graph(
            [
                helper.make_node("BatchNormalization", ["x", *list(parts)[:4]], ["normal"]),
                helper.make_node("Flatten", ["normal"], ["flat"]),
                helper.make_node("Gemm", ["flat", "weight", "bias"], ["scores"]),
            ],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, 3])],
            [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 1])],
            [numpy_helper.from_array(np.array(v, np.float32), name) for name, v in parts.items()],
        ),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
    )
    points = np.ones((1, 3), np.float32)
    network = load_network(file(model))
    expected = network.runner().scores(points)
    np.testing.assert_allclose(network.stack.scores(points)[0], expected, atol=0.2)


@pytest.mark.parametrize("batch", [1, "n"])
def test_a_model_that_onnxruntime_gives_no_row_of_is_refused(batch, tmp_path, snapshot):
    """Its optimiser puts the scalar that Dropout takes in place of what it passes on."""
    nodes = [
        helper.make_node("Transpose", ["c"], ["q"]),
        helper.make_node("Dropout", ["x", "q"], ["t"]),
        helper.make_node("Relu", ["t"], ["y"]),
    ]
    model = networks.model(nodes, {"c": np.float32(0.3)}, [batch, 2], ["n", 2])
    onnx.save(model, tmp_path / "n.onnx")
    with pytest.raises(ModelError) as told:
        load_network(tmp_path / "n.onnx")
    assert str(told.value) == snapshot


def test_the_architecture_hash_sees_structure_and_not_weights_or_tensor_names():
    first = networks.dense(np.random.default_rng(0))
    other_weights = networks.dense(np.random.default_rng(1))
    renamed = onnx.ModelProto()
    renamed.CopyFrom(first)
    renamed.graph.node[0].output[0] = renamed.graph.node[1].input[0] = "elsewhere"
    assert architecture_hash(first) == architecture_hash(other_weights)
    assert architecture_hash(first) == architecture_hash(renamed)
    wider = networks.dense(np.random.default_rng(0), (3, 5, 4, 2))
    assert architecture_hash(first) != architecture_hash(wider)
    residual = networks.residual(np.random.default_rng(0))
    changed = onnx.ModelProto()
    changed.CopyFrom(residual)
    changed.graph.node[0].attribute[0].f = 0.25
    assert architecture_hash(residual) != architecture_hash(changed)


def _one_node(node, constants=None, shape=("n", 3), out=("n", 2)):
    return networks.model([node], constants or {}, list(shape), list(out))


W = np.ones((3, 2), np.float32)
REFUSED = {
    "unsupported operator": _one_node(
        helper.make_node("Det", ["x"], ["y"], name="squash"), out=("n", 3)
    ),
    "log softmax in the middle": networks.model(
        [
            helper.make_node("LogSoftmax", ["x"], ["p"]),
            helper.make_node("MatMul", ["p", "W"], ["y"]),
        ],
        {"W": W},
        ["n", 3],
        ["n", 2],
    ),
    "NaN weights": _one_node(helper.make_node("MatMul", ["x", "W"], ["y"]), {"W": W * np.nan}),
    "quotient of variables": _one_node(helper.make_node("Div", ["x", "x"], ["y"]), out=("n", 3)),
    "mixes the batch": _one_node(
        helper.make_node("Reshape", ["x", "s"], ["y"]), {"s": np.asarray([-1, 1], np.int64)}
    ),
    "moves the batch axis": _one_node(helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])),
    "unknown input size": _one_node(
        helper.make_node("MatMul", ["x", "W"], ["y"]), {"W": W}, ("n", "d")
    ),
    "division by zero": _one_node(
        helper.make_node("Div", ["x", "W"], ["y"]), {"W": W[:, 0] * 0}, out=("n", 3)
    ),
    "training-mode batch norm": _one_node(
        helper.make_node("BatchNormalization", ["x", *"stmv"], ["y"], training_mode=1),
        {k: np.ones(3, np.float32) for k in "stmv"},
        out=("n", 3),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_supported_is_refused_by_name(case, snapshot):
    model = REFUSED[case]
    with pytest.raises(ModelError) as caught:
        network_from(model, "net.onnx")
    assert str(caught.value) == snapshot
    assert str(caught.value).startswith("net.onnx: ")
    assert "\n" not in str(caught.value)


def test_a_double_precision_input_is_refused(snapshot):
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "W"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, ["n", 2])],
        [numpy_helper.from_array(W.astype(np.float64), "W")],
    )
    with pytest.raises(ModelError) as told:
        network_from(helper.make_model(graph), "net.onnx")
    assert str(told.value) == snapshot


def test_missing_and_damaged_files_are_one_line(tmp_path, snapshot):
    with pytest.raises(ModelError) as told:
        load_network(tmp_path / "none.onnx")
    assert str(told.value) == snapshot
    text = tmp_path / "text.onnx"
    for content in (b"", b"hello, this is not a network", b"\x00" * 100):
        text.write_bytes(content)
        with pytest.raises(ModelError) as caught:
            load_network(text)
        assert str(caught.value) == snapshot
        assert "\n" not in str(caught.value)
    with pytest.raises(ModelError) as told:
        load_network(tmp_path)
    assert str(told.value) == snapshot
