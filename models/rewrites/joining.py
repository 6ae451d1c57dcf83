"""Concat: each part put in its place among zeros, and all added."""

from __future__ import annotations

import itertools

import numpy as np

from leaveout.models.onnx_attributes import ANY, accepting
from leaveout.models.onnx_use import UnsupportedError, Use
from leaveout.models.rewrites.base import Draft, Rewrite

__all__ = ["Concatenation", "padded"]

_MOST = 64
"""Parts."""


class Concatenation(Rewrite):
    """Concat of the network's tensors: a runtime only moves them; the sums with 0 are charged."""

    operator = "Concat"
    inputs = ("any",) * _MOST
    attributes = accepting(axis=ANY)

    def visit(self, use: Use, draft: Draft) -> str | None:
        """See `Rewrite.visit`."""
        parts = list(use.proto.input)
        if not use.variables:
            return None
        if len(use.variables) < len(parts):
            raise UnsupportedError(
                "it joins a constant to the network's data; add it after the next layer instead, "
                "as its bias"
            )
        shapes = [use.shapes[name] for name in parts]
        at = use.axis(int(use.attribute("axis", 1))) - 1
        if len({(*shape[:at], *shape[at + 1 :]) for shape in shapes}) > 1:
            raise UnsupportedError(f"it joins tensors of shapes {shapes} along axis {at + 1}")
        ends = list(itertools.accumulate(shape[at] for shape in shapes))
        found = ""
        for name, shape, end in zip(parts, shapes, ends, strict=True):
            widths = [(0, 0)] * len(shape)
            widths[at] = end - shape[at], ends[-1] - end
            placed = padded(draft, use, name, widths)
            found = draft("Add", found, placed) if found else placed
        return found


def padded(draft: Draft, use: Use, x: str, widths: list[tuple[int, int]]) -> str:
    """Write zeros around a tensor, as the model's opset has it."""
    pads = [0, *(before for before, _ in widths), 0, *(after for _, after in widths)]
    if use.opset < 11:
        return draft("Pad", x, pads=pads)
    return draft("Pad", x, draft.constant(np.asarray(pads, np.int64)))
