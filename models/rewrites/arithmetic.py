"""Arithmetic expressed by other operators with a constant."""

from __future__ import annotations

from leaveout.models.onnx_use import Use
from leaveout.models.rewrites.base import Draft, Rewrite


class Negation(Rewrite):
    """Neg, as torch writes ``-x``: Mul by -1, exact but charged one rounding."""

    operator = "Neg"

    def visit(self, use: Use, draft: Draft) -> str:
        """See `Rewrite.visit`."""
        return draft("Mul", use.variables[0], draft.constant(-1.0))
