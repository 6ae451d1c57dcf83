"""Piecewise linear activations and maxima, as affine maps around a ReLU.

A runtime's result equals the draft's if some of the draft's sums are rounded and the others exact,
so it is within the roundings counted for the draft. Where the draft cancels (``x - r`` for ``r =
relu(x)``), the runtime's result is exact: the draft without rounding.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np

from leaveout.models.onnx.node_readers import pads_of, reduction_axes, window_of
from leaveout.models.onnx.operators.shape import Place
from leaveout.models.onnx.operators.window import Window
from leaveout.models.onnx.rewrites.base import Draft, Rewrite
from leaveout.models.onnx.use import (
    ANY,
    AUTO_PAD,
    FINITE,
    FLAG,
    PADS,
    SIZES,
    Accepted,
    BatchUsedError,
    Kind,
    UnsupportedError,
    Use,
    accepted_values,
    only,
)

_MOST = 64  # most inputs of Max, Min and Sum
_DATA: tuple[Kind, ...] = ("data",)
_LARGEST32 = float(np.finfo(np.float32).max)


def larger(draft: Draft, first: str, second: str) -> str:
    """Write the larger of two numbers, one of them variable: ``relu(a - b) + b``.

    A runtime selects one of them, exactly as the draft does without rounding.
    """
    return draft("Add", draft("Relu", draft("Sub", first, second)), second)


def smaller(draft: Draft, first: str, second: str) -> str:
    """Write the smaller of two numbers, one of them variable: ``b - relu(b - a)``."""
    return draft("Sub", second, draft("Relu", draft("Sub", second, first)))


def bent(draft: Draft, x: str, slope: str) -> str:
    """Write ``x`` above 0, else ``slope * x``, with one ReLU.

    As ``slope * x + (r - slope * r)`` for ``r = relu(x)``. Below 0 a runtime rounds one product,
    which is counted; above 0 it returns x.
    """
    positive = draft("Relu", x)
    kink = draft("Sub", positive, draft("Mul", positive, slope))
    return draft("Add", draft("Mul", x, slope), kink)


class LeakyRelu(Rewrite):
    """LeakyRelu of any slope."""

    operator = "LeakyRelu"
    attributes = accepted_values(alpha=FINITE)

    def visit(self, use: Use, draft: Draft) -> str:
        return bent(draft, use.variables[0], draft.constant(use.attribute("alpha", 0.01)))


class Slopes(Rewrite):
    """PRelu; its slopes may be parameters that differ between members."""

    operator = "PRelu"
    inputs = ("data", "floats")

    def visit(self, use: Use, draft: Draft) -> str:
        return bent(draft, *use.proto.input)


class Absolute(Rewrite):
    """Abs as ``2 relu(x) - x``, which a runtime computes exactly."""

    operator = "Abs"

    def visit(self, use: Use, draft: Draft) -> str:
        (x,) = use.variables
        return draft("Sub", draft("Mul", draft("Relu", x), draft.constant(2.0)), x)


class Clipping(Rewrite):
    """Clip, as written by torch for ReLU6 and Hardtanh: a maximum, then a minimum.

    A runtime selects x or a bound, the upper one if the lower exceeds it. Bounds may be parameters.
    """

    operator = "Clip"
    inputs = ("data", "floats", "floats")
    attributes = accepted_values(max=ANY, min=ANY)

    def visit(self, use: Use, draft: Draft) -> str:
        lower, upper = _bound(use, draft, 1, "min", -1), _bound(use, draft, 2, "max", 1)
        found = use.variables[0]
        if lower:
            found = larger(draft, found, lower)
        return smaller(draft, found, upper) if upper else found


def _bound(use: Use, draft: Draft, position: int, attribute: str, sign: int) -> str:
    """Return the name of a bound; empty if absent or beyond float32."""
    name = use.constant(position)
    if name:
        value = use.values[name]
        if value.size != 1:
            raise UnsupportedError(f"its bound {name!r} has shape {list(value.shape)}, expected []")
        return "" if sign * float(value.reshape(())) >= _LARGEST32 else name
    given = float(use.attribute(attribute, sign * _LARGEST32))
    if math.isnan(given) or given == -sign * math.inf:
        raise UnsupportedError(f"{attribute} = {given}: expected a number")
    return "" if sign * given >= _LARGEST32 else draft.constant(given)


class Exponential(Rewrite):
    """Elu and Selu of any slopes, around an Elu of slope 1.

    A runtime rounds the same products of ``exp(x) - 1``, and above 0 one or none.
    """

    attributes = accepted_values(alpha=FINITE, gamma=FINITE)

    def __init__(self, operator: str, alpha: float, gamma: float) -> None:
        self.operator, self._alpha, self._gamma = operator, alpha, gamma  # type: ignore[misc]

    def visit(self, use: Use, draft: Draft) -> str | None:
        """See `Rewrite.visit`: ``alpha e + (r - alpha r)`` for ``e = elu(x), r = relu(x)``."""
        (x,) = use.variables
        alpha, gamma = use.attribute("alpha", self._alpha), use.attribute("gamma", self._gamma)
        if alpha == gamma == 1:
            return None
        positive, slope = draft("Relu", x), draft.constant(alpha)
        kink = draft("Sub", positive, draft("Mul", positive, slope))
        whole = draft("Add", draft("Mul", draft("Elu", x), slope), kink)
        return whole if gamma == 1 else draft("Mul", whole, draft.constant(gamma))


class Celu(Rewrite):
    """Celu: an Elu of slope 1, stretched; quotient and product are counted."""

    operator = "Celu"
    attributes = accepted_values(
        alpha=Accepted(lambda found: 0 < found < math.inf, "expected a finite number above 0")
    )

    def visit(self, use: Use, draft: Draft) -> str:
        alpha = draft.constant(use.attribute("alpha", 1.0))
        return draft("Mul", draft("Elu", draft("Div", use.variables[0], alpha)), alpha)


class HardSigmoid(Rewrite):
    """HardSigmoid: ``alpha x + beta`` clipped to [0, 1]; product and sum are counted."""

    operator = "HardSigmoid"
    attributes = accepted_values(alpha=FINITE, beta=FINITE)

    def visit(self, use: Use, draft: Draft) -> str:
        line = draft("Mul", use.variables[0], draft.constant(use.attribute("alpha", 0.2)))
        line = draft("Add", line, draft.constant(use.attribute("beta", 0.5)))
        return smaller(draft, draft("Relu", line), draft.constant(1.0))


Both = Callable[[Draft, str, str], str]
"""Writes an operator for two inputs."""


def total(draft: Draft, first: str, second: str) -> str:
    """Write the sum of two numbers."""
    return draft("Add", first, second)


class Pairwise(Rewrite):
    """Max, Min or Sum of any number of tensors, applied pairwise."""

    inputs: ClassVar[tuple[Kind, ...]] = _DATA * _MOST

    def __init__(self, operator: str, both: Both) -> None:
        self.operator, self._both = operator, both  # type: ignore[misc]

    def visit(self, use: Use, draft: Draft) -> str:
        found, *others = self._order_inputs(use)
        for name in others:
            found = self._both(draft, found, name)
        return draft("Identity", found) if not others else found

    def _order_inputs(self, use: Use) -> list[str]:
        """Return the inputs, starting with a variable one, so that constants are never combined."""
        if self.operator != "Sum":
            fixed = [name for name in use.proto.input if name not in use.shapes]
            return [*use.variables, *fixed]
        # A runtime's sum is rounded in the order of its inputs.
        if not any(name in use.shapes for name in use.proto.input[:2]):
            raise UnsupportedError("it begins with two constants; add them first")
        return list(use.proto.input)


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
        window = window_of(use, tuple(use.attribute("kernel_shape", ())))
        found, spatial = use.variables[0], use.shape[1:]
        window.positions(spatial)
        if window.auto_pad.startswith("SAME") and max(window.dilations) > 1:
            raise UnsupportedError(
                f"auto_pad = {window.auto_pad} together with dilations is interpreted "
                "differently by different runtimes; set the pads explicitly"
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
    # A window that starts in the padding at the end is omitted.
    count -= ceil and (count - 1) * stride >= size + pads[0]
    starts = [i * stride - pads[0] for i in range(count)]
    reach = range(0, dilation * kernel, dilation)
    found = [tuple(s + k for k in reach if 0 <= s + k < size) for s in starts]
    if not all(found):
        raise UnsupportedError("a window lies entirely in the padding")
    return found


class GlobalMaxPool(Rewrite):
    """GlobalMaxPool: MaxPool with one window."""

    operator = "GlobalMaxPool"

    def visit(self, use: Use, draft: Draft) -> str:
        return _reduce_axes(draft, use, range(2, 1 + len(use.shape)), larger)


class ReduceExtreme(Rewrite):
    """ReduceMax, as written by torch for ``amax``, or ReduceMin: MaxPool with one window."""

    inputs = ("data", "integers")
    attributes = accepted_values(axes=ANY, keepdims=FLAG, noop_with_empty_axes=FLAG)

    def __init__(self, operator: str, both: Both) -> None:
        self.operator, self._both = operator, both  # type: ignore[misc]

    def visit(self, use: Use, draft: Draft) -> str:
        axes = reduction_axes(use)
        found = _reduce_axes(draft, use, axes, self._both)
        if use.attribute("keepdims", 1) or not axes:
            return found
        left = [n for i, n in enumerate(use.shape, 1) if i not in axes]
        return draft("Reshape", found, draft.whole([0, *left]))


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
        return x if places == list(range(size)) else gather(draft, x, axis, places)
    half = 1 << ((most - 1).bit_length() - 1)
    pairs = [(each[:half], each[-half:]) for each in sets]
    parts = list(dict.fromkeys(part for pair in pairs for part in pair))
    below = _of_each(draft, x, axis, size, parts, both)
    number = {part: i for i, part in enumerate(parts)}
    first, second = (
        gather(draft, below, axis, [number[pair[k]] for pair in pairs]) for k in (0, 1)
    )
    return both(draft, first, second)


def gather(draft: Draft, x: str, axis: int, places: Sequence[int]) -> str:
    """Write Gather of constant indices."""
    return draft("Gather", x, draft.whole(places), axis=axis)


_ANY: tuple[Kind, ...] = ("any",)
_MODES: Mapping[str, Literal["edge", "reflect", "wrap"]] = {
    "edge": "edge",
    "reflect": "reflect",
    "wrap": "wrap",
}


class Concatenation(Rewrite):
    """Concat of the network's tensors; a runtime only moves numbers, but sums are counted."""

    operator = "Concat"
    inputs: ClassVar[tuple[Kind, ...]] = _ANY * _MOST
    attributes = accepted_values(axis=ANY)

    def visit(self, use: Use, draft: Draft) -> str | None:
        parts = list(use.proto.input)
        if not use.variables:
            return None
        if len(use.variables) < len(parts) and not use.alone:
            raise BatchUsedError("it joins a constant to each sample; export a batch of 1")
        fixed = {n: use.values[n] for n in parts if n not in use.shapes}
        for name, value in fixed.items():
            if value.dtype != np.float32 or value.shape[:1] != (1,):
                raise UnsupportedError(
                    f"its constant {name!r} has shape {list(value.shape)}, expected float32 of "
                    "[1, ...], one for each sample"
                )
        shapes = [fixed[n].shape[1:] if n in fixed else use.shapes[n] for n in parts]
        at = use.axis(int(use.attribute("axis", 1))) - 1
        if len({(len(shape), *shape[:at], *shape[at + 1 :]) for shape in shapes}) > 1:
            raise UnsupportedError(
                f"it concatenates tensors of shapes {shapes} along axis {at + 1}"
            )
        ends = list(itertools.accumulate(shape[at] for shape in shapes))
        found, constants = "", []
        for name, shape, end in zip(parts, shapes, ends, strict=True):
            widths = [(0, 0)] * len(shape)
            widths[at] = end - shape[at], ends[-1] - end
            if name in fixed:
                constants.append(draft.move(name, Place(((0, 0), *widths))))
            else:
                placed = pad_with_zeros(draft, use, name, widths)
                found = draft("Add", found, placed) if found else placed
        for name in constants:
            found = draft("Add", found, name)
        return found


