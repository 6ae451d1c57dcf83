"""ONNX operators that fold into affine maps, one small class each."""

from leaveout.models.operators.base import Affine, Constants, Operator, Relu, Shape, Shapes

__all__ = ["Affine", "Constants", "Operator", "Relu", "Shape", "Shapes"]
