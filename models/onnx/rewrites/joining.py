"""Concat, as a sum of parts padded with zeros, and padding with the data itself."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np

from leaveout.models.onnx.rewrites.base import Draft, Rewrite
from leaveout.models.onnx.use import ANY, Kind, UnsupportedError, Use, accepted_values
from leaveout.models.onnx.views import pads_of

_MOST = 64
"""Parts."""
_ANY: tuple[Kind, ...] = ("any",)
_MODES: Mapping[str, Literal["edge", "reflect", "wrap"]] = {
    "edge": "edge",
    "reflect": "reflect",
    "wrap": "wrap",
}


class Concatenation(Rewrite):
    """Concat of the network's tensors; a runtime only moves them, sums are charged."""

    operator = "Concat"
    inputs: ClassVar[tuple[Kind, ...]] = _ANY * _MOST
    attributes = accepted_values(axis=ANY)

    def visit(self, use: Use, draft: Draft) -> str | None:
        """See `Rewrite.visit`."""
        parts = list(use.proto.input)
        if not use.variables:
            return None
        if len(use.variables) < len(parts):
            raise UnsupportedError(
                "it concatenates a constant with the network's data; add it after the next "
                "layer instead, as its bias"
            )
        shapes = [use.shapes[name] for name in parts]
        at = use.axis(int(use.attribute("axis", 1))) - 1
        if len({(*shape[:at], *shape[at + 1 :]) for shape in shapes}) > 1:
            raise UnsupportedError(
                f"it concatenates tensors of shapes {shapes} along axis {at + 1}"
            )
        ends = list(itertools.accumulate(shape[at] for shape in shapes))
        found = ""
        for name, shape, end in zip(parts, shapes, ends, strict=True):
            widths = [(0, 0)] * len(shape)
            widths[at] = end - shape[at], ends[-1] - end
            placed = pad_with_zeros(draft, use, name, widths)
            found = draft("Add", found, placed) if found else placed
        return found


class PadByItself(Rewrite):
    """Pad with the data itself, as torch's ReflectionPad: numbers are only moved."""

    operator = "Pad"
    inputs = ("data", "integers", "floats", "integers")
    attributes = accepted_values(mode=ANY, pads=ANY)

    def visit(self, use: Use, draft: Draft) -> str | None:
        """See `Rewrite.visit`."""
        mode = _MODES.get(str(use.attribute("mode", "constant")))
        if mode is None:
            return None
        found = use.variables[0]
        for axis, (widths, size) in enumerate(zip(pads_of(use), use.shape, strict=True), 1):
            if max(widths) >= size + (mode != "reflect"):
                raise UnsupportedError(f"mode = {mode} pads {size} numbers by {max(widths)}")
            places = np.pad(np.arange(size), widths, mode=mode)
            if any(widths):
                found = draft("Gather", found, draft.constant(places), axis=axis)
        return found if draft.nodes else draft("Identity", found)


def pad_with_zeros(draft: Draft, use: Use, x: str, widths: list[tuple[int, int]]) -> str:
    """Write zeros around a tensor in the form of the model's opset."""
    pads = [0, *(before for before, _ in widths), 0, *(after for _, after in widths)]
    if use.opset < 11:
        return draft("Pad", x, pads=pads)
    return draft("Pad", x, draft.constant(np.asarray(pads, np.int64)))
