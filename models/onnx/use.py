"""A node as readers see it, and the checks before it is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import onnx
from numpy.typing import NDArray

from leaveout.models.onnx.operators import Operator, Shape


@dataclass(frozen=True)
class Accepted:
    """Supported values of an attribute, whose type was checked by ONNX's schema."""

    holds: Callable[[Any], bool]  # whether a value is supported
    expected: str  # which ones are, for messages


def only(value: Any) -> Accepted:
    """Accept one value."""
    return Accepted(lambda found: bool(found == value), f"only {value} is supported")


def accepted_values(**attributes: Accepted) -> Mapping[str, Accepted]:
    """Return the supported values of attributes, by name."""
    return MappingProxyType(attributes)


def _wholes(least: int) -> Callable[[Any], bool]:
    return lambda found: all(item >= least for item in found)


ANY = Accepted(lambda found: True, "")
"""Any value: inference does not depend on it, or the operator's reader checks it."""
FLAG = Accepted(lambda found: found in {0, 1}, "expected 0 or 1")
FINITE = Accepted(math.isfinite, "expected a finite number")
NOT_NEGATIVE = Accepted(
    lambda found: math.isfinite(found) and found >= 0, "expected a finite number of at least 0"
)
POSITIVE = Accepted(lambda found: bool(found >= 1), "expected at least 1")
SIZES = Accepted(_wholes(1), "expected numbers of at least 1")
PADS = Accepted(_wholes(0), "expected numbers of at least 0")
AUTO_PAD = Accepted(
    lambda found: found in {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"},
    "expected NOTSET, VALID, SAME_UPPER or SAME_LOWER",
)


DOMAINS = {"", "ai.onnx"}  # domain names of ONNX's own operators

OPSETS = range(7, 24)
"""Supported versions of ONNX's operator set."""

BATCH = -1_987_654_321
"""Represents the batch size among sizes computed from a shape."""

Kind = Literal["data", "floats", "integers", "truth", "constant", "any"]
"""Kinds of inputs: the network's data or a float32 constant; a constant of float32, of int64 or
int32, or of bool; a constant of any of these types; the network's data or any constant."""

_DATA = ("data", "any")
_TYPES: Mapping[str, tuple[str, ...]] = {
    "data": ("float32",),
    "floats": ("float32",),
    "integers": ("int64", "int32"),
    "truth": ("bool",),
}


class UnsupportedError(Exception):
    """The reason for refusing a node; the file's reader adds which node."""


class BatchUsedError(UnsupportedError):
    """The reason for refusing a node of a model for batches of any size, but not of one sample."""


def attributes_of(proto: onnx.NodeProto) -> dict[str, Any]:
    """Return a node's attribute values; floats are float32, as ONNX stores them."""
    found = {}
    for attribute in proto.attribute:
        if attribute.ref_attr_name:
            raise UnsupportedError(f"its attribute {attribute.name!r} refers to another attribute")
        value = onnx.helper.get_attribute_value(attribute)
        text = isinstance(value, bytes)
        found[attribute.name] = value.decode(errors="replace") if text else value
    return found


@dataclass(frozen=True, eq=False)
class Use:
    """A node as readers see it.

    Attributes
    ----------
    proto : onnx.NodeProto
        Already checked against ONNX's schema of its operator.
    opset : int
    shapes : mapping of str to tuple of int
        Shape of one sample of each variable tensor.
    values : mapping of str to ndarray
        Values of the constant tensors; NaN for parameters, which differ between members.
    alone : bool
        Whether the model takes one sample at a time, so that the batch axis is 1.
    bare : bool
        Whether its variable inputs have no batch axis.
    """

    proto: onnx.NodeProto
    opset: int
    shapes: Mapping[str, Shape]
    values: Mapping[str, NDArray[Any]]
    alone: bool
    bare: bool = False

    @property
    def variables(self) -> tuple[str, ...]:
        """Inputs that depend on the network's input."""
        return tuple(name for name in self.proto.input if name in self.shapes)

    def attribute(self, name: str, default: Any) -> Any:
        """Return the value of an attribute, or ``default``."""
        return attributes_of(self.proto).get(name, default)

    def constant(self, position: int) -> str:
        """Return the name of the constant at ``position``; empty if absent."""
        given = self.proto.input
        return str(given[position]) if position < len(given) else ""

    def integers(self, position: int, attribute: str) -> list[int] | None:
        """Return integers stored as an input (newer opsets) or an attribute (older ones)."""
        name = self.constant(position)
        if not name:
            listed = self.attribute(attribute, None)
            return None if listed is None else [int(i) for i in listed]
        if name in self.shapes:
            raise UnsupportedError(f"input {position} ({name!r}) must be a constant")
        if self.values[name].ndim != 1:
            raise UnsupportedError(f"input {position} ({name!r}) must be a list of integers")
        return [int(i) for i in self.values[name]]

    @property
    def shape(self) -> Shape:
        """Shape of one sample of the first variable input."""
        return self.shapes[self.variables[0]]

    def axis(self, listed: int) -> int:
        """Return the position of a non-batch axis of the first variable input.

        Of data without a batch axis, as if it had one.
        """
        return next(iter(self.axes([listed + (self.bare and listed >= 0)], 1 + len(self.shape))))

    def axes(self, listed: list[int], rank: int) -> set[int]:
        """Return the positions of axes among ``rank``, none of them the batch axis."""
        if any(not -rank <= axis < rank for axis in listed):
            raise UnsupportedError(f"axes = {listed} are out of range for a tensor of {rank} axes")
        found = {axis % rank for axis in listed}
        if len(found) != len(listed):
            raise UnsupportedError(f"axes = {listed} contains an axis twice")
        if 0 in found:
            raise UnsupportedError(
                f"axes = {listed} contains the batch axis; use the other axes, and export with a "
                "batch axis in front"
            )
        return found


@dataclass(frozen=True)
class SupportedOperator:
    """A supported ONNX operator."""

    read: Callable[[Use], Operator | tuple[Operator, ...]]
    inputs: tuple[Kind, ...] = ("data",)
    attributes: Mapping[str, Accepted] = field(default_factory=lambda: MappingProxyType({}))
    trains: bool = False

    def operators(self, use: Use) -> tuple[Operator, ...]:
        """Read a node of this operator, as one operator per output."""
        why = why_not(use, self.inputs, self.attributes)
        if why:
            raise UnsupportedError(why)
        if self.trains and len([name for name in use.proto.output if name]) > 1:
            raise UnsupportedError(TRAINING)
        found = self.read(use)
        return found if isinstance(found, tuple) else (found,)


def why_not(use: Use, inputs: tuple[Kind, ...], attributes: Mapping[str, Accepted]) -> str:
    """Return why a node's attributes or inputs are unsupported; empty if they are supported."""
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
        if name and name not in use.shapes and expected:
            holds = use.values[name].dtype.name
            if holds not in expected:
                also = _FLOAT32 if expected == _TYPES["data"] else ""
                return f"input {i} ({name!r}) contains {holds}, expected {expected[0]}{also}"
    if inputs.count("data") == 1 and use.variables != (use.proto.input[0],):
        return "only its first input may depend on the network's input"
    return ""


_FLOAT32 = ": export a float32 model (model.float())"
TRAINING = "it is in training mode; export the model in evaluation mode"
