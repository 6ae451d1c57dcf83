"""What nodes compute of constants alone, by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from leaveout.errors import ModelError
from leaveout.models.onnx_use import BATCH, UnsupportedError
from leaveout.models.replay import one_line, session

__all__ = ["FOLDED", "folded"]

FOLDED = frozenset(
    [
        "Abs",
        "Add",
        "And",
        "Cast",
        "Ceil",
        "Concat",
        "ConstantOfShape",
        "Div",
        "Equal",
        "Exp",
        "Expand",
        "EyeLike",
        "Flatten",
        "Floor",
        "Gather",
        "GatherElements",
        "GatherND",
        "Greater",
        "GreaterOrEqual",
        "Identity",
        "Less",
        "LessOrEqual",
        "Log",
        "MatMul",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "NonZero",
        "Not",
        "Or",
        "Pad",
        "Pow",
        "Range",
        "Reciprocal",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "Reshape",
        "Round",
        "ScatterND",
        "Shape",
        "Sign",
        "Size",
        "Slice",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Tile",
        "Transpose",
        "Trilu",
        "Unsqueeze",
        "Where",
    ]
)
"""Operators that may compute on constants: of what they are given alone, the same at every run."""

_MOVES = frozenset(
    [
        "Cast",
        "Concat",
        "Flatten",
        "Gather",
        "Identity",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Unsqueeze",
    ]
)
"""Those of them that only move whole numbers."""

_LARGEST = 2**26
"""Numbers that a constant may have."""
_IR = 8
"""Version of the file format that single nodes are run in."""


def folded(
    proto: onnx.NodeProto, values: Mapping[str, NDArray[Any]], opset: int, where: str
) -> list[NDArray[Any]]:
    """Compute a node of constants that are no parameters.

    Parameters
    ----------
    proto : onnx.NodeProto
        Of an operator of `FOLDED`.
    values : mapping of str to ndarray
        Of its inputs.
    opset : int
    where : str
        For messages.

    Returns
    -------
    list of ndarray
        Of each output that has a name, in order.

    Raises
    ------
    UnsupportedError
        If it computes with the size of the batch, or cannot be run.
    """
    given = {name: values[name] for name in proto.input if name}
    if any(_holds_batch(value) for value in given.values()):
        asked = {each.name: each for each in proto.attribute}
        casts = "to" in asked and asked["to"].i not in {
            onnx.TensorProto.INT64,
            onnx.TensorProto.INT32,
        }
        if proto.op_type not in _MOVES or casts:
            raise UnsupportedError(
                "it computes with the size of the batch; export with a fixed batch of 1 (without "
                "dynamic axes)"
            )
    graph = helper.make_graph(
        [proto],
        "constants",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in given.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in proto.output if name],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=_IR)
    if any(name and name in given for name in proto.output):
        raise UnsupportedError("it gives what it reads")
    if sum(value.size for value in given.values()) > _LARGEST:
        raise UnsupportedError(f"it computes on more than {_LARGEST:,} constants")
    try:
        found: list[NDArray[Any]] = session(model, where, optimised=False).run(None, given)
    except ModelError as error:
        raise UnsupportedError(f"on constants: {str(error).removeprefix(f'{where}: ')}") from None
    except Exception as error:
        raise UnsupportedError(f"onnxruntime cannot compute it: {one_line(error)}") from None
    for value in found:
        if not isinstance(value, np.ndarray) or value.size > _LARGEST:
            raise UnsupportedError(f"it gives more than {_LARGEST:,} numbers, or none")
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise UnsupportedError("it gives NaN or infinity of constants")
    return found


def _holds_batch(value: NDArray[Any]) -> bool:
    return value.dtype.kind == "i" and bool((value == BATCH).any())
