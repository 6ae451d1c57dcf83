"""Operators that return their input, possibly in another form."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from leaveout.models.onnx_attributes import ANY, FLAG, accepted_values, only
from leaveout.models.onnx_use import UnsupportedError, Use
from leaveout.models.rewrites.base import Draft, Rewrite


class CastToItself(Rewrite):
    """Cast to the present type, as torch writes ``x.float()``: an exact copy."""

    operator = "Cast"
    inputs = ("any",)
    attributes = accepted_values(to=ANY, saturate=FLAG)

    def visit(self, use: Use, draft: Draft) -> str | None:
        """See `Rewrite.visit`."""
        (name,) = use.proto.input
        here = np.dtype(np.float32) if name in use.shapes else use.values[name].dtype
        if use.attribute("to", 0) != helper.np_dtype_to_tensor_dtype(here):
            if not use.variables:
                return None
            asked = TensorProto.DataType.Name(use.attribute("to", 0)).lower()
            raise UnsupportedError(
                f"it casts {here} to {asked}; only a cast to itself is exact: export a model that "
                "computes in float32 throughout (model.float())"
            )
        return name


class ReshapeWithoutZeros(Rewrite):
    """Reshape with ``allowzero`` but no size 0, as torch's exporter writes."""

    operator = "Reshape"
    inputs = ("data", "integers")
    attributes = accepted_values(allowzero=only(1))

    def visit(self, use: Use, draft: Draft) -> str | None:
        """See `Rewrite.visit`."""
        if not use.attribute("allowzero", 0) or 0 in (use.integers(1, "shape") or [0]):
            return None
        return draft("Reshape", *use.proto.input)
