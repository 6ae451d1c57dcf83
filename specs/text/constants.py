"""Evaluation of constant expressions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

from leaveout.specs.text.errors import Slip
from leaveout.specs.text.expressions import Arithmetic, Expression, Negate, Number

Follow = Callable[[Expression], Expression]
"""From a name to the expression it stands for; other expressions are returned as they are."""

_OPERATORS: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def constant(node: Expression, follow: Follow) -> float | None:
    """Return the value of a constant expression, or None if it is not constant."""
    node = follow(node)
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Negate):
        inner = constant(node.operand, follow)
        return None if inner is None else -inner
    if isinstance(node, Arithmetic):
        left, right = constant(node.left, follow), constant(node.right, follow)
        if left is None or right is None:
            return None
        if node.operator == "/" and right == 0:
            raise Slip(node.at, "division by zero")
        result = _OPERATORS[node.operator](left, right)
        if not math.isfinite(result):
            raise Slip(node.at, "this is no finite number")
        return result
    return None
