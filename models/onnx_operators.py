"""One reader an ONNX operator: node and attributes in, our operator out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from leaveout.models.graph import Join
from leaveout.models.operators import Operator, Relu, Shape
from leaveout.models.operators.dense import Gemm, MatMul
from leaveout.models.operators.elementwise import BatchNormalization, Scale, Shift
from leaveout.models.operators.shape import Identity, Permute, Reshape
from leaveout.models.operators.window import AveragePool, Conv, GlobalAveragePool, Window

__all__ = ["READERS", "UnsupportedError", "Use"]


class UnsupportedError(Exception):
    """Why a node is refused; the reader of the file adds which one."""


@dataclass(frozen=True, eq=False)
class Use:
    """A node as its reader sees it.

    Attributes
    ----------
    proto : onnx.NodeProto
    shapes : mapping of str to tuple of int
        Shape of one sample of each variable tensor.
    values : mapping of str to ndarray
        Values of the constant tensors (of N, where they are parameters).
    """

    proto: onnx.NodeProto
    shapes: Mapping[str, Shape]
    values: Mapping[str, NDArray[Any]]

    @property
    def variables(self) -> tuple[str, ...]:
        """Inputs that depend on the network's input."""
        return tuple(name for name in self.proto.input if name in self.shapes)

    def attribute(self, name: str, default: Any) -> Any:
        """Value of an attribute, or ``default``."""
        for attribute in self.proto.attribute:
            if attribute.name == name:
                value = onnx.helper.get_attribute_value(attribute)
                return value.decode() if isinstance(value, bytes) else value
        return default

    def constant(self, position: int) -> str:
        """Name of the input at ``position``, which must be constant; empty where absent."""
        if position >= len(self.proto.input) or not self.proto.input[position]:
            return ""
        name = str(self.proto.input[position])
        if name not in self.values:
            raise UnsupportedError(f"input {position} ({name!r}) must be a constant")
        return name

    def integers(self, position: int, attribute: str) -> list[int] | None:
        """Integers given as an input (newer opsets) or as an attribute (older ones)."""
        name = self.constant(position)
        if name:
            return [int(i) for i in self.values[name].reshape(-1)]
        listed = self.attribute(attribute, None)
        return None if listed is None else [int(i) for i in listed]

    @property
    def shape(self) -> Shape:
        """Shape of one sample of the first variable input."""
        return self.shapes[self.variables[0]]

    def first_is_variable(self) -> None:
        """Refuse a node whose first input is not the variable one."""
        if self.variables != (self.proto.input[0],):
            raise UnsupportedError("only its first input may depend on the network's input")


def _gemm(use: Use) -> Operator:
    use.first_is_variable()
    if use.attribute("transA", 0):
        raise UnsupportedError("transA = 1 mixes the samples of a batch")
    if len(use.shape) != 1:
        raise UnsupportedError(
            f"its input has shape [batch, {use.shape}], expected [batch, features]"
        )
    return Gemm(
        use.constant(1),
        use.constant(2),
        float(use.attribute("alpha", 1.0)),
        float(use.attribute("beta", 1.0)),
        bool(use.attribute("transB", 0)),
    )


def _matmul(use: Use) -> Operator:
    use.first_is_variable()
    weight = use.constant(1)
    if use.values[weight].ndim != 2:
        raise UnsupportedError(
            f"its constant has shape {use.values[weight].shape}, expected a matrix"
        )
    return MatMul(weight)


def _sum(sign: int) -> Callable[[Use], Operator]:
    def read(use: Use) -> Operator:
        left, right = use.proto.input
        if len(use.variables) == 2:
            if use.shapes[left] != use.shapes[right]:
                raise UnsupportedError(
                    f"it joins tensors of shapes {use.shapes[left]} and {use.shapes[right]}; "
                    "a residual connection needs equal shapes"
                )
            return Join(sign)
        if use.variables == (left,):
            return Shift(_broadcast(use, right), 1, sign)
        return Shift(_broadcast(use, left), sign, 1)

    return read


def _broadcast(use: Use, constant: str) -> str:
    shape = use.values[constant].shape
    if len(shape) > len(use.shape) and any(n != 1 for n in shape[: len(shape) - len(use.shape)]):
        raise UnsupportedError(f"a constant of shape {shape} mixes the samples of a batch")
    return constant


def _multiply(use: Use) -> Operator:
    if len(use.variables) != 1:
        raise UnsupportedError("a product of two variable tensors is not affine")
    constant = next(name for name in use.proto.input if name not in use.variables)
    return Scale(_broadcast(use, constant), "multiply")


