"""Products with a constant matrix in any place, and sums that repeat numbers along an axis."""

from __future__ import annotations

import numpy as np

from leaveout.models.onnx.operators.shape import Permute, Reshape
from leaveout.models.onnx.rewrites.base import Draft, Rewrite
from leaveout.models.onnx.use import UnsupportedError, Use


class MatrixProduct(Rewrite):
    """MatMul with the constant on the left, a vector, or with axes of size one in front.

    ``W x`` is ``(x' W')'``: transposing moves numbers, and each sum has the same terms.
    """

    operator = "MatMul"
    inputs = ("any", "any")

    def visit(self, use: Use, draft: Draft) -> str | None:
        if not use.variables or len(use.variables) == 2:
            return None
        (x,), here, rank = use.variables, use.shape, len(use.shape) + (not use.bare)
        left = x == use.proto.input[1]
        weight = use.proto.input[not left]
        shape = use.values[weight].shape
        if len(shape) == 2 and not left:
            return None
        if set(shape[:-2]) - {1} or not 1 <= len(shape) <= max(rank, 2):
            raise UnsupportedError(
                f"its constant has shape {list(shape)}, and only one matrix for all is supported; "
                "multiply each part of the data by its own matrix"
            )
        if left and not use.bare and rank < 3:
            raise UnsupportedError("it mixes the samples of a batch; put the constant second")
        vector = (1, *shape) if left else (*shape, 1)
        if len(shape) != 2:
            weight = draft.move(weight, Reshape(shape[-2:] if len(shape) > 1 else vector))
        if left:
            weight = draft.move(weight, Permute((0, 2, 1)))
        if left and rank > 1:
            order = [*range(rank - 2), rank - 1, rank - 2]
            turned = draft("MatMul", draft("Transpose", x, perm=order), weight)
            found = draft("Transpose", turned, perm=order)
        else:
            found = draft("MatMul", x, weight)
        if len(shape) > 1:
            return found
        rest = (*here[:-2], here[-1]) if left and rank > 1 else here[:-1]
        batch = [] if use.bare else [0]
        return draft("Reshape", found, draft.whole([*batch, *rest]))


class SpreadSum(Rewrite):
    """Add or Sub of the network's tensors, one of them repeated along axes of size one."""

    inputs = ("data", "data")

    def __init__(self, operator: str) -> None:
        self.operator = operator  # type: ignore[misc]

    def visit(self, use: Use, draft: Draft) -> str | None:
        shapes = [use.shapes[name] for name in use.variables]
        if len(set(shapes)) < 2 or use.bare or len({len(shape) for shape in shapes}) > 1:
            return None
        try:
            after = np.broadcast_shapes(*shapes)
        except ValueError:
            return None
        parts = [
            name if shape == after else draft("Expand", name, draft.whole([1, *after]))
            for name, shape in zip(use.variables, shapes, strict=True)
        ]
        return draft(self.operator, *parts)
