"""What would be misread, or is too large, is refused in one line before any array is made."""

from __future__ import annotations

import tracemalloc

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from leaveout.errors import FamilyError, ModelError
from leaveout.models import Family, load_family, load_network, onnx_file, save_family_file
from leaveout.models.extent import LARGEST
from leaveout.models.onnx_file import network_from
from leaveout.models.replay import with_parameters

from support import networks

F32 = np.float32


@pytest.fixture
def load(tmp_path):
    def write_and_load(model: onnx.ModelProto):
        path = tmp_path / "net.onnx"
        path.write_bytes(model.SerializeToString())
        return load_network(path)

    return write_and_load


def one(kind, constants=None, shape=("n", 3), opset=17, inputs=None, outputs=("y",), **attributes):
    """Return a model of one operator on ``x``."""
    constants = constants or {}
    names = ["x", *constants] if inputs is None else inputs
    model = networks.model(
        [helper.make_node(kind, names, list(outputs), name="it", **attributes)],
        constants,
        list(shape),
        ["n", "labels"],
    )
    model.opset_import[0].version = opset
    return model


def normal(variance, count=3, **attributes):
    """Return a batch normalisation with this variance."""
    ones = np.ones(count, F32)
    constants = {"s": ones, "b": 0 * ones, "m": 0 * ones, "v": F32(variance) * ones}
    return one("BatchNormalization", constants, shape=("n", count), **attributes)


def test_dropout_in_training_mode_is_refused(load):
    """With a tiny ratio it scales by little more than 1, which a comparison may not see."""
    for training in (True, False):
        constants = {"ratio": F32(4e-5), "training": np.asarray(training)}
        model = one("Dropout", constants)
        if training:
            with pytest.raises(ModelError, match=r"node 'it' \(Dropout\): it is in training mode"):
                load(model)
        else:
            np.testing.assert_array_equal(load(model).stack.layers[0].weights[0][0], np.eye(3))


def test_dropout_is_in_training_mode_too_where_that_is_computed(load):
    for training in (True, False):
        model = one("Dropout", {"ratio": F32(0.5), "t": np.asarray(not training)})
        model.graph.node.insert(0, helper.make_node("Not", ["t"], ["training"]))
        model.graph.node[1].input[2] = "training"
        if training:
            with pytest.raises(ModelError, match=r"\(Dropout\): it is in training mode"):
                load(model)
        else:
            np.testing.assert_array_equal(load(model).stack.layers[0].weights[0][0], np.eye(3))


@pytest.mark.parametrize("variance", [-1.0013e-5, -9.999e-6, -1e-12, -1.0])
@pytest.mark.parametrize("attributes", [{}, {"epsilon": 1e-5}, {"epsilon": 2.0}])
def test_negative_variances_are_refused(load, variance, attributes):
    with pytest.raises(ModelError, match=r"node 'it': a variance is negative"):
        load(normal(variance, **attributes))


@pytest.mark.parametrize("variance", [0.0, 1e-42, 1e-9, 1e-5, 1.0])
@pytest.mark.parametrize("attributes", [{}, {"epsilon": 1e-5}, {"epsilon": 1e-3}])
def test_epsilon_is_a_float32_also_where_it_is_left_out(load, variance, attributes):
    network = load(normal(variance, **attributes))
    epsilon = float(F32(attributes.get("epsilon", 1e-5)))
    factor = 1 / np.sqrt(float(F32(variance)) + epsilon)
    np.testing.assert_allclose(np.diag(network.stack.layers[0].weights[0][0]), factor, rtol=1e-15)
    points = np.eye(3, dtype=F32)
    computed = network.runner().scores(points).astype(np.float64)
    np.testing.assert_allclose(computed, np.eye(3) * factor, rtol=3 * 2.0**-24)


@pytest.mark.parametrize("variance", [0.0, 1e-42, 1e-31])
def test_a_deviation_that_float32_cannot_invert_is_refused(load, variance):
    with pytest.raises(ModelError, match=r"below 2\^-100"):
        load(normal(variance, epsilon=0.0))
    load(normal(1e-30, epsilon=0.0))


