"""Readers of ONNX's Slice, Gather, Split, Pad and reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from leaveout.models.onnx_use import UnsupportedError, Use
from leaveout.models.operators import Operator
from leaveout.models.operators.moving import Place, Take
from leaveout.models.operators.reduction import Reduce
from leaveout.models.operators.shape import Identity

_FAR = 2**31 - 1
"""An end that is beyond every axis."""


def slices(use: Use) -> Operator:
    """Read Slice along one axis; along others, it must take everything."""
    starts, ends = use.integers(1, "starts") or [], use.integers(2, "ends") or []
    axes = use.integers(3, "axes") or list(range(len(starts)))
    steps = use.integers(4, "steps") or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise UnsupportedError("its starts, ends, axes and steps do not fit together")
    rank, found = 1 + len(use.shape), []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if axis % rank == 0 and -rank <= axis < rank and (start, step) == (0, 1) and end >= _FAR:
            continue
        at = use.axis(axis)
        size = use.shape[at - 1]
        places = tuple(range(*slice(start, end, step).indices(size)))
        if places != tuple(range(size)):
            found.append(Take(at, places))
    if len(found) > 1:
        raise UnsupportedError("it cuts along several axes; cut along one after the other")
    return found[0] if found else Identity()


def gather(use: Use) -> Operator:
    """Read Gather of constant indices along one axis."""
    name = use.constant(1)
    places = use.values[name]
    if places.ndim > 1:
        raise UnsupportedError(f"input 1 ({name!r}) has {places.ndim} axes; only a list is read")
    axis = use.axis(int(use.attribute("axis", 0)))
    size = use.shape[axis - 1]
    listed = [int(i) for i in places.reshape(-1)]
    if any(not -size <= i < size for i in listed):
        raise UnsupportedError(f"it picks {listed} of {size} along axis {axis}")
    return Take(axis, tuple(i % size for i in listed), single=places.ndim == 0)


def split(use: Use) -> tuple[Operator, ...]:
    """Read Split as one operator per output."""
    axis, count = use.axis(int(use.attribute("axis", 0))), len(use.proto.output)
    size = use.shape[axis - 1]
    sizes = use.integers(1, "split")
    if sizes is None:
        asked = int(use.attribute("num_outputs", count))
        # Since opset 18 the last may be smaller.
        each = -(-size // max(1, asked))
        sizes = [each] * (asked - 1) + [size - each * (asked - 1)]
        if use.opset < 18 and size % asked:
            raise UnsupportedError(f"{size} along axis {axis} in {asked} parts")
    if len(sizes) != count or sum(sizes) != size or min(sizes) < 1:
        raise UnsupportedError(f"{size} along axis {axis} in parts of {sizes}, {count} outputs")
    ends = np.cumsum(sizes).tolist()
    return tuple(Take(axis, tuple(range(end - n, end))) for n, end in zip(sizes, ends, strict=True))


def pads_of(use: Use) -> list[tuple[int, int]]:
    """Return the padding before and after each axis of a sample."""
    rank = 1 + len(use.shape)
    pads = use.integers(1, "pads") or []
    listed = use.integers(3, "axes") if len(use.proto.input) > 3 else None
    axes = list(range(rank)) if listed is None else listed
    if len(pads) != 2 * len(axes) or any(not -rank <= axis < rank for axis in axes):
        raise UnsupportedError(f"pads = {pads} of {len(axes)} axes")
    widths = [(0, 0)] * rank
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        widths[axis] = before, after
    if widths[0] != (0, 0):
        raise UnsupportedError("it pads the batch axis")
    if min(map(min, widths)) < 0:
        raise UnsupportedError(f"pads = {pads}; cut with Slice instead of negative pads")
    return widths[1:]


def pad(use: Use) -> Operator:
    """Read Pad with a constant."""
    mode = str(use.attribute("mode", "constant"))
    if mode != "constant":
        raise UnsupportedError(f"mode = {mode}; pad with constants, reflect or edge")
    if use.attribute("value", 0.0) != 0.0:
        raise UnsupportedError("it pads with another number than 0; export with opset 11 or newer")
    return Place(tuple(pads_of(use)), use.constant(2))


def reduction_axes(use: Use) -> tuple[int, ...]:
    """Return the axes of a reduction in order, none of them the batch axis."""
    rank = 1 + len(use.shape)
    listed = use.integers(1, "axes")
    if not listed and use.attribute("noop_with_empty_axes", 0):
        return ()
    if not listed:
        raise UnsupportedError("without axes it mixes the samples of a batch; name them")
    return tuple(sorted(use.axes(listed, rank)))


def reduction(mean: bool) -> Callable[[Use], Operator]:
    """Return the reader of ReduceMean or ReduceSum."""

    def read(use: Use) -> Operator:
        axes: Sequence[int] = reduction_axes(use)
        return Reduce(tuple(axes), mean, bool(use.attribute("keepdims", 1))) if axes else Identity()

    return read
