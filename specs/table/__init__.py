"""The built-in functions, a file a subject."""

from __future__ import annotations

from leaveout.specs.signatures import Function
from leaveout.specs.table import access, deletion, inputs, networks, points, votes

__all__ = ["BUILT_IN"]

BUILT_IN: tuple[Function, ...] = (
    *networks.FUNCTIONS,
    *inputs.FUNCTIONS,
    *points.FUNCTIONS,
    *votes.FUNCTIONS,
    *deletion.FUNCTIONS,
    *access.FUNCTIONS,
)
