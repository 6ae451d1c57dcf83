"""Nodes run alone in onnxruntime: on constants, or on numbered samples to see where numbers go."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from leaveout.errors import ModelError
from leaveout.models.onnx.operators import Operator
from leaveout.models.onnx.operators.shape import Pick
from leaveout.models.onnx.use import BATCH, BatchUsedError, UnsupportedError, Use
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
"""Operators that can be evaluated on constants: their results depend only on their inputs."""

_LARGEST = 2**26  # most numbers of a constant
_IR = 8  # IR version of the models that run single nodes
_WHOLE = {onnx.TensorProto.INT64, onnx.TensorProto.INT32}


def fold_node(
    proto: onnx.NodeProto, values: Mapping[str, NDArray[Any]], opset: int, where: str
) -> list[NDArray[Any]]:
    """Compute a node whose inputs are constants, none of them parameters."""
    given = {name: values[name] for name in proto.input if name}
    if any(_holds_batch(value) for value in given.values()):
        casts = any(each.name == "to" and each.i not in _WHOLE for each in proto.attribute)
        if proto.op_type not in _MOVES or casts:
            raise BatchUsedError(
                "it computes with the batch size; export with a fixed batch of 1 (without "
                "dynamic axes)"
            )
    if _output_size_bound(proto.op_type, list(given.values())) > _LARGEST:
        raise UnsupportedError(
            f"it computes more than {_LARGEST:,} constant numbers; simplify the model"
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
            raise UnsupportedError(
                "its result is not a tensor; simplify the model before exporting it"
            )
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise UnsupportedError("its result contains NaN or infinity; simplify the model")
    return found


def _output_size_bound(kind: str, given: list[NDArray[Any]]) -> int:
    """Return a bound of the size of a node's output, before running it."""
    if not given:
        return 0
    first, listed = given[0], given[min(1, len(given) - 1)].reshape(-1)
    if kind in {"ConstantOfShape", "Expand", "Tile"} and listed.dtype.kind == "i":
        # Sizes or repeat counts.
        own = 1 if kind == "ConstantOfShape" else first.size
        return own * math.prod(max(1, abs(int(n))) for n in listed[:64])
    if kind in {"Resize", "Upsample"}:
        # Sizes, or factors of sizes.
        own = first.size if given[-1].dtype.kind == "f" else 1
        return int(min(own * float(np.prod(given[-1].astype(float))), 2.0**62))
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
    # Elements may be selected repeatedly.
    picked = first.size * given[-1].size if kind in {"Gather", "GatherND"} else 0
    return max(wide, picked, sum(value.size for value in given))


def _holds_batch(value: NDArray[Any]) -> bool:
    return value.dtype.kind == "i" and bool((value == BATCH).any())


_MOST = 2**22  # most numbers of a sample: float32 counts those of three exactly


def moves(use: Use) -> Operator:
    """Read a node that copies numbers within each sample, by running it on numbered samples."""
    if math.prod(use.shape) > _MOST:
        raise UnsupportedError(f"it moves more than {_MOST:,} numbers; use smaller images")
    # Of two sizes of a batch, one may happen to be what the node makes of any.
    first, *others = [_copies(use, count) for count in ([1] if use.alone or use.bare else [2, 3])]
    if first is None or any(other != first for other in others):
        raise UnsupportedError(
            "it does more than copy numbers within each sample; do that before the network"
        )
    return first


def _copies(use: Use, count: int) -> Pick | None:
    """Return what a node copies within each of some samples, if it does no more."""
    width = math.prod(use.shape)
    marks = np.arange(1, count * width + 1, dtype=np.float32)
    given = {}
    for name in filter(None, use.proto.input):
        if name in use.shapes:
            given[name] = marks.reshape(*([] if use.bare else [count]), *use.shape)
            continue
        value = given[name] = use.values[name]
        if value.dtype.kind == "i":
            given[name] = np.where(value == BATCH, count, value)
        elif np.isnan(value).any():
            raise UnsupportedError(f"input {name!r} must be a constant, not a parameter")
    (found,) = fold_node(use.proto, given, use.opset, "")
    if not found.size or not (use.bare or found.shape[:1] == (count,)):
        return None
    rows = found.reshape(1 if use.bare else count, -1) - np.float64(1)
    rows -= width * np.arange(len(rows))[:, None]
    places = rows[0].astype(np.int64)
    if not (rows == places).all() or places.min() < 0 or places.max() >= width:
        return None
    return Pick(tuple(places.tolist()), found.shape[not use.bare :])
