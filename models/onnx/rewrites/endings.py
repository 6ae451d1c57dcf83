"""Final operators that turn scores into probabilities, and are omitted."""

from __future__ import annotations

import math

from leaveout.models.onnx.rewrites.base import Draft, Ending, Rewrite
from leaveout.models.onnx.use import ANY, UnsupportedError, Use, accepted_values

_BEFORE = (
    "labels and confidences use the scores before it, and a confidence is a difference of two "
    "such scores, not a probability"
)
_LAST = "supported only as the last operator, over the labels; remove it, and train with ReLU"


class FinalSoftmax(Rewrite):
    """Final Softmax over the labels, as every exporter writes it; omitted.

    It keeps the order of the scores, except for near-ties in float32 (`docs/soundness.md`).
    """

    operator = "Softmax"
    attributes = accepted_values(axis=ANY)

    def visit(self, use: Use, draft: Draft) -> Ending:
        """See `Rewrite.visit`."""
        # Before opset 13 all axes from `axis` on are one: the same, of [batch, labels].
        axis = int(use.attribute("axis", 1 if use.opset < 13 else -1))
        over = {0, -1} if use.bare else {1, -1}
        last = use.proto.output[0] in draft.last.same
        if not last or len(use.shape) != 1 or use.shape[0] < 2 or axis not in over:
            raise UnsupportedError(_LAST)
        return Ending(use.variables[0], f"the final {self.operator} is dropped: {_BEFORE}")


class FinalLogSoftmax(FinalSoftmax):
    """Final LogSoftmax over the labels, as torch writes for its losses; omitted."""

    operator = "LogSoftmax"


class FinalSigmoid(Rewrite):
    """Final Sigmoid of one number (two labels), or of one per label; omitted.

    It is increasing, so it keeps the order, and 0.5 is where the number is 0.
    """

    operator = "Sigmoid"

    def visit(self, use: Use, draft: Draft) -> Ending:
        """See `Rewrite.visit`."""
        output, last = use.proto.output[0], draft.last
        single = math.prod(use.shape) == 1
        if output not in (last.number if single else last.same):
            raise UnsupportedError(
                "supported only as the last operator; elsewhere, train with ReLU, LeakyReLU or "
                "Hardsigmoid instead"
            )
        return Ending(use.variables[0], f"the final Sigmoid is dropped: {_BEFORE}")