def _divide(use: Use) -> Operator:
    use.first_is_variable()
    constant = use.constant(1)
    if not np.all(use.values[constant]):
        raise UnsupportedError("it divides by zero")
    return Scale(_broadcast(use, constant), "divide")


def _window(use: Use, kernel: Shape) -> Window:
    rank = len(kernel)
    if rank not in {1, 2} or len(use.shape) != rank + 1:
        raise UnsupportedError("only one and two spatial axes are supported")
    return Window(
        kernel,
        tuple(use.attribute("strides", (1,) * rank)),
        tuple(use.attribute("dilations", (1,) * rank)),
        tuple(use.attribute("pads", (0,) * (2 * rank))),
        str(use.attribute("auto_pad", "NOTSET")),
    )


def _conv(use: Use) -> Operator:
    use.first_is_variable()
    weight = use.constant(1)
    window = _window(use, use.values[weight].shape[2:])
    return Conv(weight, use.constant(2), window, int(use.attribute("group", 1)))


def _average_pool(use: Use) -> Operator:
    if use.attribute("ceil_mode", 0):
        raise UnsupportedError("ceil_mode = 1")
    window = _window(use, tuple(use.attribute("kernel_shape", ())))
    return AveragePool(window, bool(use.attribute("count_include_pad", 0)))


def _batch_normalization(use: Use) -> Operator:
    use.first_is_variable()
    if use.attribute("training_mode", 0) or len([n for n in use.proto.output if n]) > 1:
        raise UnsupportedError("it is in training mode; export the model in evaluation mode")
    scale, bias, mean, variance = (use.constant(i) for i in range(1, 5))
    epsilon = float(use.attribute("epsilon", 1e-5))
    return BatchNormalization(scale, bias, mean, variance, epsilon)


def _sized(use: Use, shape: list[int]) -> Operator:
    """Read a full target shape, batch axis first, where a batch of one is re-shaped."""
    size = int(np.prod(use.shape, dtype=np.int64))
    filled = [
        (1, *use.shape)[i] if n == 0 and i <= len(use.shape) else n for i, n in enumerate(shape)
    ]
    if filled.count(-1) == 1:
        known = int(np.prod([n for n in filled if n != -1], dtype=np.int64))
        filled[filled.index(-1)] = size // max(known, 1)
    if not filled or filled[0] != 1 or int(np.prod(filled, dtype=np.int64)) != size:
        raise UnsupportedError(f"re-shaping to {shape} mixes the samples of a batch")
    return Reshape(tuple(filled[1:]))


def _flatten(use: Use) -> Operator:
    axis = int(use.attribute("axis", 1))
    if axis not in {1, -len(use.shape)}:
        raise UnsupportedError(
            f"axis = {axis} mixes the samples of a batch; only axis = 1 is supported"
        )
    return Reshape((int(np.prod(use.shape, dtype=np.int64)),))


def _reshape(use: Use) -> Operator:
    use.first_is_variable()
    if use.attribute("allowzero", 0):
        raise UnsupportedError("allowzero = 1")
    return _sized(use, use.integers(1, "shape") or [])


def _squeeze(use: Use) -> Operator:
    full = (1, *use.shape)
    axes = use.integers(1, "axes")
    if axes is None:
        axes = [i for i, n in enumerate(full) if n == 1 and i > 0]
    dropped = {axis % len(full) for axis in axes}
    if 0 in dropped:
        raise UnsupportedError("it drops the batch axis")
    return _sized(use, [n for i, n in enumerate(full) if i not in dropped])


def _unsqueeze(use: Use) -> Operator:
    axes = use.integers(1, "axes") or []
    rank = 1 + len(use.shape) + len(axes)
    added = {axis % rank for axis in axes}
    if 0 in added:
        raise UnsupportedError("it puts an axis before the batch axis")
    rest = iter((1, *use.shape))
    return _sized(use, [1 if i in added else next(rest) for i in range(rank)])


def _transpose(use: Use) -> Operator:
    rank = 1 + len(use.shape)
    order = tuple(int(i) for i in use.attribute("perm", range(rank)[::-1]))
    if order[0] != 0:
        raise UnsupportedError("it moves the batch axis")
    return Permute(order)


READERS: Mapping[str, Callable[[Use], Operator]] = {
    "Add": _sum(1),
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_normalization,
    "Conv": _conv,
    "Div": _divide,
    "Dropout": lambda use: Identity(),
    "Flatten": _flatten,
    "Gemm": _gemm,
    "GlobalAveragePool": lambda use: GlobalAveragePool(),
    "Identity": lambda use: Identity(),
    "MatMul": _matmul,
    "Mul": _multiply,
    "Relu": lambda use: Relu(),
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Sub": _sum(-1),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
"""Readers by ONNX operator type."""
