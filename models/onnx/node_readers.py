"""Readers of ONNX's Slice, Gather, Split, Pad and reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from leaveout.models.onnx.folding import moves
from leaveout.models.onnx.operators import Operator, Shape
from leaveout.models.onnx.operators.shape import Identity, Permute, Place, Reduce, Reshape, Take
from leaveout.models.onnx.operators.window import AveragePool, Conv, ConvTranspose, Window
from leaveout.models.onnx.use import BATCH, BatchUsedError, UnsupportedError, Use

_FAR = 2**31 - 1  # an end beyond any axis


def slices(use: Use) -> Operator:
    """Read Slice."""
    if use.bare:
        return moves(use)
    starts, ends = use.integers(1, "starts") or [], use.integers(2, "ends") or []
    axes = use.integers(3, "axes") or list(range(len(starts)))
    steps = use.integers(4, "steps") or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise UnsupportedError("its starts, ends, axes and steps do not match")
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
        return moves(use)
    return found[0] if found else Identity()


def gather(use: Use) -> Operator:
    """Read Gather of constant indices along one axis."""
    places = use.values[use.constant(1)]
    if use.bare or places.ndim > 1:
        return moves(use)
    axis = use.axis(int(use.attribute("axis", 0)))
    size = use.shape[axis - 1]
    listed = [int(i) for i in places.reshape(-1)]
    if any(not -size <= i < size for i in listed):
        raise UnsupportedError(f"it selects {listed} of {size} along axis {axis}")
    return Take(axis, tuple(i % size for i in listed), single=places.ndim == 0)


def split(use: Use) -> tuple[Operator, ...]:
    """Read Split as one operator per output."""
    axis, count = use.axis(int(use.attribute("axis", 0))), len(use.proto.output)
    size = use.shape[axis - 1]
    sizes = use.integers(1, "split")
    if sizes is None:
        asked = int(use.attribute("num_outputs", count))
        # Since opset 18 the last part may be smaller.
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
        raise UnsupportedError(f"pads = {pads} for {len(axes)} axes")
    widths = [(0, 0)] * rank
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        widths[axis] = before, after
    if widths[0] != (0, 0):
        raise UnsupportedError("it pads the batch axis")
    if min(map(min, widths)) < 0:
        raise UnsupportedError(f"pads = {pads}; crop with Slice instead of negative pads")
    return widths[1:]


def pad(use: Use) -> Operator:
    """Read Pad with a constant."""
    mode = str(use.attribute("mode", "constant"))
    if mode != "constant":
        raise UnsupportedError(f"mode = {mode}; pad with constants, reflect or edge")
    if use.attribute("value", 0.0) != 0.0:
        raise UnsupportedError("it pads with a number other than 0; export with opset 11 or newer")
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


def window_of(use: Use, kernel: Shape) -> Window:
    """Read the position of a kernel: padding, strides and dilations."""
    rank = len(kernel)
    auto_pad = str(use.attribute("auto_pad", "NOTSET"))
    if auto_pad != "NOTSET" and any(use.attribute("pads", ())):
        raise UnsupportedError(f"auto_pad = {auto_pad} together with pads")
    return Window(
        kernel,
        tuple(use.attribute("strides", (1,) * rank)),
        tuple(use.attribute("dilations", (1,) * rank)),
        tuple(use.attribute("pads", (0,) * (2 * rank))),
        auto_pad,
    )


def conv(use: Use) -> Operator:
    """Read Conv."""
    weight = use.constant(1)
    kernel = tuple(use.attribute("kernel_shape", use.values[weight].shape[2:]))
    return Conv(weight, use.constant(2), window_of(use, kernel), int(use.attribute("group", 1)))


def conv_transpose(use: Use) -> Operator:
    """Read ConvTranspose with explicit padding."""
    weight, rank = use.constant(1), len(use.shape) - 1
    kernel = tuple(use.attribute("kernel_shape", use.values[weight].shape[2:]))
    window = window_of(use, kernel)
    more = tuple(use.attribute("output_padding", (0,) * rank))
    sizes = [kernel, window.strides, window.dilations, more, window.pads[::2]]
    if rank not in {1, 2} or {len(each) for each in sizes} != {rank}:
        raise UnsupportedError(
            f"kernel_shape, strides, dilations, pads and output_padding must fit {rank} spatial "
            "axes, and only one and two are supported"
        )
    if window.auto_pad not in {"NOTSET", "VALID"}:
        raise UnsupportedError(f"auto_pad = {window.auto_pad}; set the pads explicitly")
    groups = int(use.attribute("group", 1))
    return ConvTranspose(weight, use.constant(2), replace(window, auto_pad="NOTSET"), more, groups)


def average_pool(use: Use) -> Operator:
    """Read AveragePool."""
    if any(n != 1 for n in use.attribute("dilations", ())):
        raise UnsupportedError("dilations other than 1 are not supported")
    window = window_of(use, tuple(use.attribute("kernel_shape", ())))
    if use.attribute("ceil_mode", 0) and not fits(window, use.shape[1:]):
        raise UnsupportedError(
            "ceil_mode = 1 with windows that extend past the edge; runtimes disagree on it: use "
            "ceil_mode=False"
        )
    return AveragePool(window, bool(use.attribute("count_include_pad", 0)))


def fits(window: Window, spatial: Shape) -> bool:
    """Return whether the last window ends exactly at the end of the padded axes."""
    window.positions(spatial)
    pads = window.padding(spatial)
    return all(
        (size + sum(pad) - dilation * (kernel - 1) - 1) % stride == 0
        for size, kernel, stride, dilation, pad in zip(
            spatial, window.kernel, window.strides, window.dilations, pads, strict=True
        )
    )


def flatten(use: Use) -> Operator:
    """Read Flatten."""
    axis = int(use.attribute("axis", 1))
    whole = {0, -1 - len(use.shape)} if use.alone else set()
    if axis != 1 and (axis not in {*whole, -len(use.shape) or 1} or (use.opset < 11 and axis < 0)):
        raise UnsupportedError(f"axis = {axis} mixes the samples of a batch; flatten from axis = 1")
    return Reshape((math.prod(use.shape),))


def reshape(use: Use) -> Operator:
    """Read Reshape."""
    listed = use.integers(1, "shape") or []
    # A batch size computed from a shape; 0 in its place keeps the batch axis, too.
    shape = [0 if n == BATCH else n for n in listed[:1]] + listed[1:]
    if shape in ([0], [-1]) and math.prod(use.shape) == 1:
        return Reshape(())
    mixes = UnsupportedError(
        f"reshaping to {shape} mixes the samples of a batch; keep the batch axis in front, e.g. "
        "x.reshape(len(x), -1)"
    )
    if min(shape, default=0) < -1 or shape.count(-1) > 1:
        raise UnsupportedError(f"{shape} is not a shape")
    if len(shape) < 2:
        raise mixes
    if any(n == 0 and i > len(use.shape) for i, n in enumerate(shape)):
        raise UnsupportedError(f"a 0 in {shape} has no axis to copy its size from")
    rest = [use.shape[i] if n == 0 else n for i, n in enumerate(shape[1:])]
    if -1 in rest:
        size, known = math.prod(use.shape), math.prod(n for n in rest if n != -1)
        if not known or size % known:
            raise mixes
        rest[rest.index(-1)] = size // known
    if shape[0] == -1 and math.prod(use.shape) % math.prod(rest) == 0 != math.prod(rest):
        # Each sample's numbers stay together, as where heads of attention are computed together.
        mixes = BatchUsedError(str(mixes))
    # A leading 1 is the batch size only if the model takes one sample at a time.
    if shape[0] not in ({0, -1, 1} if use.alone else {0, -1}):
        raise mixes
    if math.prod(rest) != math.prod(use.shape):
        raise mixes
    return Reshape(tuple(rest))


def squeeze(use: Use) -> Operator:
    """Read Squeeze."""
    axes = use.integers(1, "axes")
    if not axes:
        raise UnsupportedError(
            "without axes it drops the batch axis of a batch of size 1; name them"
        )
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
        raise BatchUsedError("it moves the batch axis; keep it in front (batch_first=True)")
    return Permute(order)
