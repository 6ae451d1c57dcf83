"""Nodes that give a constant: those that hold one, and those that pass one on."""

from __future__ import annotations

import numpy as np

from leaveout.models.onnx_attributes import ANY, accepting
from leaveout.models.onnx_use import UnsupportedError, Use
from leaveout.models.onnx_values import constant_value
from leaveout.models.rewrites.base import Draft, Rewrite

__all__ = ["ConstantCopy", "ConstantNode", "ConstantTranspose"]


class ConstantNode(Rewrite):
    """Constant, as tf2onnx and torch write numbers of the code: its value; nothing is computed."""

    operator = "Constant"
    inputs = ()
    attributes = accepting(
        sparse_value=ANY,
        value=ANY,
        value_float=ANY,
        value_floats=ANY,
        value_int=ANY,
        value_ints=ANY,
        value_string=ANY,
        value_strings=ANY,
    )

    def visit(self, use: Use, draft: Draft) -> str:
        """See `Rewrite.visit`."""
        return draft.constant(constant_value(use.proto))


class ConstantCopy(Rewrite):
    """Identity of a constant, as torch writes shared parameters: that constant, a parameter too."""

    operator = "Identity"
    inputs = ("constant",)

    def visit(self, use: Use, draft: Draft) -> str:
        """See `Rewrite.visit`."""
        return use.constant(0)


class ConstantTranspose(Rewrite):
    """Transpose of a constant, as torch and Keras write of a weight: numbers are only moved."""

    operator = "Transpose"
    inputs = ("constant",)
    attributes = accepting(perm=ANY)

    def visit(self, use: Use, draft: Draft) -> str:
        """See `Rewrite.visit`."""
        source = use.values[use.constant(0)]
        order = tuple(int(i) for i in use.attribute("perm", range(source.ndim)[::-1]))
        if sorted(order) != list(range(source.ndim)):
            raise UnsupportedError(f"perm = {list(order)} is no order of {source.ndim} axes")
        if source.dtype == np.float32:
            return draft.transposed(use.constant(0), order)
        return draft.constant(source.transpose(order))
