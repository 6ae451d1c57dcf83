"""Piecewise linear activations and maxima: affine maps around a ReLU.

What a runtime computes of each is what its draft gives if some of its sums round and the others
do not, so that it lies within what is charged for the draft. Where the draft cancels (``x - r``
for ``r = relu(x)``) the runtime has the exact result, which is the draft without rounding.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from leaveout.models.onnx_attributes import ANY, FINITE, accepted_values
from leaveout.models.onnx_use import Kind, UnsupportedError, Use
from leaveout.models.rewrites.base import Draft, Rewrite

_MOST = 64
"""Inputs of Max, Min and Sum."""
_DATA: tuple[Kind, ...] = ("data",)
_LARGEST32 = float(np.finfo(np.float32).max)


def larger(draft: Draft, first: str, second: str) -> str:
    """Write the larger of two, one of them variable: ``relu(a - b) + b``.

    A runtime selects one of them, exactly as the draft does without rounding.
    """
    return draft("Add", draft("Relu", draft("Sub", first, second)), second)


def smaller(draft: Draft, first: str, second: str) -> str:
    """Write the smaller of two, one of them variable: ``b - relu(b - a)``."""
    return draft("Sub", second, draft("Relu", draft("Sub", second, first)))


def bent(draft: Draft, x: str, slope: str) -> str:
    """Write ``x`` above 0, else ``slope * x``, with one ReLU.

    As ``slope * x + (r - slope * r)`` for ``r = relu(x)``. Below 0 a runtime rounds one product,
    which is charged; above 0 it returns x.
    """
    positive = draft("Relu", x)
    kink = draft("Sub", positive, draft("Mul", positive, slope))
    return draft("Add", draft("Mul", x, slope), kink)


class LeakyRelu(Rewrite):
    """LeakyRelu of any slope."""

    operator = "LeakyRelu"
    attributes = accepted_values(alpha=FINITE)

    def visit(self, use: Use, draft: Draft) -> str:
        """See `Rewrite.visit`."""
        return bent(draft, use.variables[0], draft.constant(use.attribute("alpha", 0.01)))


class Slopes(Rewrite):
    """PRelu, whose slopes may be parameters that differ over members."""

    operator = "PRelu"
    inputs = ("data", "floats")

    def visit(self, use: Use, draft: Draft) -> str:
        """See `Rewrite.visit`."""
        return bent(draft, *use.proto.input)


class Absolute(Rewrite):
    """Abs: ``2 relu(x) - x``, exact in a runtime."""

    operator = "Abs"

    def visit(self, use: Use, draft: Draft) -> str:
        """See `Rewrite.visit`."""
        (x,) = use.variables
        return draft("Sub", draft("Mul", draft("Relu", x), draft.constant(2.0)), x)


class Clipping(Rewrite):
    """Clip, as torch writes ReLU6 and Hardtanh: a maximum, then a minimum.

    A runtime selects x or a bound, and max if min is above it. The bounds may be parameters.
    """

    operator = "Clip"
    inputs = ("data", "floats", "floats")
    attributes = accepted_values(max=ANY, min=ANY)

    def visit(self, use: Use, draft: Draft) -> str:
        """See `Rewrite.visit`."""
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


class HardSigmoid(Rewrite):
    """HardSigmoid: ``alpha x + beta`` clipped to [0, 1], with product and sum charged."""

    operator = "HardSigmoid"
    attributes = accepted_values(alpha=FINITE, beta=FINITE)

    def visit(self, use: Use, draft: Draft) -> str:
        """See `Rewrite.visit`."""
        line = draft("Mul", use.variables[0], draft.constant(use.attribute("alpha", 0.2)))
        line = draft("Add", line, draft.constant(use.attribute("beta", 0.5)))
        return smaller(draft, draft("Relu", line), draft.constant(1.0))


class _Many(Rewrite):
    """An operator on any number of inputs, applied pairwise."""

    inputs: ClassVar[tuple[Kind, ...]] = _DATA * _MOST

    def visit(self, use: Use, draft: Draft) -> str:
        """See `Rewrite.visit`."""
        found, *others = self.order_inputs(use)
        for name in others:
            found = self.both(draft, found, name)
        return draft("Identity", found) if not others else found

    def order_inputs(self, use: Use) -> list[str]:
        """Return the inputs, a variable one first, so that no two constants meet."""
        fixed = [name for name in use.proto.input if name not in use.shapes]
        return [*use.variables, *fixed]

    def both(self, draft: Draft, first: str, second: str) -> str:
        """Write the operator for two inputs."""
        raise NotImplementedError


class Largest(_Many):
    """Max of several tensors."""

    operator = "Max"

    def both(self, draft: Draft, first: str, second: str) -> str:
        """See `_Many.both`."""
        return larger(draft, first, second)


class Smallest(_Many):
    """Min of several tensors."""

    operator = "Min"

    def both(self, draft: Draft, first: str, second: str) -> str:
        """See `_Many.both`."""
        return smaller(draft, first, second)


class Total(_Many):
    """Sum of several tensors: pairwise Add, in the order of a runtime's rounding."""

    operator = "Sum"

    def order_inputs(self, use: Use) -> list[str]:
        """See `_Many.order_inputs`; the order stays."""
        if not any(name in use.shapes for name in use.proto.input[:2]):
            raise UnsupportedError("it begins with two constants; add them up first")
        return list(use.proto.input)

    def both(self, draft: Draft, first: str, second: str) -> str:
        """See `_Many.both`."""
        return draft("Add", first, second)
