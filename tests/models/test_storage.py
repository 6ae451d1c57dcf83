"""Weights beside the model, weights in half precision, and constants that are computed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from leaveout.bab.native.files.manifest_parts import file_part
from leaveout.errors import ModelError
from leaveout.kernel.claims.parts import FilePart
from leaveout.kernel.claims.places import Places
from leaveout.kernel.refusal import Rejected
from leaveout.models import load_network
from leaveout.models.onnx.file import check_against_onnxruntime, network_from
from leaveout.models.onnx.values import files_of

from support import networks

F32 = np.float32
node = helper.make_node
W = np.asarray([[1.0, -1.0], [2.0, 0.5], [-0.5, 1.0]], F32)


@pytest.fixture
def apart(tmp_path):
    """Write a model whose weights are in another file."""
    model = networks.dense(np.random.default_rng(0))
    path = tmp_path / "net.onnx"
    onnx.save_model(
        model, path, save_as_external_data=True, location="net.onnx.data", size_threshold=0
    )
    return path


def test_weights_in_a_file_beside_the_model_are_read(apart, tmp_path):
    onnx.save(onnx.load(apart), tmp_path / "whole.onnx")
    found, whole = load_network(apart), load_network(tmp_path / "whole.onnx")
    assert found.architecture == whole.architecture
    points = np.ones((1, 3))
    np.testing.assert_array_equal(found.stack.scores(points), whole.stack.scores(points))
    np.testing.assert_array_equal(found.runner().scores(points), whole.runner().scores(points))


def test_a_renamed_file_of_weights_is_told_with_what_to_do(apart, snapshot):
    apart.with_name("net.onnx.data").rename(apart.with_name("other.data"))
    with pytest.raises(ModelError) as told:
        load_network(apart)
    assert str(told.value) == snapshot


def test_a_file_of_weights_that_is_too_short_is_refused(apart, snapshot):
    data = apart.with_name("net.onnx.data")
    data.write_bytes(data.read_bytes()[:-4])
    with pytest.raises(ModelError) as told:
        load_network(apart)
    assert str(told.value) == snapshot


@pytest.mark.parametrize("location", ["../weights", "/etc/hostname", ""])
def test_weights_outside_the_folder_of_the_model_are_refused(location, tmp_path, snapshot):
    model = networks.dense(np.random.default_rng(0))
    item = model.graph.initializer[0]
    item.ClearField("raw_data")
    item.data_location = TensorProto.EXTERNAL
    item.external_data.add(key="location", value=location)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError) as told:
        load_network(tmp_path / "net.onnx")
    assert str(told.value) == snapshot


@pytest.mark.parametrize("kind", ["network", "folder"])
def test_a_certificate_is_about_the_weights_beside_the_model_too(kind, apart, snapshot):
    subject = apart.parent if kind == "folder" else apart
    given = file_part(subject, apart.parent.parent, kind)
    part = FilePart(path=given["path"], sha256=given["sha256"], kind=kind)
    assert (
        Places(apart.parent.parent, (subject,), files_of=files_of).find(part, "network") == subject
    )
    data = apart.with_name("net.onnx.data")
    content = bytearray(data.read_bytes())
    content[0] ^= 1
    data.write_bytes(content)
    with pytest.raises(Rejected) as told:
        Places(apart.parent.parent, (subject,), files_of=files_of).find(part, "network")
    assert str(told.value) == snapshot


def stored(kind, *, cast=True):
    """Return a model whose weight is stored in this type, and cast to float32 before its use."""
    nodes = [
        *([node("Cast", ["W"], ["w"], to=TensorProto.FLOAT)] if cast else []),
        node("MatMul", ["x", "w" if cast else "W"], ["y"]),
    ]
    model = networks.model(nodes, {}, ["n", 3], ["n", 2])
    array = helper.make_tensor("W", kind, [3, 2], W.reshape(-1).tolist())
    model.graph.initializer.append(array)
    return model


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_weights_in_half_precision_are_parameters_where_they_are_cast_before_any_use(kind):
    network = network_from(stored(kind), "net.onnx")
    check_against_onnxruntime(network)
    assert {name: value.dtype for name, value in network.parameters.items()} == {"W": F32}
    np.testing.assert_array_equal(network.stack.layers[0].weights[0][0], W.T)
    # A member need not fit in half precision: it runs as it is read.
    third = {"W": np.full((3, 2), 1 / 3, F32)}
    scores = network.runner(third).scores(np.asarray([[1.0, 0, 0]]))
    assert scores[0, 0] == F32(1 / 3)


def test_computation_in_half_precision_is_refused_with_what_to_do(snapshot):
    model = stored(TensorProto.FLOAT16, cast=False)
    with pytest.raises(ModelError) as told:
        network_from(model, "net.onnx")
    assert str(told.value) == snapshot
    nodes = [
        node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        node("Cast", ["h"], ["f"], to=TensorProto.FLOAT),
        node("MatMul", ["f", "W"], ["y"]),
    ]
    model = networks.model(nodes, {"W": W}, ["n", 3], ["n", 2])
    with pytest.raises(ModelError) as told:
        network_from(model, "net.onnx")
    assert str(told.value) == snapshot


def constants(**arrays):
    return [
        node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value)))
        for name, value in arrays.items()
    ]


SHAPES = {
    "the batch size": [
        node("Shape", ["x"], ["s"]),
        *constants(first=np.asarray(0), rest=np.asarray([-1]), nil=np.asarray([0])),
        node("Gather", ["s", "first"], ["n"]),
        node("Unsqueeze", ["n", "nil"], ["b"]),
        node("Concat", ["b", "rest"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["y"]),
    ],
    "casts there and back": [
        node("Shape", ["x"], ["s"]),
        *constants(nil=np.asarray([0]), one=np.asarray([1]), six=np.asarray([6], np.int32)),
        node("Cast", ["s"], ["i"], to=TensorProto.INT32),
        node("Slice", ["i", "nil", "one"], ["b"]),
        node("Concat", ["b", "six"], ["both"], axis=0),
        node("Cast", ["both"], ["shape"], to=TensorProto.INT64),
        node("Reshape", ["x", "shape"], ["y"]),
    ],
    "a product of sizes": [
        node("Shape", ["x"], ["s"]),
        *constants(places=np.asarray([1, 2]), rest=np.asarray([-1])),
        node("Gather", ["s", "places"], ["sizes"]),
        node("ReduceProd", ["sizes"], ["width"], axes=[0], keepdims=1),
        node("Concat", ["rest", "width"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["y"]),
    ],
    "a half of a size": [
        node("Shape", ["x"], ["s"]),
        *constants(
            at=np.asarray([1]), two=np.asarray([2]), nil=np.asarray([0]), axis=np.asarray([1])
        ),
        node("Gather", ["s", "at"], ["size"]),
        node("Div", ["size", "two"], ["half"]),
        node("Slice", ["x", "nil", "half", "axis"], ["t"]),
        node("Flatten", ["t"], ["y"]),
    ],
    "constant numbers": [
        *constants(a=np.asarray([4.0], F32), b=np.asarray([[0.25]], F32)),
        node("Sqrt", ["a"], ["c"]),
        node("Mul", ["b", "c"], ["d"]),
        node("Flatten", ["x"], ["f"]),
        node("Mul", ["f", "d"], ["y"]),
    ],
}


@pytest.mark.parametrize("batch", ["n", 1])
@pytest.mark.parametrize("name", SHAPES)
def test_what_is_computed_of_constants_is_a_constant(name, batch, tmp_path):
    onnx.save(networks.model(SHAPES[name], {}, [batch, 2, 3], ["n", 6]), tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")
    points = np.random.default_rng(0).normal(size=(4, 6)).astype(F32)
    np.testing.assert_array_equal(network.stack.scores(points)[0], network.runner().scores(points))


ODD = {
    "the batch elsewhere": [
        node("Shape", ["x"], ["s"]),
        *constants(first=np.asarray([0]), rest=np.asarray([-1])),
        node("Gather", ["s", "first"], ["n"]),
        node("Concat", ["rest", "n"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["y"]),
    ],
    "arithmetic with the batch": [
        node("Shape", ["x"], ["s"]),
        *constants(two=np.asarray([2, 1, 1])),
        node("Mul", ["s", "two"], ["shape"]),
        node("Reshape", ["x", "shape"], ["y"]),
    ],
    "too many numbers": [
        *constants(size=np.asarray([2**40])),
        node("ConstantOfShape", ["size"], ["c"]),
        node("Add", ["x", "c"], ["y"]),
    ],
    "chance": [node("RandomNormal", [], ["c"], shape=[3]), node("Add", ["x", "c"], ["y"])],
    "no number": [
        *constants(c=np.asarray([-1.0], F32)),
        node("Sqrt", ["c"], ["d"]),
        node("Add", ["x", "d"], ["y"]),
    ],
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_not_a_constant_is_refused(name, snapshot):
    nodes = ODD[name]
    with pytest.raises(ModelError) as told:
        network_from(networks.model(nodes, {}, ["n", 2, 3], ["n", 6]), "net.onnx")
    assert str(told.value) == snapshot


def test_parameters_are_re_shaped_and_stay_parameters():
    nodes = [
        node("Unsqueeze", ["b", "nil"], ["row"]),
        node("Reshape", ["w", "shape"], ["matrix"]),
        node("Transpose", ["matrix"], ["W"]),
        node("MatMul", ["x", "W"], ["m"]),
        node("Add", ["m", "row"], ["y"]),
    ]
    given = {
        "w": W.T.reshape(-1),
        "b": np.asarray([1.0, 2], F32),
        "nil": np.asarray([0]),
        "shape": np.asarray([2, -1]),
    }
    network = network_from(networks.model(nodes, given, ["n", 3], ["n", 2]), "net.onnx")
    check_against_onnxruntime(network)
    assert [*network.parameters] == ["w", "b"]
    np.testing.assert_array_equal(network.stack.layers[0].weights[0][0], W.T)


def test_parameters_that_are_computed_with_are_refused_with_what_to_do(snapshot):
    nodes = [node("Mul", ["g", "v"], ["W"]), node("MatMul", ["x", "W"], ["y"])]
    model = networks.model(nodes, {"g": F32([2.0]), "v": W}, ["n", 3], ["n", 2])
    with pytest.raises(ModelError) as told:
        network_from(model, "net.onnx")
    assert str(told.value) == snapshot


def test_numbers_that_are_here_and_said_to_be_elsewhere_too_are_refused(apart, snapshot):
    model = onnx.load(apart)
    entry = model.graph.initializer[0].external_data.add()
    entry.key, entry.value = "location", "net.onnx.data"
    onnx.save(model, apart)
    with pytest.raises(ModelError) as told:
        load_network(apart)
    assert str(told.value) == snapshot
