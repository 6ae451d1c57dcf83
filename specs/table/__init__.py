"""The built-in functions, a file a subject."""

from __future__ import annotations

from leaveout.specs.table import access, deletion, inputs, networks, points, votes
from leaveout.specs.table.signatures import Function

__all__ = ["BUILT_IN"]

BUILT_IN: tuple[Function, ...] = (
    *networks.FUNCTIONS,
    *inputs.FUNCTIONS,
    *points.FUNCTIONS,
    *votes.FUNCTIONS,
    *deletion.FUNCTIONS,
    *access.FUNCTIONS,
)
