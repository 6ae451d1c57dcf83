"""Data without a batch axis, and nodes that add or drop one."""

from __future__ import annotations

import math
from collections.abc import Set

from leaveout.models.onnx_use import UnsupportedError, Use
from leaveout.models.operators import Operator
from leaveout.models.operators.shape import Identity, Reshape

_ALIKE = frozenset(
    [
        "Abs",
        "Add",
        "Cast",
        "Clip",
        "Div",
        "Dropout",
        "HardSigmoid",
        "Identity",
        "LeakyRelu",
        "LogSoftmax",
        "MatMul",
        "Max",
        "Min",
        "Mul",
        "Neg",
        "PRelu",
        "Relu",
        "Shape",
        "Sigmoid",
        "Size",
        "Softmax",
        "Sub",
        "Sum",
    ]
)
"""Operators that mean the same for each sample without a batch axis."""

_CURE = "export the model with a batch axis: a sample of shape [1, ...]"


def batch_axis(use: Use, bare: Set[str]) -> Operator | None:
    """Return the operator of a node that adds or drops a batch axis of size one."""
    if not use.variables or not use.alone:
        return None
    kind = use.proto.op_type
    if not use.bare:
        return _read_batch_drop(use, kind)
    if not all(name in bare for name in use.variables):
        raise UnsupportedError(f"it joins data with and without a batch axis; {_CURE}")
    width = math.prod(use.shape)
    if kind == "Unsqueeze" and use.integers(1, "axes") in ([0], [-2]):
        return Identity()
    if kind == "Reshape" and use.integers(1, "shape") in ([1, width], [1, -1]):
        return Identity()
    if kind not in _ALIKE:
        raise UnsupportedError(f"its data has no batch axis; {_CURE}")
    fixed = [name for name in use.proto.input if name and name not in use.shapes]
    if kind != "MatMul" and any(use.values[name].ndim > len(use.shape) for name in fixed):
        raise UnsupportedError(f"a constant adds an axis to data without a batch axis; {_CURE}")
    return None


def _read_batch_drop(use: Use, kind: str) -> Operator | None:
    """Return the operator of a node that drops a flat sample's batch axis."""
    if len(use.shape) == 1 and kind == "Squeeze" and use.integers(1, "axes") == [0]:
        return Identity()
    flat = ([-1], [math.prod(use.shape)])
    if kind == "Reshape" and use.integers(1, "shape") in flat:
        return Reshape((math.prod(use.shape),))
    return None
