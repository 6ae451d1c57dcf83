"""What would be misread is refused in one line."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from leaveout.errors import ModelError
from leaveout.models.onnx import file
from leaveout.models.onnx.file import network_from
from leaveout.models.replay import with_parameters

from support import networks
from support.one_operator import F32, IMAGE, KERNEL, W, chain, flattened, normal, one


def _of_type(kind):
    model = one("MatMul", {"W": W})
    tensor = helper.make_tensor("W", kind, [3, 2], [1] * 6)
    model.graph.initializer[0].CopyFrom(tensor)
    return model


def _sparse():
    model = one("MatMul", {"W": W})
    dense = model.graph.initializer.pop()
    values = numpy_helper.from_array(np.ones(2, F32), "W")
    indices = numpy_helper.from_array(np.asarray([0, 3], np.int64))
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, dense.dims))
    return model


def _elsewhere():
    model = one("MatMul", {"W": W})
    item = model.graph.initializer[0]
    item.ClearField("raw_data")
    item.data_location = TensorProto.EXTERNAL
    item.external_data.add(key="location", value="../../etc/passwd")
    return model


def _function():
    model = one("Identity")
    opset = [helper.make_opsetid("", 17)]
    node = helper.make_node("Relu", ["a"], ["b"])
    model.functions.append(helper.make_function("own", "Identity", ["a"], ["b"], [node], opset))
    model.opset_import.append(helper.make_opsetid("own", 1))
    return model


def _constant(**value):
    model = one("Add", inputs=["x", "c"])
    model.graph.node.insert(0, helper.make_node("Constant", [], ["c"], **value))
    return model


def _twice():
    model = one("Relu")
    model.graph.node.append(helper.make_node("Relu", ["x"], ["y"]))
    return model


def _damaged():
    model = one("MatMul", {"W": W})
    model.graph.initializer[0].raw_data = b"123"
    return model


ODD = {
    "int64 weights": _of_type(TensorProto.INT64),
    "int8 weights": _of_type(TensorProto.INT8),
    "bfloat16 weights": _of_type(TensorProto.BFLOAT16),
    "float16 weights": _of_type(TensorProto.FLOAT16),
    "double weights": _of_type(TensorProto.DOUBLE),
    "damaged weights": _damaged(),
    "reshape to one sample": one("Reshape", {"s": np.asarray([1, 2], np.int64)}, shape=("n", 2)),
    "squeeze of a batch of one": one("Squeeze", shape=("n", 3, 1)),
    "strides of 0": flattened(one("Conv", {"k": KERNEL}, shape=IMAGE, strides=[0, 0])),
    "negative pads": flattened(one("Conv", {"k": KERNEL}, shape=IMAGE, pads=[-1] * 4)),
    "another kernel_shape": flattened(one("Conv", {"k": KERNEL}, shape=IMAGE, kernel_shape=[2, 2])),
    "unknown attribute": one("Relu", slope=0.1),
    "old opset": one("Add", {"c": W[:, 0]}, opset=6),
    "new opset": one("Relu", opset=26),
    "local functions": _function(),
    "sparse initialiser": _sparse(),
    "weights elsewhere": _elsewhere(),
    "constant of text": _constant(value_string="a"),
    "constant that is no number": _constant(value_float=float("nan")),
    "mask that is used": chain(
        helper.make_node("Dropout", ["x"], ["a", "mask"]),
        helper.make_node("Identity", ["mask"], ["b"]),
        helper.make_node("Relu", ["a"], ["y"]),
        constants={},
        shape=("n", 3),
    ),
    "passed twice": _twice(),
    "wrong width": one("Gemm", {"W": W}, shape=("n", 4)),
    "bias down a column": one("Gemm", {"W": W, "c": np.ones((2, 1), F32)}),
    "training statistics": normal(1.0, opset=9, outputs=("y", "mean", "var", "o", "p")),
    "old batch normalisation": normal(1.0, opset=7, spatial=0),
}


@pytest.mark.parametrize("case", ODD)
def test_what_is_odd_is_refused_in_one_line(case, load, snapshot):
    model = ODD[case]
    with pytest.raises(ModelError) as caught:
        load(model)
    assert str(caught.value) == snapshot
    assert "net.onnx: " in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelError):
        network_from(model, "net.onnx")


def test_a_reading_off_by_a_few_roundings_is_caught(load, monkeypatch, snapshot):
    """Each operator is compared alone: what the scores of a whole network forgive shows there."""
    model = networks.residual(np.random.default_rng(0))
    read = file.read_graph

    def misread(model, where, notes):
        # The file says 0.5.
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        changed.graph.node[0].attribute[0].f = 0.5 * (1 + 2.0**-19)
        return read(changed, where, notes)

    load(model)
    monkeypatch.setattr(file, "read_graph", misread)
    with pytest.raises(ModelError) as told:
        load(model)
    assert str(told.value) == snapshot


def test_initialisers_that_are_inputs_too_keep_the_values_of_the_file(load):
    model = one("MatMul", {"W": W})
    model.graph.input.append(helper.make_tensor_value_info("W", TensorProto.FLOAT, [3, 2]))
    np.testing.assert_array_equal(load(model).stack.layers[0].weights[0][0], W.T)
    changed = with_parameters(model, {"W": 2 * W})
    np.testing.assert_array_equal(load(changed).stack.layers[0].weights[0][0], 2 * W.T)


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_squeeze_of_no_axes_is_refused_as_without_axes(opset, snapshot):
    model = networks.model(
        [helper.make_node("Squeeze", ["x", "axes"], ["y"])],
        {"axes": np.zeros(0, np.int64)},
        ["n", 3],
        ["n", 3],
    )
    model.opset_import[0].version = opset
    with pytest.raises(ModelError) as told:
        network_from(model, "squeezed")
    assert str(told.value) == snapshot
