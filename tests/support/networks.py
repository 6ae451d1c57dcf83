"""Small ONNX models for tests, one a supported shape of network."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model(
    nodes: list[onnx.NodeProto],
    constants: dict[str, np.ndarray],
    input_shape: list[int | str],
    output_shape: list[int | str],
) -> onnx.ModelProto:
    """Assemble a model with input ``x`` and output ``y``."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, input_shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output_shape)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _random(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


def dense(
    rng: np.random.Generator, widths: tuple[int, ...] = (3, 4, 4, 2), scale: float = 1.0
) -> onnx.ModelProto:
    """Gemm and Relu, weights normal with standard deviation ``scale``."""
    nodes, constants, last = [], {}, "x"
    for i, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        constants[f"layers.{i}.weight"] = scale * _random(rng, outputs, inputs)
        constants[f"layers.{i}.bias"] = scale * _random(rng, outputs)
        target = "y" if i == len(widths) - 2 else f"z{i}"
        names = [last, f"layers.{i}.weight", f"layers.{i}.bias"]
        nodes.append(helper.make_node("Gemm", names, [target], transB=1))
        if target != "y":
            nodes.append(helper.make_node("Relu", [target], [f"h{i}"]))
            last = f"h{i}"
    return model(nodes, constants, ["n", widths[0]], ["n", widths[-1]])


def matmul_add_softmax(rng: np.random.Generator) -> onnx.ModelProto:
    """MatMul, Add, Sub, Mul and Div by constants, then Softmax."""
    c = {
        "mean": _random(rng, 3),
        "deviation": 1 + rng.random(3).astype(np.float32),
        "W": _random(rng, 3, 4),
        "b": _random(rng, 1, 4),
        "gain": _random(rng, 4),
        "V": _random(rng, 4, 3),
        "one": np.asarray(1.0, np.float32),
    }
    nodes = [
        helper.make_node("Sub", ["x", "mean"], ["a"]),
        helper.make_node("Div", ["a", "deviation"], ["b_"]),
        helper.make_node("MatMul", ["b_", "W"], ["c"]),
        helper.make_node("Add", ["b", "c"], ["d"]),
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("Mul", ["gain", "e"], ["f"]),
        helper.make_node("Sub", ["one", "f"], ["g"]),
        helper.make_node("MatMul", ["g", "V"], ["h"]),
        helper.make_node("Softmax", ["h"], ["y"], axis=1),
    ]
    return model(nodes, c, ["n", 3], ["n", 3])


def residual(rng: np.random.Generator) -> onnx.ModelProto:
    """Two residual additions, one of them around a ReLU."""
    c = {"A": _random(rng, 3, 3), "B": _random(rng, 3, 3), "C": _random(rng, 2, 3)}
    nodes = [
        helper.make_node("Gemm", ["x", "A"], ["a"], alpha=0.5),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Add", ["b", "x"], ["c"]),
        helper.make_node("Gemm", ["c", "B"], ["d"]),
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("Sub", ["e", "c"], ["f"]),
        helper.make_node("Gemm", ["f", "C"], ["y"], transB=1),
    ]
    return model(nodes, c, ["n", 3], ["n", 2])


def smooth(rng: np.random.Generator) -> onnx.ModelProto:
    """GELU around a residual addition, then Tanh and ReLU side by side, and SiLU as two nodes."""
    c = {"A": _random(rng, 3, 4), "B": _random(rng, 3, 4), "C": _random(rng, 3, 3)}
    nodes = [
        helper.make_node("Gemm", ["x", "C"], ["a"]),
        helper.make_node("Gelu", ["a"], ["b"]),
        helper.make_node("Add", ["b", "x"], ["c"]),
        helper.make_node("Gemm", ["c", "A"], ["d"]),
        helper.make_node("Gemm", ["c", "B"], ["e"]),
        helper.make_node("Tanh", ["d"], ["f"]),
        helper.make_node("Relu", ["e"], ["g"]),
        helper.make_node("Concat", ["f", "g"], ["h"], axis=1),
        helper.make_node("Gemm", ["h", "D"], ["i"]),
        helper.make_node("Sigmoid", ["i"], ["j"]),
        helper.make_node("Mul", ["i", "j"], ["k"]),
        helper.make_node("Gemm", ["k", "E"], ["y"]),
    ]
    c |= {"D": _random(rng, 8, 3), "E": _random(rng, 3, 2)}
    found = model(nodes, c, ["n", 3], ["n", 2])
    found.opset_import[0].version = 20
    return found


