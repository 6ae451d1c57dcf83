"""The ONNX operators that are modelled: what each of them accepts, and how it is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray

from leaveout.models.graph import Join
from leaveout.models.onnx_attributes import (
    ANY,
    AUTO_PAD,
    FINITE,
    FLAG,
    NOT_NEGATIVE,
    PADS,
    POSITIVE,
    SIZES,
    Accepted,
    only,
)
from leaveout.models.operators import Operator, Relu, Shape
from leaveout.models.operators.dense import Gemm, MatMul
from leaveout.models.operators.elementwise import BatchNormalization, Scale, Shift
from leaveout.models.operators.shape import Identity, Permute, Reshape
from leaveout.models.operators.window import AveragePool, Conv, GlobalAveragePool, Window

__all__ = [
    "OPERATORS",
    "OPSETS",
    "Kind",
    "Modelled",
    "UnsupportedError",
    "Use",
    "attributes_of",
    "why_not",
]

OPSETS = range(7, 24)
"""Versions of ONNX's operator set whose operators are modelled."""

Kind = Literal["data", "floats", "integers", "truth", "constant", "any"]
"""Of an input: the network's data or a float32 constant; a constant of float32, int64 or bool; a
constant of any of these types; the network's data or any constant."""

_DATA = ("data", "any")
_TYPES: Mapping[str, str] = {
    "data": "float32",
    "floats": "float32",
    "integers": "int64",
    "truth": "bool",
}


class UnsupportedError(Exception):
    """Why a node is refused; the reader of the file adds which one."""


def attributes_of(proto: onnx.NodeProto) -> dict[str, Any]:
    """Values of the attributes that a node has; floats are those of float32, as ONNX keeps them."""
    found = {}
    for attribute in proto.attribute:
        if attribute.ref_attr_name:
            raise UnsupportedError(f"its attribute {attribute.name!r} refers to another one")
        value = onnx.helper.get_attribute_value(attribute)
        text = isinstance(value, bytes)
        found[attribute.name] = value.decode(errors="replace") if text else value
    return found


@dataclass(frozen=True, eq=False)
class Use:
    """A node as its reader sees it.

    Attributes
    ----------
    proto : onnx.NodeProto
        Already checked against ONNX's schema of its operator.
    opset : int
    shapes : mapping of str to tuple of int
        Shape of one sample of each variable tensor.
    values : mapping of str to ndarray
        Values of the constant tensors; NaN where they are parameters, which differ over members.
    alone : bool
        Whether the model takes one sample at a time, so that the batch axis is 1.
    """

    proto: onnx.NodeProto
    opset: int
    shapes: Mapping[str, Shape]
    values: Mapping[str, NDArray[Any]]
    alone: bool

    @property
    def variables(self) -> tuple[str, ...]:
        """Inputs that depend on the network's input."""
        return tuple(name for name in self.proto.input if name in self.shapes)

    def attribute(self, name: str, default: Any) -> Any:
        """Value of an attribute, or ``default``."""
        return attributes_of(self.proto).get(name, default)

    def constant(self, position: int) -> str:
        """Name of the constant at ``position``; empty where absent."""
        given = self.proto.input
        return str(given[position]) if position < len(given) else ""

    def integers(self, position: int, attribute: str) -> list[int] | None:
        """Integers given as an input (newer opsets) or as an attribute (older ones)."""
        name = self.constant(position)
        if not name:
            listed = self.attribute(attribute, None)
            return None if listed is None else [int(i) for i in listed]
        if self.values[name].ndim != 1:
            raise UnsupportedError(f"input {position} ({name!r}) must be a list of integers")
        return [int(i) for i in self.values[name]]

    @property
    def shape(self) -> Shape:
        """Shape of one sample of the first variable input."""
        return self.shapes[self.variables[0]]

    def axes(self, listed: list[int], rank: int) -> set[int]:
        """Positions of some axes among ``rank``; the batch axis may not be one of them."""
        if any(not -rank <= axis < rank for axis in listed):
            raise UnsupportedError(f"axes = {listed} of a tensor of {rank} axes")
        if self.opset < 11 and min(listed, default=0) < 0:
            raise UnsupportedError(f"axes = {listed}; opset {self.opset} counts them from 0")
        found = {axis % rank for axis in listed}
        if len(found) != len(listed):
            raise UnsupportedError(f"axes = {listed} names an axis twice")
        if 0 in found:
            raise UnsupportedError(f"axes = {listed} holds the batch axis")
        return found


