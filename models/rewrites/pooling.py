"""Maxima over windows and axes, by pairwise maxima in rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from leaveout.models.onnx_attributes import ANY, AUTO_PAD, FLAG, PADS, SIZES, accepted_values, only
from leaveout.models.onnx_picks import reduction_axes
from leaveout.models.onnx_use import UnsupportedError, Use
from leaveout.models.onnx_windows import window_of
from leaveout.models.operators.window import Window
from leaveout.models.rewrites.base import Draft, Rewrite
from leaveout.models.rewrites.piecewise import larger, smaller

Both = Callable[[Draft, str, str], str]
Places = tuple[int, ...]


class MaxPool(Rewrite):
    """MaxPool along each axis by pairwise maxima in rounds.

    A runtime selects one number per window, exactly as the draft does without rounding. Windows end
    at the border, as padding is below every number.
    """

    operator = "MaxPool"
    attributes = accepted_values(
        auto_pad=AUTO_PAD,
        ceil_mode=FLAG,
        dilations=SIZES,
        kernel_shape=SIZES,
        pads=PADS,
        storage_order=only(0),
        strides=SIZES,
    )

    def visit(self, use: Use, draft: Draft) -> str:
        """See `Rewrite.visit`."""
        window = window_of(use, tuple(use.attribute("kernel_shape", ())))
        found, spatial = use.variables[0], use.shape[1:]
        window.positions(spatial)
        if window.auto_pad.startswith("SAME") and max(window.dilations) > 1:
            raise UnsupportedError(
                f"auto_pad = {window.auto_pad} beside dilations, of which runtimes make different "
                "things; say the pads"
            )
        for pads, kernel in zip(window.padding(spatial), window.kernel, strict=True):
            if max(pads) >= kernel:
                raise UnsupportedError("pads must be smaller than kernel_shape")
        ceil = bool(use.attribute("ceil_mode", 0)) and window.auto_pad == "NOTSET"
        for at, size in enumerate(spatial):
            taps = _taps(window, at, size, window.padding(spatial)[at], ceil)
            found = _of_each(draft, found, 2 + at, size, taps, larger)
        return _copy_input(draft, use, found)


def _taps(window: Window, at: int, size: int, pads: tuple[int, int], ceil: bool) -> list[Places]:
    """Return the indices along an axis that each window covers."""
    kernel, stride, dilation = window.kernel[at], window.strides[at], window.dilations[at]
    free = size + sum(pads) - dilation * (kernel - 1) - 1
    count = (-(-free // stride) if ceil else free // stride) + 1
    # A window that starts in the padding at the end is left out.
    count -= ceil and (count - 1) * stride >= size + pads[0]
    starts = [i * stride - pads[0] for i in range(count)]
    reach = range(0, dilation * kernel, dilation)
    found = [tuple(s + k for k in reach if 0 <= s + k < size) for s in starts]
    if not all(found):
        raise UnsupportedError("a window lies in the padding alone")
    return found


class GlobalMaxPool(Rewrite):
    """GlobalMaxPool: MaxPool with one window."""

    operator = "GlobalMaxPool"

    def visit(self, use: Use, draft: Draft) -> str:
        """See `Rewrite.visit`."""
        return _reduce_axes(draft, use, range(2, 1 + len(use.shape)), larger)


class ReduceMax(Rewrite):
    """ReduceMax, as torch writes ``amax``: MaxPool with one window."""

    operator = "ReduceMax"
    inputs = ("data", "integers")
    attributes = accepted_values(axes=ANY, keepdims=FLAG, noop_with_empty_axes=FLAG)
    both: Both = staticmethod(larger)

    def visit(self, use: Use, draft: Draft) -> str:
        """See `Rewrite.visit`."""
        axes = reduction_axes(use)
        found = _reduce_axes(draft, use, axes, type(self).both)
        if use.attribute("keepdims", 1) or not axes:
            return found
        left = [n for i, n in enumerate(use.shape, 1) if i not in axes]
        return draft("Reshape", found, draft.constant(np.asarray([0, *left], np.int64)))


class ReduceMin(ReduceMax):
    """ReduceMin, like `ReduceMax`."""

    operator = "ReduceMin"
    both: Both = staticmethod(smaller)


def _reduce_axes(draft: Draft, use: Use, axes: Sequence[int], both: Both) -> str:
    """Write the largest or smallest number along axes."""
    found = use.variables[0]
    for axis in axes:
        size = use.shape[axis - 1]
        found = _of_each(draft, found, axis, size, [tuple(range(size))], both)
    return _copy_input(draft, use, found)


def _copy_input(draft: Draft, use: Use, found: str) -> str:
    """Return the result, copied if it is the input itself."""
    return draft("Identity", found) if found == use.variables[0] else found


def _of_each(draft: Draft, x: str, axis: int, size: int, sets: Sequence[Places], both: Both) -> str:
    """Write the largest or smallest number of each set of indices along an axis."""
    most = max(map(len, sets))
    if most == 1:
        places = [places[0] for places in sets]
        return x if places == list(range(size)) else _gather(draft, x, axis, places)
    half = 1 << ((most - 1).bit_length() - 1)
    pairs = [(each[:half], each[-half:]) for each in sets]
    parts = list(dict.fromkeys(part for pair in pairs for part in pair))
    below = _of_each(draft, x, axis, size, parts, both)
    number = {part: i for i, part in enumerate(parts)}
    first, second = (
        _gather(draft, below, axis, [number[pair[k]] for pair in pairs]) for k in (0, 1)
    )
    return both(draft, first, second)


def _gather(draft: Draft, x: str, axis: int, places: Sequence[int]) -> str:
    """Write Gather of constant indices."""
    return draft("Gather", x, draft.constant(np.asarray(places, np.int64)), axis=axis)