def convolution_1d(rng: np.random.Generator) -> onnx.ModelProto:
    """The paper's small CNN in shape: Unsqueeze, two 1x3 convolutions, dense, dense."""
    c = {
        "axes": np.asarray([1], np.int64),
        "k1": _random(rng, 3, 1, 3),
        "b1": _random(rng, 3),
        "k2": _random(rng, 3, 3, 3),
        "W": _random(rng, 2, 9),
        "b": _random(rng, 2),
        "V": _random(rng, 2, 2),
    }
    nodes = [
        helper.make_node("Unsqueeze", ["x", "axes"], ["u"]),
        helper.make_node("Conv", ["u", "k1", "b1"], ["c1"], pads=[1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "k2"], ["c2"], strides=[2], dilations=[1], pads=[1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Flatten", ["r2"], ["f"]),
        helper.make_node("Gemm", ["f", "W", "b"], ["g"], transB=1),
        helper.make_node("Relu", ["g"], ["r3"]),
        helper.make_node("Gemm", ["r3", "V"], ["y"]),
    ]
    return model(nodes, c, ["n", 6], ["n", 2])


def convolution_2d(rng: np.random.Generator) -> onnx.ModelProto:
    """Grouped 2-D convolution, batch normalisation, pooling, transpose, reshape."""
    c = {
        "k": _random(rng, 4, 1, 2, 3),
        "b": _random(rng, 4),
        "s": _random(rng, 4),
        "t": _random(rng, 4),
        "m": _random(rng, 4),
        "v": 0.5 + rng.random(4).astype(np.float32),
        "k2": _random(rng, 2, 4, 2, 2),
        "shape": np.asarray([0, -1], np.int64),
        "W": _random(rng, 2, 3),
    }
    nodes = [
        helper.make_node("Conv", ["x", "k", "b"], ["a"], group=2, auto_pad="SAME_UPPER"),
        helper.make_node("BatchNormalization", ["a", "s", "t", "m", "v"], ["n_"], epsilon=1e-3),
        helper.make_node("Relu", ["n_"], ["r"]),
        helper.make_node(
            "AveragePool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2], pads=[1, 0, 1, 0]
        ),
        helper.make_node("Transpose", ["p"], ["q"], perm=[0, 1, 3, 2]),
        helper.make_node("Conv", ["q", "k2"], ["d"], dilations=[1, 2]),
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("GlobalAveragePool", ["e"], ["g"]),
        helper.make_node("Reshape", ["g", "shape"], ["f"]),
        helper.make_node("Dropout", ["f"], ["i"]),
        helper.make_node("MatMul", ["i", "W"], ["y"]),
    ]
    return model(nodes, c, ["n", 2, 4, 4], ["n", 3])


def constants_folded(rng: np.random.Generator) -> onnx.ModelProto:
    """A transposed initialiser, a Constant node, and a fixed batch of one."""
    c = {"W": _random(rng, 4, 3), "V": _random(rng, 4, 2)}
    half = numpy_helper.from_array(np.full((1, 3), 0.5, np.float32))
    nodes = [
        helper.make_node("Transpose", ["W"], ["Wt"], perm=[1, 0]),
        helper.make_node("Constant", [], ["half"], value=half),
        helper.make_node("Mul", ["x", "half"], ["s"]),
        helper.make_node("MatMul", ["s", "Wt"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MatMul", ["r", "V"], ["y"]),
    ]
    return model(nodes, c, [1, 3], [1, 2])


def disguised(rng: np.random.Generator) -> onnx.ModelProto:
    """Cast, Neg and Reshape with ``allowzero``, which are read as other operators."""
    c = {
        "W": _random(rng, 4, 2),
        "b": _random(rng, 4),
        "column": np.asarray([-1, 4, 1], np.int64),
        "row": np.asarray([-1, 4], np.int64),
        "V": _random(rng, 4, 3),
    }
    nodes = [
        helper.make_node("Cast", ["W"], ["w"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Gemm", ["f", "w", "b"], ["a"], transB=1),
        helper.make_node("Neg", ["a"], ["n_"]),
        helper.make_node("Reshape", ["n_", "column"], ["d"], allowzero=1),
        helper.make_node("Relu", ["d"], ["r"]),
        helper.make_node("Reshape", ["r", "row"], ["e"], allowzero=1),
        helper.make_node("MatMul", ["e", "V"], ["y"]),
    ]
    return model(nodes, c, ["n", 2], ["n", 3])


def bent(rng: np.random.Generator) -> onnx.ModelProto:
    """LeakyRelu, PRelu with a parameter for slopes, Clip, and one number through a sigmoid."""
    c = {
        "W": _random(rng, 3, 4),
        "b": _random(rng, 4),
        "V": _random(rng, 4, 3),
        "slope": 0.5 * _random(rng, 3),
        "U": _random(rng, 3, 3),
        "u": _random(rng, 3, 1),
    }
    bounds = [numpy_helper.from_array(np.float32(v)) for v in (-0.5, 1.0)]
    nodes = [
        helper.make_node("Gemm", ["x", "W", "b"], ["a"]),
        helper.make_node("LeakyRelu", ["a"], ["l"], alpha=0.2),
        helper.make_node("MatMul", ["l", "V"], ["p"]),
        helper.make_node("PRelu", ["p", "slope"], ["q"]),
        helper.make_node("MatMul", ["q", "U"], ["d"]),
        helper.make_node("Constant", [], ["low"], value=bounds[0]),
        helper.make_node("Constant", [], ["high"], value=bounds[1]),
        helper.make_node("Clip", ["d", "low", "high"], ["e"]),
        helper.make_node("MatMul", ["e", "u"], ["z"]),
        helper.make_node("Sigmoid", ["z"], ["y"]),
    ]
    return model(nodes, c, ["n", 3], ["n", 1])


def pooled(rng: np.random.Generator) -> onnx.ModelProto:
    """MaxPool, Pad, Split, Max, Concat, Slice, and a shape computed of the batch."""
    c = {
        "k": _random(rng, 2, 1, 2, 2),
        "b": _random(rng, 2),
        "pads": np.asarray([0, 0, 0, 0, 0, 0, 1, 0], np.int64),
        "zero": np.asarray([0], np.int64),
        "one": np.asarray([1], np.int64),
        "two": np.asarray([2], np.int64),
        "rest": np.asarray([-1], np.int64),
        "V": _random(rng, 4, 3),
    }
    nodes = [
        helper.make_node("Conv", ["x", "k", "b"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Pad", ["r", "pads"], ["p"]),
        helper.make_node("MaxPool", ["p"], ["m"], kernel_shape=[2, 2]),
        helper.make_node("Split", ["m"], ["s", "t"], axis=1),
        helper.make_node("Max", ["s", "t"], ["u"]),
        helper.make_node("Concat", ["u", "s"], ["d"], axis=1),
        helper.make_node("Shape", ["d"], ["sizes"]),
        helper.make_node("Slice", ["sizes", "zero", "one"], ["batch"]),
        helper.make_node("Concat", ["batch", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["d", "shape"], ["f"]),
        helper.make_node("MatMul", ["f", "V"], ["y"]),
    ]
    return model(nodes, c, ["n", 1, 3, 3], ["n", 3])


ALL: dict[str, Callable[[np.random.Generator], onnx.ModelProto]] = {
    "dense": dense,
    "matmul_add_softmax": matmul_add_softmax,
    "residual": residual,
    "convolution_1d": convolution_1d,
    "convolution_2d": convolution_2d,
    "constants_folded": constants_folded,
    "disguised": disguised,
    "bent": bent,
    "pooled": pooled,
}


def branched():
    """Return a network with two blocks, constants computed from a shape, and a softmax."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["count"]),
        helper.make_node("Concat", ["count", "rest"], ["flat"], axis=0),
        helper.make_node("Reshape", ["x", "flat"], ["f"]),
        helper.make_node("Gemm", ["f", "W", "b"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["r"], name="start"),
        helper.make_node("MatMul", ["r", "V"], ["m"]),
        helper.make_node("Abs", ["m"], ["n"], name="kink"),
        helper.make_node("Add", ["n", "r"], ["j"], name="join"),
        helper.make_node("Sub", ["j", "r"], ["k"], name="second"),
        helper.make_node("Softmax", ["k"], ["y"], name="last", axis=1),
    ]
    constants = {
        "zero": np.asarray([0]),
        "rest": np.asarray([-1]),
        "W": rng.normal(size=(6, 4)).astype(np.float32),
        "b": rng.normal(size=4).astype(np.float32),
        "V": rng.normal(size=(4, 4)).astype(np.float32),
    }
    return model(nodes, constants, ["n", 2, 3], ["n", 4])
