"""Products of data with data, and what is normalised by its own spread.

``x y = ((x + y)^2 - (x - y)^2) / 4``: a runtime rounds the product once; sums, squares and their
difference are counted, each at least as large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from leaveout.kernel.smooth import ROOTED
from leaveout.models.onnx.outlines import OUTLINED
from leaveout.models.onnx.rewrites.base import Draft, Rewrite
from leaveout.models.onnx.rewrites.piecewise import larger, smaller
from leaveout.models.onnx.use import (
    ANY,
    NOT_NEGATIVE,
    Kind,
    UnsupportedError,
    Use,
    accepted_values,
    only,
)


def square(draft: Draft, x: str) -> str:
    """Write ``x * x``."""
    return draft("Square", x, domain=OUTLINED)


def multiply(draft: Draft, x: str, y: str) -> str:
    """Write the product of two tensors."""
    apart = draft("Sub", square(draft, draft("Add", x, y)), square(draft, draft("Sub", x, y)))
    return draft("Mul", apart, draft.constant(0.25))


class Product(Rewrite):
    """Mul of two of the network's tensors."""

    operator = "Mul"
    inputs = ("data", "data")

    def visit(self, use: Use, draft: Draft) -> str | None:
        if len(use.variables) < 2:
            return None
        x, y = use.variables
        return square(draft, x) if x == y else multiply(draft, x, y)


class Gated(Rewrite):
    """Mish and HardSwish: the data times a bent copy of themselves."""

    def __init__(self, operator: str) -> None:
        self.operator = operator  # type: ignore[misc]

    def visit(self, use: Use, draft: Draft) -> str:
        (x,) = use.variables
        if self.operator == "Mish":
            return multiply(draft, x, draft("Tanh", draft("Softplus", x)))
        return multiply(draft, x, draft("HardSigmoid", x, alpha=1 / 6, beta=0.5))


class Power(Rewrite):
    """Pow with the exponent 2 or 3."""

    operator = "Pow"
    inputs = ("data", "constant")

    def visit(self, use: Use, draft: Draft) -> str:
        exponent = use.values[use.constant(1)]
        if exponent.size != 1 or exponent.ndim > 1 or exponent.reshape(()) not in (2, 3):
            raise UnsupportedError(
                "only the powers 2 and 3 are supported, from a Constant node; multiply instead"
            )
        (x,) = use.variables
        twice = square(draft, x)
        return twice if exponent.reshape(()) == 2 else multiply(draft, x, twice)


def reduce(
    draft: Draft, use: Use, kind: str, x: str, axes: Sequence[int], *, keepdims: int = 1
) -> str:
    """Write ReduceMean or ReduceSum in the form of the model's opset."""
    if use.opset < {"ReduceMean": 18, "ReduceSum": 13}[kind]:
        return draft(kind, x, axes=[*axes], keepdims=keepdims)
    return draft(kind, x, draft.whole(axes), keepdims=keepdims)


def normalise(draft: Draft, use: Use, x: str, axes: Sequence[int], epsilon: float) -> str:
    """Write ``x / sqrt(mean(x^2) + epsilon)``."""
    epsilon = float(np.float32(epsilon))
    if epsilon < ROOTED:
        raise UnsupportedError(
            f"epsilon = {epsilon:.3g}: at least {ROOTED:.2g} is supported; train with 1e-5"
        )
    # Exact: both are multiples of the unit in the last place of epsilon.
    rest = draft.constant(epsilon - ROOTED)
    spread = draft("Add", reduce(draft, use, "ReduceMean", square(draft, x), axes), rest)
    root = draft("InverseRoot", spread, domain=OUTLINED)
    found = multiply(draft, x, root)
    # Larger than its own root mean square by less than this: nothing is clipped, but bounds.
    most = np.nextafter(np.float32(np.sqrt(math.prod(use.shape[axis - 1] for axis in axes))), 1e9)
    found = larger(draft, found, draft.constant(-most))
    found = smaller(draft, found, draft.constant(most))
    return draft("Normal", found, x, root, domain=OUTLINED, axes=[*axes])


class LayerNormalization(Rewrite):
    """LayerNormalization, as onnxruntime computes it in two passes."""

    operator = "LayerNormalization"
    inputs: ClassVar[tuple[Kind, ...]] = ("data", "floats", "floats")
    attributes = accepted_values(axis=ANY, epsilon=NOT_NEGATIVE, stash_type=only(1))
    centred = True

    def visit(self, use: Use, draft: Draft) -> str:
        (x,), rank = use.variables, 1 + len(use.shape)
        if len(use.proto.input) > 2 and not use.constant(2):
            # onnxruntime 1.31 dies of it.
            raise UnsupportedError("its third input has an empty name; leave it out")
        axes = range(use.axis(int(use.attribute("axis", -1))), rank)
        if self.centred:
            x = draft("Sub", x, reduce(draft, use, "ReduceMean", x, axes))
        found = normalise(draft, use, x, axes, use.attribute("epsilon", 1e-5))
        found = draft("Mul", found, use.constant(1))
        return draft("Add", found, use.constant(2)) if use.constant(2) else found


class RootMeanSquare(LayerNormalization):
    """RMSNormalization: without a mean or a bias."""

    operator = "RMSNormalization"
    inputs = ("data", "floats")
    centred = False