@dataclass(frozen=True)
class Modelled:
    """One ONNX operator.

    Attributes
    ----------
    read : callable
        From a node to our operator.
    inputs : tuple of str
        Kind of each input it may have; a node with more is refused. Which may be left out is
        ONNX's schema's to say.
    attributes : mapping of str to Accepted
        A node with any other attribute is refused.
    trains : bool
        Whether more than one output means that the node is in training mode.
    """

    read: Callable[[Use], Operator]
    inputs: tuple[Kind, ...] = ("data",)
    attributes: Mapping[str, Accepted] = field(default_factory=lambda: MappingProxyType({}))
    trains: bool = False

    def operator(self, use: Use) -> Operator:
        """Read a node of this operator.

        Raises
        ------
        UnsupportedError
            If it has an attribute, an input or a value of one that is not modelled.
        """
        why = why_not(use, self.inputs, self.attributes)
        if why:
            raise UnsupportedError(why)
        if self.trains and len([name for name in use.proto.output if name]) > 1:
            raise UnsupportedError(_TRAINING)
        return self.read(use)


def why_not(use: Use, inputs: tuple[Kind, ...], attributes: Mapping[str, Accepted]) -> str:
    """Tell what of a node's attributes and inputs is not modelled; empty if everything is.

    Parameters
    ----------
    use : Use
    inputs, attributes
        As `Modelled` has them.
    """
    for name, value in attributes_of(use.proto).items():
        if name not in attributes:
            return f"its attribute {name!r} is not supported"
        if not attributes[name].holds(value):
            return f"{name} = {value}: {attributes[name].expected}"
    if len(use.proto.input) > len(inputs):
        return f"only its first {len(inputs)} inputs are supported"
    for i, (name, kind) in enumerate(zip(use.proto.input, inputs, strict=False)):
        if name in use.shapes and kind not in _DATA:
            return f"input {i} ({name!r}) must be a constant"
        expected = _TYPES.get(kind)
        if name and name not in use.shapes and expected not in {None, use.values[name].dtype.name}:
            return f"input {i} ({name!r}) holds {use.values[name].dtype}, expected {expected}"
    if inputs.count("data") == 1 and use.variables != (use.proto.input[0],):
        return "only its first input may depend on the network's input"
    return ""


_TRAINING = "it is in training mode; export the model in evaluation mode"


def _gemm(use: Use) -> Operator:
    return Gemm(
        use.constant(1),
        use.constant(2),
        float(use.attribute("alpha", 1.0)),
        float(use.attribute("beta", 1.0)),
        bool(use.attribute("transB", 0)),
    )


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
        return Shift(right, 1, sign) if use.variables == (left,) else Shift(left, sign, 1)

    return read


def _multiply(use: Use) -> Operator:
    if len(use.variables) != 1:
        raise UnsupportedError("a product of two variable tensors is not affine")
    return Scale(next(name for name in use.proto.input if name not in use.shapes), "multiply")


def _window(use: Use, kernel: Shape) -> Window:
    rank = len(kernel)
    auto_pad = str(use.attribute("auto_pad", "NOTSET"))
    if auto_pad != "NOTSET" and any(use.attribute("pads", ())):
        raise UnsupportedError(f"auto_pad = {auto_pad} beside pads")
    return Window(
        kernel,
        tuple(use.attribute("strides", (1,) * rank)),
        tuple(use.attribute("dilations", (1,) * rank)),
        tuple(use.attribute("pads", (0,) * (2 * rank))),
        auto_pad,
    )


def _conv(use: Use) -> Operator:
    weight = use.constant(1)
    kernel = tuple(use.attribute("kernel_shape", use.values[weight].shape[2:]))
    return Conv(weight, use.constant(2), _window(use, kernel), int(use.attribute("group", 1)))


def _average_pool(use: Use) -> Operator:
    if any(n != 1 for n in use.attribute("dilations", ())):
        raise UnsupportedError("dilations other than 1 are not supported")
    window = _window(use, tuple(use.attribute("kernel_shape", ())))
    return AveragePool(window, bool(use.attribute("count_include_pad", 0)))


def _batch_normalization(use: Use) -> Operator:
    epsilon = float(np.float32(use.attribute("epsilon", 1e-5)))
    scale, bias, mean, variance = (use.constant(i) for i in range(1, 5))
    return BatchNormalization(scale, bias, mean, variance, epsilon)


def _dropout(use: Use) -> Operator:
    training = use.constant(2)
    if training and use.values[training].any():
        raise UnsupportedError(_TRAINING)
    return Identity(use.constant(1))


def _flatten(use: Use) -> Operator:
    axis = int(use.attribute("axis", 1))
    if axis != 1 and (use.opset < 11 or axis != -len(use.shape)):
        raise UnsupportedError(
            f"axis = {axis} mixes the samples of a batch; only axis = 1 is supported"
        )
    return Reshape((math.prod(use.shape),))


