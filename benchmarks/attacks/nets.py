"""Small random networks as plain data: every operator the reader takes, opsets 7 to 23."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

__all__ = ["OPSETS", "array", "is_smooth", "model_of", "packed", "random_net"]

Shape = tuple[int, ...]
Net = dict[str, Any]
"""``opset``, ``batch``, ``shape``, ``nodes``, ``floats`` (initialisers) and ``integers``."""

OPSETS = tuple(range(7, 24))
_WIDEST = 12
_IR = 8


def packed(value: NDArray[Any]) -> dict[str, Any]:
    """Return an array as plain data."""
    return {"shape": list(value.shape), "data": [float(v) for v in value.reshape(-1)]}


def array(value: dict[str, Any]) -> NDArray[np.float32]:
    """Return what was packed, as float32."""
    return np.asarray(value["data"], np.float32).reshape(value["shape"])


def model_of(net: Net, floats: dict[str, dict[str, Any]] | None = None) -> onnx.ModelProto:
    """Return the ONNX model, if asked with other initialisers."""
    used = {**net["floats"], **(floats or {})}
    constants = [numpy_helper.from_array(array(value), name) for name, value in used.items()]
    constants += [
        numpy_helper.from_array(np.asarray(value, np.int64), name)
        for name, value in net["integers"].items()
    ]
    nodes = [
        helper.make_node(kind, inputs, outputs, **{k: _attribute(v) for k, v in given.items()})
        for kind, inputs, outputs, given in net["nodes"]
    ]
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [net["batch"], *net["shape"]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [net["batch"], net["labels"]])],
        constants,
    )
    opset = [helper.make_opsetid("", net["opset"])]
    return helper.make_model(graph, opset_imports=opset, ir_version=_IR)


def is_smooth(net: Net) -> bool:
    """Return whether a network may have a smooth activation."""
    kinds = {"Sigmoid", "Tanh", "Softplus", "Elu", "Gelu", "Erf", "Mish", "Pow"}
    kinds |= {"LayerNormalization", "Softmax"}
    return any(kind in kinds for kind, *_ in net["nodes"])


def _attribute(value: Any) -> Any:
    return numpy_helper.from_array(array(value)) if isinstance(value, dict) else value


def random_net(
    rng: np.random.Generator, shape: Shape, labels: int, *, odd: float = 0.5, scale: float = 1.0
) -> Net:
    """Draw a network.

    Parameters
    ----------
    rng : numpy.random.Generator
    shape : tuple of int
        Of one input.
    labels : int
    odd : float
        Chance of an operator other than a plain layer, wherever one may be.
    scale : float
        Of the weights.
    """
    return _Maker(rng, shape, labels, odd, scale).net()


class _Maker:
    def __init__(
        self, rng: np.random.Generator, shape: Shape, labels: int, odd: float, scale: float
    ) -> None:
        self.rng, self.shape, self.labels, self.odd, self.scale = rng, shape, labels, odd, scale
        self.given = shape
        self.opset = int(rng.choice(OPSETS))
        self.nodes: list[list[Any]] = []
        self.floats: dict[str, dict[str, Any]] = {}
        self.integers: dict[str, list[int]] = {}
        self.at = "x"
        self.seen: list[tuple[str, Shape]] = [("x", shape)]
        self.smooth = float(self.rng.choice([0.0, 1.0, 0.5], p=[0.7, 0.2, 0.1]))

    def net(self) -> Net:
        for _ in range(int(self.rng.choice([0, 1, 2, 3], p=[0.1, 0.45, 0.35, 0.1]))):
            self.oddities()
            self.layer()
            self.oddities()
            self.activate()
        self.oddities()
        if len(self.shape) > 1:
            self.flatten()
        self.dense(self.labels)
        self.rng.choice([self.nothing, self.nothing, self.nothing, self.soft])()
        self.nodes[-1][2] = ["y"]
        return {
            "opset": self.opset,
            "batch": "n" if self.rng.random() < 0.9 else 1,
            "shape": list(self.given),
            "labels": self.labels,
            "nodes": self.nodes,
            "floats": self.floats,
            "integers": self.integers,
        }

    def add(self, kind: str, inputs: list[str], shape: Shape, **given: Any) -> None:
        name = f"t{len(self.nodes)}"
        self.nodes.append([kind, inputs, [name], given])
        self.at, self.shape = name, shape
        self.seen.append((name, shape))

    def activate(self) -> None:
        """Add a ReLU or a smooth activation, also as torch writes it."""
        if self.rng.random() >= self.smooth:
            self.add("Relu", [self.at], self.shape)
            return
        x, shape = self.at, self.shape
        kinds = ["Sigmoid", "Tanh", "Softplus", "Elu", "Silu", "Gelu", "Cubic", "Gate", "Pow"]
        kinds += ["Softmax"] * (self.opset >= 13) + ["Attention"] * (len(shape) > 1)
        kinds += ["LayerNormalization"] * (self.opset >= 17) + ["Mish"] * (self.opset >= 18)
        kind = str(self.rng.choice(kinds))
        if kind == "Gate":
            self.add("Relu", [x], shape)
            self.add("Sigmoid", [x], shape)
            self.add("Mul", [f"t{len(self.nodes) - 2}", self.at], shape)
        elif kind == "Pow":
            self.add("Pow", [x, self.fixed(float(self.rng.choice([2, 3])))], shape)
        elif kind == "Softmax":
            self.add("Softmax", [x], shape, axis=int(self.rng.integers(1, 1 + len(shape))))
        elif kind == "Attention":
            order = [*range(len(shape) - 1), len(shape), len(shape) - 1]
            self.add("Transpose", [x], (*shape[:-2], shape[-1], shape[-2]), perm=order)
            self.add("MatMul", [x, self.at], (*shape[:-1], shape[-2]))
            self.add("Softmax", [self.at], self.shape, axis=len(shape))
            self.add("MatMul", [self.at, x], shape)
        elif kind == "LayerNormalization":
            scale = self.constant(1 + 0.3 * self.rng.normal(size=shape[-1]))
            epsilon = float(self.rng.choice([1e-5, 1e-3, 0.1]))
            self.add("LayerNormalization", [x, scale], shape, axis=-1, epsilon=epsilon)
        elif kind == "Silu":
            self.add("Sigmoid", [x], shape)
            self.add("Mul", [x, self.at], shape)
        elif kind == "Gelu" and self.opset >= 20 and self.rng.random() < 0.5:
            given = {"approximate": "tanh"} if self.rng.random() < 0.5 else {}
            self.add("Gelu", [x], shape, **given)
        elif kind == "Gelu" and self.opset >= 9:
            self.add("Div", [x, self.fixed(np.sqrt(2))], shape)
            self.add("Erf", [self.at], shape)
            self.half(x)
        elif kind in ("Gelu", "Cubic"):
            self.add("Mul", [x, x], shape)
            self.add("Mul", [x, self.at], shape)
            self.add("Mul", [self.at, self.fixed(0.044715)], shape)
            self.add("Add", [x, self.at], shape)
            self.add("Mul", [self.fixed(np.sqrt(2 / np.pi)), self.at], shape)
            self.add("Tanh", [self.at], shape)
            self.half(x)
        else:
            self.add(kind, [x], shape)

    def half(self, x: str) -> None:
        """Add ``x (1 + t) / 2`` of the last tensor."""
        self.add("Add", [self.at, self.fixed(1.0)], self.shape)
        self.add("Mul", [x, self.at], self.shape)
        self.add("Mul", [self.at, self.fixed(0.5)], self.shape)

    def fixed(self, value: float) -> str:
        """Name a number that is no parameter."""
        name = f"f{len(self.nodes)}"
        self.nodes.append(
            ["Constant", [], [name], {"value": packed(np.float32(value).reshape(()))}]
        )
        return name

    def constant(self, value: Any) -> str:
        """Name an array: an initialiser, or after the first one at times a Constant node."""
        value = np.asarray(value, np.float32)
        name = f"c{len(self.floats)}_{len(self.nodes)}"
        if self.floats and self.rng.random() < 0.1:
            self.nodes.append(["Constant", [], [name], {"value": packed(value)}])
        else:
            self.floats[name] = packed(value)
        return name

    def whole(self, value: list[int]) -> str:
        name = f"i{len(self.integers)}"
        self.integers[name] = value
        return name

    def normal(self, *shape: int, fan: int = 1) -> NDArray[np.float64]:
        return self.scale * self.rng.normal(size=shape) / math.sqrt(max(fan, 1))

    def oddities(self) -> None:
        while self.rng.random() < self.odd * 0.6:
            choices: list[Callable[[], None]] = [
                self.affine, self.normalised, self.dropout, self.same, self.reshaped, self.join,
                self.turned,
            ]  # fmt: skip
            if len(self.shape) in {2, 3}:
                choices += [self.pool, self.global_pool, self.flatten]
            if 1 in self.shape:
                choices.append(self.squeezed)
            choices[int(self.rng.integers(len(choices)))]()

    def layer(self) -> None:
        spatial = len(self.shape) in {2, 3}
        if spatial and self.rng.random() < 0.7:
            self.conv()
        elif spatial and self.rng.random() < 0.5:
            self.matmul(int(self.rng.integers(1, 4)))
        else:
            if len(self.shape) > 1:
                self.flatten()
            wide = self.rng.random() < 0.05
            self.dense(int(self.rng.integers(8, 13) if wide else self.rng.integers(1, 7)))

    def nothing(self) -> None:
        """Leave the scores as they are."""

    def dense(self, width: int) -> None:
        if self.rng.random() < 0.3:
            self.matmul(width)
            return
        inputs, turned = self.shape[0], int(self.rng.integers(2))
        weight = self.normal(*((width, inputs) if turned else (inputs, width)), fan=inputs)
        names = [self.at, self.constant(weight)]
        given: dict[str, Any] = {"transB": turned} if turned else {}
        # Before opset 11 the third input is not optional.
        if self.opset < 11 or self.rng.random() < 0.85:
            shapes = [(width,), (width,), (1, width), (1,), ()]
            names.append(self.constant(self.normal(*shapes[int(self.rng.integers(len(shapes)))])))
        if self.rng.random() < 0.2:
            given["alpha"] = float(np.float32(self.rng.choice([0.5, -1.0, 3.0])))
        if self.rng.random() < 0.2:
            given["beta"] = float(np.float32(self.rng.choice([0.0, 2.0, -0.3])))
        self.add("Gemm", names, (width,), **given)

    def matmul(self, width: int) -> None:
        inputs = self.shape[-1]
        weight = self.constant(self.normal(inputs, width, fan=inputs))
        self.add("MatMul", [self.at, weight], (*self.shape[:-1], width))
        if self.rng.random() < 0.8:
            self.affine("Add")

    def affine(self, kind: str | None = None) -> None:
        kind = kind or str(self.rng.choice(["Add", "Sub", "Mul", "Div"]))
        shape = self.shape
        options = [shape, (1, *shape), (), (1,), shape[-1:]]
        if len(shape) > 1:
            options.append((shape[0], *[1] * (len(shape) - 1)))
        size = options[int(self.rng.integers(len(options)))]
        value = self.normal(*size)
        if kind in {"Mul", "Div"}:
            value = np.exp(0.5 * self.rng.normal(size=size)) * self.rng.choice([-1, 1], size=size)
        elif self.rng.random() < 0.1:
            value = value * 10.0 ** self.rng.integers(1, 6)
        names = [self.at, self.constant(value)]
        if kind != "Div" and self.rng.random() < 0.3:
            names.reverse()
        self.add(kind, names, shape)

    def normalised(self) -> None:
        channels = self.shape[0]
        spread = 10.0 ** self.rng.choice([0, 0, 0, -3, -6])
        values = (
            self.rng.normal(size=channels) + 1, self.normal(channels), self.normal(channels),
            spread * (0.1 + self.rng.random(channels)),
        )  # fmt: skip
        if self.rng.random() < 0.03:
            # So near to what the default epsilon adds that its last bits show.
            values[3][:] = -1e-5 * (1 - 10.0 ** -self.rng.uniform(3, 6))
        names = [self.at, *(self.constant(value) for value in values)]
        given: dict[str, Any] = {}
        if self.rng.random() < 0.6:
            given["epsilon"] = float(np.float32(self.rng.choice([1e-5, 1e-3, 0.1])))
        if self.rng.random() < 0.2:
            given["momentum"] = float(np.float32(0.5))
        self.add("BatchNormalization", names, self.shape, **given)

    def dropout(self) -> None:
        given = {"ratio": 0.25} if self.opset < 12 and self.rng.random() < 0.5 else {}
        self.add("Dropout", [self.at], self.shape, **given)

    def same(self) -> None:
        self.add("Identity", [self.at], self.shape)

    def join(self) -> None:
        others = [name for name, shape in self.seen if shape == self.shape]
        names = [self.at, str(self.rng.choice(others))]
        if self.rng.random() < 0.5:
            names.reverse()
        self.add(str(self.rng.choice(["Add", "Sub"])), names, self.shape)

    def turned(self) -> None:
        order = [int(i) for i in 1 + self.rng.permutation(len(self.shape))]
        shape = tuple(self.shape[i - 1] for i in order)
        self.add("Transpose", [self.at], shape, perm=[0, *order])

    def flatten(self) -> None:
        given = {} if self.rng.random() < 0.5 else {"axis": 1}
        self.add("Flatten", [self.at], (math.prod(self.shape),), **given)

    def reshaped(self) -> None:
        size = math.prod(self.shape)
        ways: list[Shape] = [(size,), (1, size), (size, 1)]
        ways += [(d, size // d) for d in range(2, size) if size % d == 0]
        ways += [(1, d, size // d) for d in range(1, size + 1) if size % d == 0]
        shape = ways[int(self.rng.integers(len(ways)))]
        target = [int(self.rng.choice([0, 0, -1])), *shape]
        if target[0] == 0 and self.rng.random() < 0.4:
            target[int(self.rng.integers(1, len(target)))] = -1
        if target[0] == -1 and self.rng.random() < 0.5:
            target[0] = 0
        if len(shape) == len(self.shape) + 1 and shape[1:] == self.shape and shape[0] == 1:
            self.unsqueezed(shape)
            return
        self.add("Reshape", [self.at, self.whole(target)], shape)

    def unsqueezed(self, shape: Shape) -> None:
        if self.opset < 13:
            self.add("Unsqueeze", [self.at], shape, axes=[1])
        else:
            self.add("Unsqueeze", [self.at, self.whole([1])], shape)

    def squeezed(self) -> None:
        if len(self.shape) < 2:
            return
        axis = self.shape.index(1)
        shape = self.shape[:axis] + self.shape[axis + 1 :]
        if self.opset < 13:
            self.add("Squeeze", [self.at], shape, axes=[axis + 1])
        else:
            self.add("Squeeze", [self.at, self.whole([axis + 1])], shape)

    def conv(self) -> None:
        channels, *sides = self.shape
        window = [int(self.rng.integers(1, min(3, side) + 1)) for side in sides]
        group = channels if self.rng.random() < 0.2 else 1
        outputs = int(self.rng.integers(1, 3)) * group
        given, after = self.window(window, sides, dilates=True)
        if outputs * math.prod(after) > _WIDEST:
            outputs, group = group, group
        fan = channels // group * math.prod(window)
        weight = self.normal(outputs, channels // group, *window, fan=fan)
        names = [self.at, self.constant(weight)]
        if self.rng.random() < 0.7:
            names.append(self.constant(self.normal(outputs)))
        if group > 1:
            given["group"] = group
        self.add("Conv", names, (outputs, *after), **given)

    def pool(self) -> None:
        channels, *sides = self.shape
        window = [int(self.rng.integers(1, min(3, side) + 1)) for side in sides]
        given, after = self.window(window, sides, dilates=False)
        if self.rng.random() < 0.5:
            given["count_include_pad"] = 1
        self.add("AveragePool", [self.at], (channels, *after), kernel_shape=window, **given)

    def global_pool(self) -> None:
        shape = (self.shape[0], *[1] * (len(self.shape) - 1))
        self.add("GlobalAveragePool", [self.at], shape)

    def window(
        self, window: list[int], sides: list[int], *, dilates: bool
    ) -> tuple[dict[str, Any], Shape]:
        """Draw strides, pads and dilations; returns them, and the sides that are left."""
        rng, count = self.rng, len(sides)
        strides = [int(rng.choice([1, 1, 2])) for _ in sides]
        given: dict[str, Any] = {"strides": strides} if max(strides) > 1 else {}
        way = str(rng.choice(["", "", "pads", "VALID", "SAME_UPPER", "SAME_LOWER"]))
        if way.startswith("SAME"):
            given["auto_pad"] = way
            return given, tuple(-(-n // s) for n, s in zip(sides, strides, strict=True))
        pads = [0] * (2 * count)
        if way == "pads":
            pads = [int(rng.integers(0, window[i % count])) for i in range(2 * count)]
            given["pads"] = pads
        elif way:
            given["auto_pad"] = way
        dilations = [1] * count
        if dilates and rng.random() < 0.3:
            dilations = [2 if 2 * (k - 1) < n else 1 for k, n in zip(window, sides, strict=True)]
            given["dilations"] = dilations
        after = []
        for i, n in enumerate(sides):
            reach = dilations[i] * (window[i] - 1) + 1
            after.append((n + pads[i] + pads[i + count] - reach) // strides[i] + 1)
        return given, tuple(after)

    def soft(self) -> None:
        kind = str(self.rng.choice(["Softmax", "LogSoftmax"]))
        given = {"axis": int(self.rng.choice([1, -1]))} if self.opset >= 13 else {}
        self.add(kind, [self.at], self.shape, **given)
