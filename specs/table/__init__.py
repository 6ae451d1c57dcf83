"""The built-in functions, one file per subject."""

from __future__ import annotations

from leaveout.specs.table import access, deletion, inputs, networks, points, votes
from leaveout.specs.table.signatures import Function

__all__ = ["BUILT_IN", "SUBJECTS"]

SUBJECTS = (networks, inputs, points, votes, deletion, access)

BUILT_IN: tuple[Function, ...] = tuple(each for file in SUBJECTS for each in file.FUNCTIONS)