def _reshape(use: Use) -> Operator:
    shape = use.integers(1, "shape") or []
    mixes = UnsupportedError(f"re-shaping to {shape} mixes the samples of a batch")
    if min(shape, default=0) < -1 or shape.count(-1) > 1:
        raise UnsupportedError(f"{shape} is no shape")
    if len(shape) < 2:
        raise mixes
    if any(n == 0 and i > len(use.shape) for i, n in enumerate(shape)):
        raise UnsupportedError(f"a 0 in {shape} has no axis to take its size from")
    rest = [use.shape[i] if n == 0 else n for i, n in enumerate(shape[1:])]
    if -1 in rest:
        size, known = math.prod(use.shape), math.prod(n for n in rest if n != -1)
        if not known or size % known:
            raise mixes
        rest[rest.index(-1)] = size // known
    # A 1 in front is the size of every batch only where the model takes one sample at a time.
    if shape[0] not in ({0, -1, 1} if use.alone else {0, -1}):
        raise mixes
    if math.prod(rest) != math.prod(use.shape):
        raise mixes
    return Reshape(tuple(rest))


def _squeeze(use: Use) -> Operator:
    axes = use.integers(1, "axes")
    if not axes:
        raise UnsupportedError("without axes it drops the batch axis of a batch of one; name them")
    dropped = use.axes(axes, 1 + len(use.shape))
    if any(use.shape[axis - 1] != 1 for axis in dropped):
        raise UnsupportedError(f"axes = {axes} of {['batch', *use.shape]} are not all of size 1")
    return Reshape(tuple(n for i, n in enumerate(use.shape, 1) if i not in dropped))


def _unsqueeze(use: Use) -> Operator:
    axes = use.integers(1, "axes") or []
    rank = 1 + len(use.shape) + len(axes)
    added = use.axes(axes, rank)
    rest = iter(use.shape)
    return Reshape(tuple(1 if i in added else next(rest) for i in range(1, rank)))


def _transpose(use: Use) -> Operator:
    order = tuple(int(i) for i in use.attribute("perm", range(1 + len(use.shape))[::-1]))
    if order[:1] != (0,):
        raise UnsupportedError("it moves the batch axis")
    return Permute(order)


_WINDOW = {
    "auto_pad": AUTO_PAD,
    "dilations": SIZES,
    "kernel_shape": SIZES,
    "pads": PADS,
    "strides": SIZES,
}

OPERATORS: Mapping[str, Modelled] = {
    "Add": Modelled(_sum(1), ("data", "data")),
    "AveragePool": Modelled(
        _average_pool,
        attributes={**_WINDOW, "ceil_mode": only(0), "count_include_pad": FLAG},
    ),
    "BatchNormalization": Modelled(
        _batch_normalization,
        ("data", "floats", "floats", "floats", "floats"),
        {
            "epsilon": NOT_NEGATIVE,
            "momentum": ANY,
            "spatial": only(1),
            "training_mode": Accepted(lambda found: found == 0, _TRAINING),
        },
        trains=True,
    ),
    "Conv": Modelled(_conv, ("data", "floats", "floats"), {**_WINDOW, "group": POSITIVE}),
    "Div": Modelled(lambda use: Scale(use.constant(1), "divide"), ("data", "floats")),
    "Dropout": Modelled(_dropout, ("data", "floats", "truth"), {"ratio": ANY, "seed": ANY}),
    "Flatten": Modelled(_flatten, attributes={"axis": ANY}),
    "Gemm": Modelled(
        _gemm,
        ("data", "floats", "floats"),
        {
            "alpha": FINITE,
            "beta": FINITE,
            "transA": Accepted(lambda found: found == 0, "it mixes the samples of a batch"),
            "transB": FLAG,
        },
    ),
    "GlobalAveragePool": Modelled(lambda use: GlobalAveragePool()),
    "Identity": Modelled(lambda use: Identity()),
    "MatMul": Modelled(lambda use: MatMul(use.constant(1)), ("data", "floats")),
    "Mul": Modelled(_multiply, ("data", "data")),
    "Relu": Modelled(lambda use: Relu()),
    "Reshape": Modelled(_reshape, ("data", "integers"), {"allowzero": only(0)}),
    "Squeeze": Modelled(_squeeze, ("data", "integers"), {"axes": ANY}),
    "Sub": Modelled(_sum(-1), ("data", "data")),
    "Transpose": Modelled(_transpose, attributes={"perm": ANY}),
    "Unsqueeze": Modelled(_unsqueeze, ("data", "integers"), {"axes": ANY}),
}
"""By ONNX operator type."""
