"""Every function of the language, from the table in ``leaveout.specs``."""

from __future__ import annotations

from leaveout.specs.table import SUBJECTS
from leaveout.specs.table.reference import describe_function

__all__ = ["page"]


def page() -> str:
    """Return a section a subject, a function a subsection, as Markdown."""
    lines: list[str] = []
    for file in SUBJECTS:
        name = file.__name__.rpartition(".")[2].capitalize()
        lines += [f"## {name}", "", (file.__doc__ or "").strip().split("\n\n")[0], ""]
        lines += [describe_function(function, "spec") for function in file.FUNCTIONS]
    return "\n".join(lines)
