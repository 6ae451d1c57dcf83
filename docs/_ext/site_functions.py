"""Every function of the language, from the table in ``leaveout.specs``."""

from __future__ import annotations

from collections.abc import Iterator

from leaveout.specs.table import SUBJECTS
from leaveout.specs.table.reference import describe_function
from leaveout.specs.table.signatures import Function

__all__ = ["links", "page"]


def page() -> str:
    """Return a section a subject, a function a subsection, as Markdown."""
    lines: list[str] = []
    for subject, words, functions in _subjects():
        lines += [f"## {subject}", "", words, ""]
        for function in functions:
            lines.append(describe_function(function, "spec"))
    return "\n".join(lines)


def links() -> str:
    """Return a table of all functions that leads to the page."""
    lines = ["[The functions](functions.md) have a page of their own:", "", "| | |", "|---|---|"]
    for subject, _, functions in _subjects():
        names = ", ".join(f"[`{each.name}`](functions.md#{each.name})" for each in functions)
        lines.append(f"| {subject} | {names} |")
    return "\n".join(lines)


def _subjects() -> Iterator[tuple[str, str, tuple[Function, ...]]]:
    """Yield heading, sentence and functions of each file of the table, in its order."""
    for file in SUBJECTS:
        name = file.__name__.rpartition(".")[2].capitalize()
        yield name, (file.__doc__ or "").strip().split("\n\n")[0], file.FUNCTIONS
