"""Folding of constant nodes by onnxruntime."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from leaveout.errors import ModelError
from leaveout.models.onnx_use import BATCH, UnsupportedError
from leaveout.models.replay import one_line, session

_MOVES = {
    *("Cast", "Concat", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze"),
    "Unsqueeze",
}
"""Operators that only move whole numbers."""

_ARITHMETIC = {
    *("Abs", "Add", "And", "Ceil", "Div", "Equal", "Exp", "Floor", "Greater", "GreaterOrEqual"),
    *("Less", "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pow"),
    *("Reciprocal", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "Round"),
    *("Sign", "Sqrt", "Sub", "Where"),
}

FOLDED = {
    *_MOVES,
    *_ARITHMETIC,
    *("ConstantOfShape", "Expand", "GatherElements", "GatherND", "NonZero", "Pad", "Range"),
    *("ScatterND", "Shape", "Size", "Tile", "Transpose"),
}
"""Operators that may compute on constants: of what they are given alone, the same at every run."""

_LARGEST = 2**26
"""Numbers that a constant may have."""
_IR = 8
"""Version of the file format that single nodes are run in."""
_WHOLE = {onnx.TensorProto.INT64, onnx.TensorProto.INT32}


def fold_node(
    proto: onnx.NodeProto, values: Mapping[str, NDArray[Any]], opset: int, where: str
) -> list[NDArray[Any]]:
    """Compute a node whose inputs are constants, none of them parameters."""
    given = {name: values[name] for name in proto.input if name}
    if any(_holds_batch(value) for value in given.values()):
        casts = any(each.name == "to" and each.i not in _WHOLE for each in proto.attribute)
        if proto.op_type not in _MOVES or casts:
            raise UnsupportedError(
                "it computes with the size of the batch; export with a fixed batch of 1 (without "
                "dynamic axes)"
            )
    if _output_size_bound(proto.op_type, list(given.values())) > _LARGEST:
        raise UnsupportedError(
            f"it computes more than {_LARGEST:,} numbers of constants; simplify the model"
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
    try:
        found: list[NDArray[Any]] = session(model, where, optimised=False).run(None, given)
    except ModelError as error:
        raise UnsupportedError(f"on constants: {str(error).removeprefix(f'{where}: ')}") from None
    except Exception as error:
        raise UnsupportedError(f"onnxruntime cannot compute it: {one_line(error)}") from None
    for value in found:
        if not isinstance(value, np.ndarray):
            raise UnsupportedError("it gives no tensor; simplify the model before exporting it")
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise UnsupportedError("it gives NaN or infinity; simplify the model")
    return found


def _output_size_bound(kind: str, given: list[NDArray[Any]]) -> int:
    """Return a bound on how many numbers a node makes, before running it."""
    if not given:
        return 0
    first, listed = given[0], given[min(1, len(given) - 1)].reshape(-1)
    if kind in {"ConstantOfShape", "Expand", "Tile"} and listed.dtype.kind == "i":
        # Sizes, or repetitions.
        own = 1 if kind == "ConstantOfShape" else first.size
        return own * math.prod(max(1, abs(int(n))) for n in listed[:64])
    if kind == "Pad" and listed.dtype.kind == "i":
        added = sum(abs(int(n)) for n in listed[:64])
        return math.prod(n + added for n in first.shape)
    if kind == "Range" and len(given) == 3 and all(value.size == 1 for value in given):
        start, end, step = (float(value.reshape(-1)[0]) for value in given)
        return int(min(abs((end - start) / step), 2.0**62)) if step else 0
    shapes = [value.shape for value in given]
    try:
        wide = math.prod(np.broadcast_shapes(*shapes)) if kind in _ARITHMETIC else 0
    except ValueError:
        wide = 0
    # What is picked may be picked many times over.
    picked = first.size * given[-1].size if kind in {"Gather", "GatherND"} else 0
    return max(wide, picked, sum(value.size for value in given))


def _holds_batch(value: NDArray[Any]) -> bool:
    return value.dtype.kind == "i" and bool((value == BATCH).any())
