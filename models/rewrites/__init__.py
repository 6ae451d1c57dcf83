"""ONNX operators that can be expressed by others, one small class each."""

from leaveout.models.rewrites.arithmetic import Negation
from leaveout.models.rewrites.base import Draft, Ending, Last, Rewrite, Rewritten, rewrite_node
from leaveout.models.rewrites.constants import (
    ConstantCopy,
    ConstantNode,
    ConstantReshape,
    ConstantTranspose,
    ShapeOf,
    SizeOf,
)
from leaveout.models.rewrites.copies import CastToItself, ReshapeWithoutZeros
from leaveout.models.rewrites.endings import FinalLogSoftmax, FinalSigmoid, FinalSoftmax
from leaveout.models.rewrites.joining import Concatenation, PadByItself
from leaveout.models.rewrites.piecewise import (
    Absolute,
    Clipping,
    HardSigmoid,
    Largest,
    LeakyRelu,
    Slopes,
    Smallest,
    Total,
)
from leaveout.models.rewrites.pooling import GlobalMaxPool, MaxPool, ReduceMax, ReduceMin

__all__ = ["REWRITES", "Draft", "Ending", "Last", "Rewrite", "Rewritten", "rewrite_node"]

REWRITES: tuple[Rewrite, ...] = (
    ConstantNode(),
    ConstantCopy(),
    ConstantTranspose(),
    *(ConstantReshape(kind) for kind in ("Flatten", "Reshape", "Squeeze", "Unsqueeze")),
    ShapeOf(),
    SizeOf(),
    FinalSoftmax(),
    FinalLogSoftmax(),
    FinalSigmoid(),
    CastToItself(),
    ReshapeWithoutZeros(),
    Negation(),
    LeakyRelu(),
    Slopes(),
    Absolute(),
    Clipping(),
    HardSigmoid(),
    Largest(),
    Smallest(),
    Total(),
    MaxPool(),
    GlobalMaxPool(),
    ReduceMax(),
    ReduceMin(),
    Concatenation(),
    PadByItself(),
)
"""Those that the reader applies; of one operator the first that fits."""
