"""Nodes whose output is a constant: new, or copied from another one."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto, helper

from leaveout.models.onnx.operators import Shape
from leaveout.models.onnx.operators.shape import Permute, Reshape
from leaveout.models.onnx.rewrites.base import Draft, Ending, Rewrite
from leaveout.models.onnx.use import (
    ANY,
    BATCH,
    FLAG,
    BatchUsedError,
    UnsupportedError,
    Use,
    accepted_values,
    only,
)
from leaveout.models.onnx.values import constant_value


class ConstantNode(Rewrite):
    """Constant, as written by tf2onnx and torch for numbers in code: its value."""

    operator = "Constant"
    inputs = ()
    attributes = accepted_values(
        sparse_value=ANY,
        value=ANY,
        value_float=ANY,
        value_floats=ANY,
        value_int=ANY,
        value_ints=ANY,
        value_string=ANY,
        value_strings=ANY,
    )

    def visit(self, use: Use, draft: Draft) -> str:
        return draft.constant(constant_value(use.proto))


class ConstantCopy(Rewrite):
    """Identity of a constant or parameter, as written by torch for shared parameters."""

    operator = "Identity"
    inputs = ("constant",)

    def visit(self, use: Use, draft: Draft) -> str:
        return use.constant(0)


class ConstantSpread(Rewrite):
    """Expand or Tile of a constant for each sample, as written by torch for a token of classes."""

    inputs = ("constant", "integers")

    def __init__(self, operator: str) -> None:
        self.operator = operator  # type: ignore[misc]

    def visit(self, use: Use, draft: Draft) -> str | None:
        sizes = use.integers(1, "") or []
        if BATCH in sizes:
            raise BatchUsedError("it repeats a constant for each sample; export a batch of 1")
        if self.operator == "Tile":
            return use.constant(0) if set(sizes) <= {1} else None
        return _spread(use, draft, use.constant(0), tuple(sizes))


class ConstantSum(Rewrite):
    """Add of zeros to a constant, as written by torch for a token that is repeated."""

    operator = "Add"
    inputs = ("constant", "constant")

    def visit(self, use: Use, draft: Draft) -> str | None:
        for zeros, other in (use.proto.input, use.proto.input[::-1]):
            if (use.values[zeros] == 0).all():
                return _spread(use, draft, other, use.values[zeros].shape)
        return None


def _spread(use: Use, draft: Draft, name: str, sizes: Shape) -> str | None:
    """Return a float32 constant that is broadcast, but not repeated; None for others."""
    source = use.values[name]
    try:
        shape = np.broadcast_shapes(source.shape, sizes)
    except ValueError:
        return None
    if source.dtype != np.float32 or math.prod(shape) != source.size:
        return None
    return name if shape == source.shape else draft.move(name, Reshape(shape))


class ConstantTranspose(Rewrite):
    """Transpose of a constant, as written by torch and Keras for weights; only a permutation."""

    operator = "Transpose"
    inputs = ("constant",)
    attributes = accepted_values(perm=ANY)

    def visit(self, use: Use, draft: Draft) -> str:
        source = use.values[use.constant(0)]
        order = tuple(int(i) for i in use.attribute("perm", range(source.ndim)[::-1]))
        if sorted(order) != list(range(source.ndim)):
            raise UnsupportedError(f"perm = {list(order)} is not an order of {source.ndim} axes")
        if source.dtype == np.float32:
            return draft.move(use.constant(0), Permute((0, *(axis + 1 for axis in order))))
        return draft.constant(source.transpose(order))


class ConstantReshape(Rewrite):
    """Reshape of a constant, as written by tf2onnx for biases; numbers keep their order."""

    inputs = ("constant", "integers")
    attributes = accepted_values(allowzero=FLAG, axes=ANY, axis=ANY, shape=ANY)

    def __init__(self, operator: str) -> None:
        self.operator = operator  # type: ignore[misc]

    def visit(self, use: Use, draft: Draft) -> str | None:
        name = use.constant(0)
        source = use.values[name]
        if use.variables or source.dtype != np.float32:
            return None
        shape = RESHAPED[self.operator](use, source.shape)
        if math.prod(shape) != source.size:
            raise UnsupportedError(f"{list(source.shape)} cannot be reshaped to {shape}")
        return draft.move(name, Reshape(tuple(shape)))


def _reshape_sizes(use: Use, shape: Shape) -> list[int]:
    asked = use.integers(1, "shape") or []
    if min(asked, default=0) < -1 or asked.count(-1) > 1:
        raise UnsupportedError(f"{asked} is not a shape")
    if not use.attribute("allowzero", 0):
        if any(n == 0 and i >= len(shape) for i, n in enumerate(asked)):
            raise UnsupportedError(f"a 0 in {asked} has no axis to copy its size from")
        asked = [shape[i] if n == 0 else n for i, n in enumerate(asked)]
    known = math.prod(n for n in asked if n != -1)
    return [math.prod(shape) // max(1, known) if n == -1 else n for n in asked]


def _squeeze_sizes(use: Use, shape: Shape) -> list[int]:
    asked = use.integers(1, "axes")
    axes = range(len(shape)) if asked is None else [axis % max(1, len(shape)) for axis in asked]
    if asked is not None and any(shape[axis] != 1 for axis in axes):
        raise UnsupportedError(f"axes = {asked} of {list(shape)} are not all of size 1")
    return [n for i, n in enumerate(shape) if n != 1 or i not in axes]


def _unsqueeze_sizes(use: Use, shape: Shape) -> list[int]:
    asked = use.integers(1, "axes") or []
    rank = len(shape) + len(asked)
    axes = {axis % rank for axis in asked} if rank else set()
    if len(axes) != len(asked):
        raise UnsupportedError(f"axes = {asked} contains an axis twice")
    rest = iter(shape)
    return [1 if i in axes else next(rest) for i in range(rank)]


def _flatten_sizes(use: Use, shape: Shape) -> list[int]:
    axis = int(use.attribute("axis", 1))
    axis += len(shape) if axis < 0 else 0
    return [math.prod(shape[:axis]), math.prod(shape[axis:])]


RESHAPED = {
    "Flatten": _flatten_sizes,
    "Reshape": _reshape_sizes,
    "Squeeze": _squeeze_sizes,
    "Unsqueeze": _unsqueeze_sizes,
}


class ShapeOf(Rewrite):
    """Shape of the network's data, as written by torch for ``x.size(0)``: fixed sizes.

    `BATCH` stands for a batch size that is not fixed.
    """

    operator = "Shape"
    attributes = accepted_values(start=ANY, end=ANY)

    def visit(self, use: Use, draft: Draft) -> str:
        batch = [] if use.bare else [1 if use.alone else BATCH]
        sizes = [*batch, *use.shape]
        first, end = int(use.attribute("start", 0)), int(use.attribute("end", len(sizes)))
        return draft.whole(sizes[slice(first, end)])


class SizeOf(Rewrite):
    """Size of the network's data for a batch of one sample."""

    operator = "Size"

    def visit(self, use: Use, draft: Draft) -> str:
        if not (use.alone or use.bare):
            raise UnsupportedError("it counts the samples of a batch; export with a batch of 1")
        return draft.whole(math.prod(use.shape))