def test_a_member_with_a_negative_variance_or_a_division_by_zero_is_refused_by_its_row(tmp_path):
    for name, value, why in (("v", -1e-6, "a variance is negative"), ("d", 0.0, "divides by zero")):
        model = normal(1.0)
        model.graph.node[0].output[0] = "z"
        model.graph.node.append(helper.make_node("Div", ["z", "d"], ["y"]))
        model.graph.initializer.append(numpy_helper.from_array(np.ones(3, F32), "d"))
        network = network_from(model, "N")
        stacked = {k: np.stack([v, v, v]) for k, v in network.parameters.items()}
        save_family_file(tmp_path / "good.npz", Family(stacked, np.asarray([4, 5, 9])))
        assert len(load_family(tmp_path / "good.npz", network)) == 3
        stacked[name][2, 1] = value
        save_family_file(tmp_path / "bad.npz", Family(stacked, np.asarray([4, 5, 9])))
        with pytest.raises(FamilyError, match=rf"bad.npz: member 2 \(row 9\): .*{why}"):
            load_family(tmp_path / "bad.npz", network)


def _with_dropout(training):
    constants = {"ratio": F32(1e-3), "training": np.asarray(training)}
    return one("Dropout", constants)


@pytest.mark.parametrize(
    ("own", "other", "message"),
    [
        (normal(1.0), normal(1.0, epsilon=1e-4), "its operators are not those"),
        (normal(1.0, epsilon=1e-4), normal(1.0), "its operators are not those"),
        (_with_dropout(False), _with_dropout(True), "training mode"),
        (
            one("Gemm", {"W": np.ones((3, 3), F32)}, transB=0),
            one("Gemm", {"W": np.ones((3, 3), F32)}, transB=1),
            "its operators are not those",
        ),
    ],
)
def test_a_folder_member_with_other_attributes_is_refused(tmp_path, own, other, message):
    network = network_from(own, "N")
    (tmp_path / "m_1.onnx").write_bytes(own.SerializeToString())
    assert len(load_family(tmp_path, network)) == 1
    (tmp_path / "m_2.onnx").write_bytes(other.SerializeToString())
    with pytest.raises(FamilyError, match=rf"m_2\.onnx.*{message}"):
        load_family(tmp_path, network)


W = np.ones((3, 2), F32)
KERNEL = np.ones((1, 1, 3, 3), F32)
IMAGE = ("n", 1, 8, 8)


def _flattened(model):
    model.graph.node[0].output[0] = "image"
    model.graph.node.append(helper.make_node("Flatten", ["image"], ["y"]))
    return model


def _of_type(kind):
    model = one("MatMul", {"W": W})
    tensor = helper.make_tensor("W", kind, [3, 2], [1] * 6)
    model.graph.initializer[0].CopyFrom(tensor)
    return model


def _chain(*nodes, constants, shape):
    return networks.model(list(nodes), constants, list(shape), ["n", "labels"])


HUGE = {
    "input of 2^62 numbers": one("Flatten", shape=("n", 2**31, 2**31)),
    "input of 2^31 numbers": one("Identity", shape=("n", 2**31)),
    "input of 300000 numbers": one("Flatten", shape=("n", 300000)),
    "wide layer": one("MatMul", {"W": np.ones((300000, 2), F32)}, shape=("n", 300000)),
    "padding of 1e9": _flattened(one("Conv", {"k": KERNEL}, shape=IMAGE, pads=[10**9] * 4)),
    "padding of 2^62": _flattened(one("Conv", {"k": KERNEL}, shape=IMAGE, pads=[2**62] * 4)),
    "dilation of 1e9": _flattened(
        one("Conv", {"k": KERNEL}, shape=IMAGE, pads=[10**9] * 4, dilations=[10**9] * 2)
    ),
    "pooling of 1e9": _flattened(
        one("AveragePool", shape=IMAGE, kernel_shape=[10**9] * 2, pads=[10**9 - 1] * 4)
    ),
    "many channels": _flattened(
        one("Conv", {"k": np.ones((256, 1, 1, 1), F32)}, shape=("n", 1, 64, 64))
    ),
    "wide ReLU": _chain(
        helper.make_node("MatMul", ["x", "W"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "V"], ["y"]),
        constants={"W": np.ones((1, 20000), F32), "V": np.ones((20000, 2), F32)},
        shape=("n", 1),
    ),
}


