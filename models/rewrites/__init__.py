"""ONNX operators that are others in disguise, one small class each."""

from leaveout.models.rewrites.arithmetic import Negation
from leaveout.models.rewrites.base import Draft, Ending, Rewrite, Rewritten, rewritten
from leaveout.models.rewrites.constants import ConstantCopy, ConstantNode, ConstantTranspose
from leaveout.models.rewrites.copies import CastToItself, ReshapeWithoutZeros
from leaveout.models.rewrites.endings import FinalLogSoftmax, FinalSoftmax

__all__ = ["REWRITES", "Draft", "Ending", "Rewrite", "Rewritten", "rewritten"]

REWRITES: tuple[Rewrite, ...] = (
    ConstantNode(),
    ConstantCopy(),
    ConstantTranspose(),
    FinalSoftmax(),
    FinalLogSoftmax(),
    CastToItself(),
    ReshapeWithoutZeros(),
    Negation(),
)
"""Those that the reader applies; of one operator the first that fits."""
