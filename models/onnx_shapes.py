"""Readers of ONNX's operators that reshape, move or sum over axes."""

from __future__ import annotations

import math

from leaveout.models.onnx_use import BATCH, UnsupportedError, Use
from leaveout.models.operators import Operator
from leaveout.models.operators.shape import Permute, Reshape


def flatten(use: Use) -> Operator:
    """Read Flatten."""
    axis = int(use.attribute("axis", 1))
    if axis != 1 and (use.opset < 11 or axis != -len(use.shape)):
        raise UnsupportedError(
            f"axis = {axis} mixes the samples of a batch; flatten from axis = 1 on"
        )
    return Reshape((math.prod(use.shape),))


def reshape(use: Use) -> Operator:
    """Read Reshape."""
    listed = use.integers(1, "shape") or []
    # The size of the batch, computed of a shape: 0 in front keeps it too.
    shape = [0 if n == BATCH else n for n in listed[:1]] + listed[1:]
    if shape in ([0], [-1]) and math.prod(use.shape) == 1:
        return Reshape(())
    mixes = UnsupportedError(
        f"re-shaping to {shape} mixes the samples of a batch; keep its axis in front, as "
        "x.reshape(len(x), -1) does"
    )
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


def squeeze(use: Use) -> Operator:
    """Read Squeeze."""
    axes = use.integers(1, "axes")
    if not axes:
        raise UnsupportedError("without axes it drops the batch axis of a batch of one; name them")
    dropped = use.axes(axes, 1 + len(use.shape))
    if any(use.shape[axis - 1] != 1 for axis in dropped):
        raise UnsupportedError(f"axes = {axes} of {['batch', *use.shape]} are not all of size 1")
    return Reshape(tuple(n for i, n in enumerate(use.shape, 1) if i not in dropped))


def unsqueeze(use: Use) -> Operator:
    """Read Unsqueeze."""
    axes = use.integers(1, "axes") or []
    rank = 1 + len(use.shape) + len(axes)
    added = use.axes(axes, rank)
    rest = iter(use.shape)
    return Reshape(tuple(1 if i in added else next(rest) for i in range(1, rank)))


def transpose(use: Use) -> Operator:
    """Read Transpose."""
    order = tuple(int(i) for i in use.attribute("perm", range(1 + len(use.shape))[::-1]))
    if order[:1] != (0,):
        raise UnsupportedError("it moves the batch axis; keep it in front (batch_first=True)")
    return Permute(order)
