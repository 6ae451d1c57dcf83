"""Files that onnxruntime runs although they are odd are read as it runs them."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from leaveout.bab.native.kernels.interface import layout_of
from leaveout.encoders import Box
from leaveout.encoders.joint import join
from leaveout.encoders.query import Application, Case, Condition, Form, Query
from leaveout.errors import ModelError
from leaveout.models.onnx.file import network_from

from support import networks
from support.one_operator import F32, IMAGE, KERNEL, W, chain, flattened, one


def _run(model, points):
    """Return what onnxruntime computes of the file as it is, one sample or batch at a time."""
    running = onnxruntime.InferenceSession(model.SerializeToString())
    shape = running.get_inputs()[0].shape
    size = shape[0] if isinstance(shape[0], int) and len(shape) > 1 else 1
    bare = len(shape) == 1
    parts = [points[i] if bare else points[i : i + size] for i in range(0, len(points), size)]
    found = [running.run(None, {"x": part})[0] for part in parts]
    return np.stack(found) if bare else np.concatenate(found)


def _unsorted():
    return chain(
        helper.make_node("Add", ["b", "k"], ["y"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["x", "W"], ["a"]),
        helper.make_node("Constant", [], ["k"], value_floats=[0.5, -0.5]),
        constants={"W": W},
        shape=("n", 3),
    )


def _opsets(*versions):
    model = one("MatMul", {"W": W}, opset=versions[0])
    for domain, version in zip(("ai.onnx", ""), versions[1:], strict=False):
        model.opset_import.append(helper.make_opsetid(domain, version))
    return model


def _clip(low, high, node=False):
    values = {"lo": np.asarray(low, F32), "hi": np.asarray(high, F32)}
    model = one("Clip", {} if node else values, inputs=["x", "lo", "hi"])
    for name in values if node else ():
        held = numpy_helper.from_array(values[name])
        model.graph.node.insert(0, helper.make_node("Constant", [], [name], value=held))
    return model


def _batches(count):
    model = one("MatMul", {"W": W}, shape=(count, 3))
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = count
    return model


def _resized(**attributes):
    sizes = {"s": np.asarray([1, 1, 1.5, 2], F32)}
    return flattened(
        one("Resize", sizes, shape=IMAGE, opset=13, inputs=["x", "", "s"], **attributes)
    )


READ = {
    "nodes out of order": _unsorted(),
    "two opsets": _opsets(12, 9),
    "three opsets": _opsets(9, 17, 12),
    "no bounds of Clip": _clip(-np.inf, np.inf),
    "no lower bound of Clip": _clip(-np.inf, 0.5),
    "no upper bound of Clip, by nodes": _clip(0.5, np.inf, node=True),
    "batches of 4": _batches(4),
    "flattened from axis 0": one("Flatten", shape=(1, 2, 3), axis=0),
    "without a batch axis, the constant first": one(
        "MatMul", {"W": W.T.copy()}, shape=(3,), inputs=["W", "x"]
    ),
    "slice without a batch axis": one(
        "Slice", {"a": np.asarray([0]), "b": np.asarray([2])}, shape=(3,)
    ),
    "vector": chain(
        helper.make_node("MatMul", ["x", "v"], ["y"]),
        constants={"v": np.asarray([1, -2, 3], F32)},
        shape=("n", 2, 3),
    ),
    "negative axis in opset 10": chain(
        helper.make_node("Split", ["x"], ["a", "b"], axis=-1, split=[1, 2]),
        helper.make_node("Sub", ["b", "a"], ["y"]),
        constants={},
        shape=("n", 3),
    ),
    "nearest neighbours": _resized(mode="nearest"),
    "less the largest": chain(
        helper.make_node("ReduceMax", ["x"], ["m"], axes=[1], keepdims=1),
        helper.make_node("Sub", ["x", "m"], ["y"]),
        constants={},
        shape=("n", 3),
    ),
    "transposed convolution": flattened(
        one("ConvTranspose", {"k": KERNEL}, shape=IMAGE, strides=[2, 1], output_padding=[1, 0])
    ),
}
READ["negative axis in opset 10"].opset_import[0].version = 10
READ["less the largest"].opset_import[0].version = 13


@pytest.mark.parametrize("case", READ)
def test_an_odd_file_is_read_as_onnxruntime_runs_it(case, load):
    model = READ[case]
    before = model.SerializeToString()
    network = load(model)
    shape = network.graph.input_shape
    points = np.random.default_rng(0).normal(size=(8, *shape)).astype(F32)
    expected = _run(model, points).reshape(8, -1)
    found = network.stack.scores(points.reshape(8, -1).astype(float))[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(network.runner().scores(points), expected, rtol=1e-6, atol=1e-6)
    assert network_from(model, "net.onnx").architecture == network.architecture
    assert model.SerializeToString() == before


def test_the_user_is_told_what_counts_of_an_odd_file(load):
    assert "9" in load(_opsets(12, 9)).graph.notes[0]
    assert "4" in load(_batches(4)).graph.notes[0]
    assert load(_unsorted()).graph.notes == ()


def test_of_two_opsets_onnxruntime_takes_the_last():
    x = np.arange(4, dtype=F32).reshape(1, 2, 2)
    of = {}
    for versions in ((12,), (13,), (12, 13), (13, 12)):
        model = one("Softmax", shape=("n", 2, 2), opset=versions[0])
        for version in versions[1:]:
            model.opset_import.append(helper.make_opsetid("", version))
        model.ir_version = 7
        of[versions] = _run(model, x)
    np.testing.assert_array_equal(of[12, 13], of[13,])
    np.testing.assert_array_equal(of[13, 12], of[12,])
    assert (of[12,] != of[13,]).any()


@pytest.mark.parametrize(
    "model",
    [
        _clip(np.inf, np.inf),
        _clip(-np.inf, -np.inf),
        _resized(mode="linear"),
        one("Tile", {"r": np.asarray([2, 1])}),
        one("Flatten", shape=("n", 2, 3), axis=0),
        one("MatMul", {"W": np.ones((2, 2), F32)}, shape=("n", 2), inputs=["W", "x"]),
    ],
    ids=["least is infinite", "most is infinite", "linear", "batch tiled", "flat batch", "mixing"],
)
def test_what_is_no_copy_or_mixes_a_batch_is_refused_in_one_line(model, load, snapshot):
    with pytest.raises(ModelError) as told:
        load(model)
    assert str(told.value) == snapshot
    assert "\n" not in str(told.value)


def test_a_cycle_is_refused(load):
    model = chain(
        helper.make_node("Add", ["x", "b"], ["y"]),
        helper.make_node("Relu", ["y"], ["b"]),
        constants={},
        shape=("n", 3),
    )
    with pytest.raises(ModelError) as told:
        load(model)
    assert "\n" not in str(told.value)


def _labels(axis=1, **attributes):
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["s"]),
        helper.make_node("ArgMax", ["s"], ["y"], axis=axis, **attributes),
    ]
    model = chain(*nodes, constants={"W": W}, shape=("n", 3))
    shape = ["n"] if attributes.get("keepdims") == 0 else ["n", 1]
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.INT64, shape))
    return model


@pytest.mark.parametrize("keep", [0, 1])
def test_labels_by_a_final_argmax_are_those_of_the_scores_before_it(keep, load):
    model = _labels(keepdims=keep)
    model.graph.initializer[0].CopyFrom(
        numpy_helper.from_array(np.asarray([[1, -1], [2, 0], [0, 1]], F32), "W")
    )
    network = load(model)
    points = np.random.default_rng(0).normal(size=(50, 3)).astype(F32)
    labels = network.stack.scores(points.astype(float))[0].argmax(axis=1)
    np.testing.assert_array_equal(labels, _run(model, points).reshape(-1))
    assert set(labels) == {0, 1}
    assert "ArgMax" in network.graph.notes[0]


@pytest.mark.parametrize("model", [_labels(axis=0), _labels(select_last_index=1)])
def test_another_argmax_is_refused(model, load, snapshot):
    with pytest.raises(ModelError) as told:
        load(model)
    assert str(told.value) == snapshot


def test_factors_of_resize_are_no_parameters_of_members(load):
    network = load(_resized(mode="nearest"))
    assert not network.parameters


def test_large_matrices_that_are_almost_all_zeros_are_searched_as_entries(load):
    rng = np.random.default_rng(0)
    first = np.zeros((1100, 1000), F32)
    first[rng.integers(1100, size=3000), rng.integers(1000, size=3000)] = rng.normal(size=3000)
    model = networks.model(
        [
            helper.make_node("MatMul", ["x", "W"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Gemm", ["b", "V"], ["y"], alpha=-0.5),
        ],
        {"W": first, "V": rng.normal(size=(1000, 3)).astype(F32)},
        ["n", 1100],
        ["n", "labels"],
    )
    box = Box(np.zeros(1100), np.ones(1100))
    query = Query((box,), (Application(load(model), 0),), ())
    joint = join(query, [Case((Condition(Form((), ((0, 0, 1.0),))),))])
    stack = joint.first
    assert layout_of(stack).fits(joint.members.take(np.zeros(1, np.int64)))
    assert stack.is_sparse
    assert stack.layers[0].weights[0].size == np.count_nonzero(first)
    np.testing.assert_array_equal(stack.layers[0].weights[0].dense()[0], first.T)


def test_files_in_order_are_read_without_networkx(tmp_path):
    import subprocess

    onnx.save(one("MatMul", {"W": W}), tmp_path / "net.onnx")
    code = (
        "import sys; from leaveout.models import load_network; "
        f"load_network({str(tmp_path / 'net.onnx')!r}); print('networkx' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def _several(*given, batch="n"):
    """Return a network whose inputs are joined, an image among them, and used apart."""
    nodes = [
        helper.make_node("Flatten", ["image"], ["flat"]),
        helper.make_node("Concat", ["x", "flat", "age"], ["all"], axis=1),
        helper.make_node("MatMul", ["all", "W"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Add", ["b", "x"], ["y"]),
    ]
    W = np.random.default_rng(1).normal(size=(7, 2)).astype(F32)
    inputs = {"age": (batch, 1), "image": (batch, 2, 2, 1), "x": (batch, 2)}
    graph = helper.make_graph(
        nodes,
        "several",
        [
            helper.make_tensor_value_info(name, dict(given).get(name, TensorProto.FLOAT), shape)
            for name, shape in inputs.items()
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (batch, 2))],
        [numpy_helper.from_array(W, "W")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("batch", ["n", 1])
def test_several_inputs_are_the_columns_of_one_in_the_order_of_the_file(batch, load):
    model = _several(batch=batch)
    network = load(model)
    assert network.inputs == 7
    assert network.graph.notes[0] == (
        "its 3 inputs are read as the columns of one: age (1), image (2 to 5), x (6 to 7)"
    )
    points = np.random.default_rng(0).normal(size=(20, 7)).astype(F32)
    running = onnxruntime.InferenceSession(model.SerializeToString())
    expected = [
        running.run(
            None, {"age": row[:, :1], "image": row[:, 1:5].reshape(1, 2, 2, 1), "x": row[:, 5:]}
        )[0][0]
        for row in points[:, None]
    ]
    assert np.allclose(network.runner().scores(points), expected, atol=1e-6)
    assert np.allclose(network.stack.scores(points.astype(float))[0], expected, atol=1e-5)


@pytest.mark.parametrize("unread", [False, True])
@pytest.mark.parametrize("names", [("x", "age"), ("age", "x/age/row"), ("xx/a", "x")])
def test_inputs_may_have_any_names(names, unread, load):
    one, other = names
    image = helper.make_tensor_value_info(one, TensorProto.FLOAT, ("n", 2, 1))
    row = helper.make_tensor_value_info(other, TensorProto.FLOAT, ("n", 2))
    read = [helper.make_node("Flatten", [one], ["flat"])]
    # An input may be read by no node.
    last = helper.make_node("MatMul", ["flat" if unread else "sum", "W"], ["y"])
    read += [last] if unread else [helper.make_node("Add", ["flat", other], ["sum"]), last]
    weights = np.array([[1, 2], [3, -4]], F32)
    graph = helper.make_graph(
        read,
        "names",
        [image, row],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("n", 2))],
        [numpy_helper.from_array(weights, "W")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    points = np.random.default_rng(0).normal(size=(20, 4)).astype(F32)
    running = onnxruntime.InferenceSession(model.SerializeToString())
    given = {one: points[:, :2].reshape(-1, 2, 1), other: points[:, 2:]}
    assert np.allclose(load(model).runner().scores(points), running.run(None, given)[0], atol=1e-6)


@pytest.mark.parametrize("model", [_several(("age", TensorProto.INT64)), _several(batch=4)])
def test_inputs_that_cannot_be_columns_are_refused_in_one_line(model, load, snapshot):
    with pytest.raises(ModelError) as refusal:
        load(model)
    assert str(refusal.value) == snapshot