class CastToItself(Rewrite):
    """Cast to the same type, as written by torch for ``x.float()``: an exact copy."""

    operator = "Cast"
    inputs = ("any",)
    attributes = accepted_values(to=ANY, saturate=FLAG)

    def visit(self, use: Use, draft: Draft) -> str | None:
        (name,) = use.proto.input
        here = np.dtype(np.float32) if name in use.shapes else use.values[name].dtype
        if use.attribute("to", 0) != helper.np_dtype_to_tensor_dtype(here):
            if not use.variables:
                return None
            asked = TensorProto.DataType.Name(use.attribute("to", 0)).lower()
            raise UnsupportedError(
                f"it casts {here} to {asked}; only a cast to the same type is exact: export a "
                "model that computes in float32 throughout (model.float())"
            )
        return name


class ReshapeWithoutZeros(Rewrite):
    """Reshape with ``allowzero`` but no size 0, as written by torch's exporter."""

    operator = "Reshape"
    inputs = ("data", "integers")
    attributes = accepted_values(allowzero=only(1))

    def visit(self, use: Use, draft: Draft) -> str | None:
        if not use.attribute("allowzero", 0) or 0 in (use.integers(1, "shape") or [0]):
            return None
        return draft("Reshape", *use.proto.input)


class Negation(Rewrite):
    """Neg, as written by torch for ``-x``: Mul by -1, exact but counted as one rounding."""

    operator = "Neg"

    def visit(self, use: Use, draft: Draft) -> str:
        return draft("Mul", use.variables[0], draft.constant(-1.0))


_BEFORE = (
    "labels and confidences use the scores before it, and a confidence is a difference of two "
    "such scores, not a probability"
)
_LAST = "supported only as the last operator, over the labels; remove it, and train with ReLU"


class FinalSoftmax(Rewrite):
    """Final Softmax over the labels, as written by every exporter, or LogSoftmax; omitted.

    It keeps the order of the scores, except for near-ties in float32 (`docs/soundness.md`).
    """

    attributes = accepted_values(axis=ANY)

    def __init__(self, operator: str) -> None:
        self.operator = operator  # type: ignore[misc]

    def visit(self, use: Use, draft: Draft) -> Ending | None:
        # Before opset 13 all axes from `axis` on form one: no difference for [batch, labels].
        axis = int(use.attribute("axis", 1 if use.opset < 13 else -1))
        over = {0, -1} if use.bare else {1, -1}
        last = use.proto.output[0] in draft.last.same
        if not last or len(use.shape) != 1 or use.shape[0] < 2 or axis not in over:
            if self.operator == "Softmax":
                return None
            raise UnsupportedError(_LAST)
        return Ending(use.variables[0], f"the final {self.operator} is dropped: {_BEFORE}")


class FinalSigmoid(Rewrite):
    """Final Sigmoid of one number (two labels), or of one per label; omitted.

    It is increasing, so it preserves the order, and it is 0.5 where the number is 0.
    """

    operator = "Sigmoid"

    def visit(self, use: Use, draft: Draft) -> Ending | None:
        output, last = use.proto.output[0], draft.last
        single = math.prod(use.shape) == 1
        if output not in (last.number if single else last.same):
            return None
        return Ending(use.variables[0], f"the final Sigmoid is dropped: {_BEFORE}")


class FinalArgMax(Rewrite):
    """Final ArgMax over the labels; omitted, as the label is that of the largest score."""

    operator = "ArgMax"
    attributes = accepted_values(axis=ANY, keepdims=FLAG, select_last_index=only(0))

    def visit(self, use: Use, draft: Draft) -> Ending:
        over = {0, -1} if use.bare else {1, -1}
        last = use.proto.output[0] in draft.last.number
        if not last or len(use.shape) != 1 or use.attribute("axis", 0) not in over:
            raise UnsupportedError(
                "it is discontinuous, and supported only as the last operator, over the labels; "
                "export the scores before it"
            )
        return Ending(
            use.variables[0], "the final ArgMax is dropped: labels use the scores before it"
        )
