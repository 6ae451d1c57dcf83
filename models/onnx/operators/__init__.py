"""ONNX operators that fold into affine maps, one small class each."""

from __future__ import annotations

from leaveout.models.onnx.operators.base import (
    Affine,
    Constants,
    Normal,
    Operator,
    Relu,
    Shape,
    Shapes,
    Smooth,
)

__all__ = ["Affine", "Constants", "Normal", "Operator", "Relu", "Shape", "Shapes", "Smooth"]
