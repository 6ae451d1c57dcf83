"""ONNX operators that can be expressed by others, one small class each."""

from __future__ import annotations

from leaveout.models.onnx.rewrites.attention import DataProduct, Softmax
from leaveout.models.onnx.rewrites.base import Draft, Ending, Last, Rewrite, Rewritten, rewrite_node
from leaveout.models.onnx.rewrites.constants import (
    CastToItself,
    ConstantCopy,
    ConstantNode,
    ConstantReshape,
    ConstantTranspose,
    FinalArgMax,
    FinalSigmoid,
    FinalSoftmax,
    Negation,
    ReshapeWithoutZeros,
    ShapeOf,
    SizeOf,
)
from leaveout.models.onnx.rewrites.joins import MatrixProduct, SpreadSum
from leaveout.models.onnx.rewrites.piecewise import (
    Absolute,
    Celu,
    Clipping,
    Concatenation,
    Exponential,
    GlobalMaxPool,
    HardSigmoid,
    LeakyRelu,
    MaxPool,
    PadByItself,
    Pairwise,
    ReduceExtreme,
    Slopes,
    larger,
    smaller,
    total,
)
from leaveout.models.onnx.rewrites.products import (
    Gated,
    LayerNormalization,
    Power,
    Product,
    RootMeanSquare,
)

__all__ = ["REWRITES", "Draft", "Ending", "Last", "Rewrite", "Rewritten", "rewrite_node"]

REWRITES: tuple[Rewrite, ...] = (
    ConstantNode(),
    ConstantCopy(),
    ConstantTranspose(),
    *(ConstantReshape(kind) for kind in ("Flatten", "Reshape", "Squeeze", "Unsqueeze")),
    ShapeOf(),
    SizeOf(),
    FinalSoftmax("Softmax"),
    Softmax(),
    FinalSoftmax("LogSoftmax"),
    FinalSigmoid(),
    FinalArgMax(),
    CastToItself(),
    ReshapeWithoutZeros(),
    Negation(),
    MatrixProduct(),
    DataProduct(),
    SpreadSum("Add"),
    SpreadSum("Sub"),
    Product(),
    Gated("Mish"),
    Gated("HardSwish"),
    Power(),
    LayerNormalization(),
    RootMeanSquare(),
    LeakyRelu(),
    Slopes(),
    Absolute(),
    Clipping(),
    HardSigmoid(),
    Exponential("Elu", 1.0, 1.0),
    Exponential("Selu", 1.67326319217681884765625, 1.05070102214813232421875),
    Celu(),
    Pairwise("Max", larger),
    Pairwise("Min", smaller),
    Pairwise("Sum", total),
    MaxPool(),
    GlobalMaxPool(),
    ReduceExtreme("ReduceMax", larger),
    ReduceExtreme("ReduceMin", smaller),
    Concatenation(),
    PadByItself(),
)
"""The rewrites in order; the first that fits an operator is applied."""
