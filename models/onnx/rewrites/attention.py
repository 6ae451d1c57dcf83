"""What attention is made of: softmax inside a network, and a matrix of data times another.

``softmax(x)_i = sigmoid(x_i - l_i)``, l_i being the logarithm of the sum of ``exp(x_j)`` over all
others, and ``log(exp(a) + exp(b)) = a + softplus(b - a)``: nothing overflows, and no value leaves
[0, 1]. The l_i of all i come from a tree of pairs, up and down.
"""

from __future__ import annotations

from typing import ClassVar

from leaveout.models.onnx.operators.shape import Permute
from leaveout.models.onnx.outlines import OUTLINED
from leaveout.models.onnx.rewrites.base import Draft, Rewrite
from leaveout.models.onnx.rewrites.piecewise import gather
from leaveout.models.onnx.rewrites.products import multiply, reduce
from leaveout.models.onnx.use import (
    ANY,
    FLAG,
    Kind,
    UnsupportedError,
    Use,
    accepted_values,
    attributes_of,
    only,
)


def log_sum(draft: Draft, a: str, b: str) -> str:
    """Write ``log(exp(a) + exp(b))``."""
    return draft("Add", a, draft("Softplus", draft("Sub", b, a)))


def log_sums_of_others(draft: Draft, x: str, axis: int, size: int) -> str:
    """Write for each number along an axis the logarithm of the sum of the others' exponentials."""
    if size == 2:
        return gather(draft, x, axis, [1, 0])
    half = size // 2
    first, second = (gather(draft, x, axis, range(k, 2 * half, 2)) for k in (0, 1))
    pairs, odd = log_sum(draft, first, second), size % 2 == 1
    if odd:
        pairs = draft("Concat", pairs, gather(draft, x, axis, [size - 1]), axis=axis)
    outside = log_sums_of_others(draft, pairs, axis, half + odd)
    last = [gather(draft, outside, axis, [half])] if odd else []
    if odd:
        outside = gather(draft, outside, axis, range(half))
    parts = [log_sum(draft, outside, other) for other in (second, first)]
    order = [half * (i % 2) + i // 2 for i in range(2 * half)] + [2 * half] * odd
    return gather(draft, draft("Concat", *parts, *last, axis=axis), axis, order)


class Softmax(Rewrite):
    """Softmax inside a network, over one axis."""

    operator = "Softmax"
    attributes = accepted_values(axis=ANY)

    def visit(self, use: Use, draft: Draft) -> str:
        (x,), rank = use.variables, 1 + len(use.shape)
        axis = use.axis(int(use.attribute("axis", 1 if use.opset < 13 else -1)))
        if use.opset < 13 and axis < rank - 1:
            raise UnsupportedError("before opset 13 it is over several axes; export a later opset")
        size = use.shape[axis - 1]
        if size == 1:
            return draft("Add", draft("Mul", x, draft.constant(0.0)), draft.constant(1.0))
        others = log_sums_of_others(draft, x, axis, size)
        found = draft("Sigmoid", draft("Sub", x, others))
        return draft("Normal", found, x, domain=OUTLINED, axes=[axis])


class WithBatch(Rewrite):
    """An operator on data without a batch axis, as torch's MultiheadAttention writes it."""

    inputs = ("any", "any", "any")
    attributes = accepted_values(axis=ANY, epsilon=ANY, stash_type=ANY)

    def __init__(self, operator: str) -> None:
        self.operator = operator  # type: ignore[misc]

    def visit(self, use: Use, draft: Draft) -> str | None:
        if not use.bare or (self.operator == "MatMul" and len(use.variables) < 2):
            return None
        given = [
            draft("Reshape", name, draft.whole([1, *use.shapes[name]]))
            if name in use.shapes
            else name
            for name in use.proto.input
        ]
        attributes = attributes_of(use.proto)
        if self.operator != "MatMul":
            whole = self.operator == "Softmax" and use.opset < 13
            axis = int(attributes.get("axis", 1 if whole else -1))
            attributes["axis"] = axis + (axis >= 0)
        found, shape = draft(self.operator, *given, **attributes), use.shape
        if len(use.variables) == 2:
            shape = (*shape[:-1], use.shapes[use.variables[1]][-1])
        return draft("Reshape", found, draft.whole(shape))


class DenseWithoutBatch(Rewrite):
    """Gemm on data without a batch axis: a product, and a sum."""

    operator = "Gemm"
    inputs = ("data", "floats", "floats")
    attributes = accepted_values(alpha=only(1), beta=only(1), transA=only(0), transB=FLAG)

    def visit(self, use: Use, draft: Draft) -> str | None:
        if not use.bare:
            return None
        weight, bias = use.constant(1), use.constant(2)
        if use.attribute("transB", 0):
            weight = draft.move(weight, Permute((0, 2, 1)))
        found = draft("MatMul", use.variables[0], weight)
        return draft("Add", found, bias) if bias else found


class DataProduct(Rewrite):
    """MatMul of two of the network's tensors: sums of products."""

    operator = "MatMul"
    inputs: ClassVar[tuple[Kind, ...]] = ("data", "data")

    def visit(self, use: Use, draft: Draft) -> str | None:
        if len(use.variables) < 2:
            return None
        if use.opset < 8:
            raise UnsupportedError("it multiplies data of two tensors; export opset 8 or later")
        one, other = (use.shapes[name] for name in use.variables)
        fits = len(one) == len(other) >= 2 and (*one[:-2], one[-1]) == other[:-1]
        if use.bare or not fits:
            raise UnsupportedError(
                f"it multiplies data of shapes {list(one)} and {list(other)}; only as many "
                "matrices by as many others are supported"
            )
        front, terms = one[:-2], (one[-2], one[-1], other[-1])
        shapes = (*front, *one[-2:], 1), (*front, 1, *other[-2:])
        parts = (
            draft(
                "Expand",
                draft("Reshape", name, draft.whole([0, *shape])),
                draft.whole([1, *front, *terms]),
            )
            for name, shape in zip(use.variables, shapes, strict=True)
        )
        products = multiply(draft, *parts)
        return reduce(draft, use, "ReduceSum", products, [len(front) + 2], keepdims=0)