class PadByItself(Rewrite):
    """Pad with the data itself, as torch's ReflectionPad does: numbers are only moved."""

    operator = "Pad"
    inputs = ("data", "integers", "floats", "integers")
    attributes = accepted_values(mode=ANY, pads=ANY)

    def visit(self, use: Use, draft: Draft) -> str | None:
        mode = _MODES.get(str(use.attribute("mode", "constant")))
        if mode is None:
            return None
        found = use.variables[0]
        for axis, (widths, size) in enumerate(zip(pads_of(use), use.shape, strict=True), 1):
            if max(widths) >= size + (mode != "reflect"):
                raise UnsupportedError(f"mode = {mode} cannot pad {size} numbers by {max(widths)}")
            places = np.pad(np.arange(size), widths, mode=mode)
            if any(widths):
                found = draft("Gather", found, draft.constant(places), axis=axis)
        return found if draft.nodes else draft("Identity", found)


def pad_with_zeros(draft: Draft, use: Use, x: str, widths: list[tuple[int, int]]) -> str:
    """Write zeros around a tensor in the form of the model's opset."""
    pads = [0, *(before for before, _ in widths), 0, *(after for _, after in widths)]
    if use.opset < 11:
        return draft("Pad", x, pads=pads)
    return draft("Pad", x, draft.whole(pads))