@pytest.mark.parametrize("case", HUGE)
def test_huge_networks_are_refused_before_an_array_is_made(case, load, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("it was to be refused before")

    monkeypatch.setattr(onnxruntime, "InferenceSession", never)
    monkeypatch.setattr(onnx_file, "lower", never)
    model = HUGE[case]
    tracemalloc.start()
    with pytest.raises(ModelError, match=r"written out|places are supported") as caught:
        load(model)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**25
    assert "\n" not in str(caught.value)


def test_the_limit_is_as_large_as_it_says(load):
    side = int(LARGEST**0.5)
    with pytest.raises(ModelError, match="67,108,864"):
        network_from(one("Flatten", shape=("n", side)), "net.onnx")
    assert network_from(one("Flatten", shape=("n", side // 2)), "net.onnx").inputs == side // 2


def test_a_file_too_large_is_refused_unread(tmp_path):
    path = tmp_path / "large.onnx"
    with path.open("wb") as stream:
        stream.truncate(2**31 + 1)
    tracemalloc.start()
    with pytest.raises(ModelError, match=r"large\.onnx: .* larger than 2 GiB"):
        load_network(path)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


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


def _two_opsets():
    model = one("Relu")
    model.opset_import.append(helper.make_opsetid("ai.onnx", 11))
    return model


def _damaged():
    model = one("MatMul", {"W": W})
    model.graph.initializer[0].raw_data = b"123"
    return model


ODD = {
    "int64 weights": (_of_type(TensorProto.INT64), "holds int64, expected float32"),
    "int8 weights": (_of_type(TensorProto.INT8), "'W' holds int8, expected float32"),
    "bfloat16 weights": (
        _of_type(TensorProto.BFLOAT16),
        "'W' holds bfloat16, and the network computes with it",
    ),
    "float16 weights": (
        _of_type(TensorProto.FLOAT16),
        "'W' holds float16, and the network computes with it",
    ),
    "double weights": (
        _of_type(TensorProto.DOUBLE),
        "'W'\\) holds float64, expected float32: export a float32 model",
    ),
    "damaged weights": (_damaged(), "'W' is damaged|not a valid ONNX model"),
    "reshape to one sample": (
        one("Reshape", {"s": np.asarray([1, 2], np.int64)}, shape=("n", 2)),
        "mixes the samples",
    ),
    "squeeze of a batch of one": (one("Squeeze", shape=("n", 3, 1)), "drops the batch axis"),
    "strides of 0": (
        _flattened(one("Conv", {"k": KERNEL}, shape=IMAGE, strides=[0, 0])),
        r"strides = \[0, 0\]: expected numbers of at least 1",
    ),
    "negative pads": (
        _flattened(one("Conv", {"k": KERNEL}, shape=IMAGE, pads=[-1] * 4)),
        "expected numbers of at least 0",
    ),
    "another kernel_shape": (
        _flattened(one("Conv", {"k": KERNEL}, shape=IMAGE, kernel_shape=[2, 2])),
        r"kernel_shape = \[2, 2\], and its weight has shape \[1, 1, 3, 3\]",
    ),
    "unknown attribute": (one("Relu", slope=0.1), "slope"),
    "old opset": (one("Add", {"c": W[:, 0]}, opset=6), "opset is 6; supported are 7 to 23"),
    "new opset": (one("Relu", opset=26), "opset is 26; supported are 7 to 23"),
    "two opsets": (_two_opsets(), "opset is 11 and 17|not a valid ONNX model"),
    "local functions": (_function(), "functions of its own"),
    "sparse initialiser": (_sparse(), "'W' is sparse"),
    "weights elsewhere": (_elsewhere(), "'W' is kept at .*, outside the model's folder"),
    "constant of text": (_constant(value_string="a"), "only numeric constants"),
    "constant that is no number": (_constant(value_float=float("nan")), "NaN or infinity"),
    "mask that is used": (
        _chain(
            helper.make_node("Dropout", ["x"], ["a", "mask"]),
            helper.make_node("Identity", ["mask"], ["b"]),
            helper.make_node("Relu", ["a"], ["y"]),
            constants={},
            shape=("n", 3),
        ),
        "its output 'mask' is used",
    ),
    "given twice": (_twice(), "gives 'y' too|not a valid ONNX model"),
    "wrong width": (one("Gemm", {"W": W}, shape=("n", 4)), "expected .*'batch', 3"),
    "bias down a column": (
        one("Gemm", {"W": W, "c": np.ones((2, 1), F32)}),
        r"its bias has shape \[2, 1\], expected \[2\]",
    ),
    "training statistics": (
        normal(1.0, opset=9, outputs=("y", "mean", "var", "o", "p")),
        "training mode",
    ),
    "old batch normalisation": (normal(1.0, opset=7, spatial=0), "spatial = 0: only 1"),
}


@pytest.mark.parametrize("case", ODD)
def test_what_is_odd_is_refused_in_one_line(case, load):
    model, message = ODD[case]
    with pytest.raises(ModelError, match=message) as caught:
        load(model)
    assert "net.onnx: " in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelError):
        network_from(model, "net.onnx")


def test_a_reading_off_by_a_few_roundings_is_caught(load, monkeypatch):
    """Each operator is compared alone: what the scores of a whole network forgive shows there."""
    model = networks.residual(np.random.default_rng(0))
    read = onnx_file.read_graph

    def misread(model, where, notes):
        # The file says 0.5.
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        changed.graph.node[0].attribute[0].f = 0.5 * (1 + 2.0**-19)
        return read(changed, where, notes)

    load(model)
    monkeypatch.setattr(onnx_file, "read_graph", misread)
    with pytest.raises(ModelError, match=r"our reading of node 'a' \(Gemm\) differs"):
        load(model)


def test_initialisers_that_are_inputs_too_keep_the_values_of_the_file(load):
    model = one("MatMul", {"W": W})
    model.graph.input.append(helper.make_tensor_value_info("W", TensorProto.FLOAT, [3, 2]))
    np.testing.assert_array_equal(load(model).stack.layers[0].weights[0][0], W.T)
    changed = with_parameters(model, {"W": 2 * W})
    np.testing.assert_array_equal(load(changed).stack.layers[0].weights[0][0], 2 * W.T)


def test_a_scalar_parameter_stays_a_scalar(load):
    model = one("Dropout", {"ratio": F32(0.5)})
    changed = with_parameters(model, {"ratio": F32(0.25)})
    assert list(changed.graph.initializer[0].dims) == []
    assert load(changed).runner().scores(np.ones((1, 3))).tolist() == [[1, 1, 1]]


def test_a_transposed_constant_that_is_no_float32_is_read(load):
    model = one("Dropout", {"ratio": F32(0.5), "t": np.asarray(False)})
    model.graph.node.insert(0, helper.make_node("Transpose", ["t"], ["training"]))
    model.graph.node[1].input[2] = "training"
    np.testing.assert_array_equal(load(model).stack.layers[0].weights[0][0], np.eye(3))


def test_a_member_whose_dropout_no_runtime_takes_is_refused(tmp_path):
    network = network_from(one("Dropout", {"ratio": F32(0.5)}), "N")
    for ratio in (-0.1, 1.0):
        stacked = {"ratio": F32([0.5, ratio])}
        save_family_file(tmp_path / "f.npz", Family(stacked, np.asarray([4, 5])))
        with pytest.raises(FamilyError, match=r"member 1 \(row 5\): .*its ratio is not in"):
            load_family(tmp_path / "f.npz", network)


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_squeeze_of_no_axes_is_refused_as_without_axes(opset):
    model = networks.model(
        [helper.make_node("Squeeze", ["x", "axes"], ["y"])],
        {"axes": np.zeros(0, np.int64)},
        ["n", 3],
        ["n", 3],
    )
    model.opset_import[0].version = opset
    with pytest.raises(ModelError, match="batch axis"):
        network_from(model, "squeezed")
