"""Operators that are left out at the end of a network: they make probabilities of scores."""

from __future__ import annotations

from leaveout.models.onnx_attributes import ANY, accepting
from leaveout.models.onnx_use import UnsupportedError, Use
from leaveout.models.rewrites.base import Draft, Ending, Rewrite

__all__ = ["FinalLogSoftmax", "FinalSoftmax"]

_BEFORE = (
    "labels and confidences are those of the scores before it, and a confidence is a difference "
    "of two such scores, no probability"
)


class FinalSoftmax(Rewrite):
    """Softmax over the labels, last, as every exporter writes it: what is claimed leaves it out.

    It keeps the order of the scores, but for near-ties in float32 (`docs/soundness.md`).
    """

    operator = "Softmax"
    attributes = accepting(axis=ANY)

    def visit(self, use: Use, draft: Draft) -> Ending:
        """See `Rewrite.visit`."""
        # Before opset 13 all axes from `axis` on are one: the same, of [batch, labels].
        axis = int(use.attribute("axis", 1 if use.opset < 13 else -1))
        if use.proto.output[0] != draft.output or len(use.shape) != 1 or axis not in {1, -1}:
            raise UnsupportedError("supported only as the last operator, over the labels")
        return Ending(use.variables[0], f"the final {self.operator} is dropped: {_BEFORE}")


class FinalLogSoftmax(FinalSoftmax):
    """LogSoftmax over the labels, last, as torch writes for its losses: left out as Softmax is."""

    operator = "LogSoftmax"
