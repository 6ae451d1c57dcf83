"""Every function of the language, from the table in ``leaveout.specs``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from leaveout.specs import table
from leaveout.specs.table.functions import BUILT_IN
from leaveout.specs.table.reference import described
from leaveout.specs.table.signatures import Function

__all__ = ["links", "page"]


def page() -> str:
    """Return a section a subject, a function a subsection, as Markdown."""
    lines: list[str] = []
    for subject, words, functions in _subjects():
        lines += [f"## {subject}", "", words, ""]
        for function in functions:
            lines.append(described(function, "spec"))
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
    place = {function.name: index for index, function in enumerate(BUILT_IN)}
    found = []
    for module in pkgutil.iter_modules(table.__path__):
        loaded = importlib.import_module(f"{table.__name__}.{module.name}")
        functions = tuple(getattr(loaded, "FUNCTIONS", ()))
        if functions:
            words = (loaded.__doc__ or "").strip().split("\n\n")[0]
            found.append((module.name.capitalize(), words, functions))
    if sum(len(functions) for _, _, functions in found) != len(BUILT_IN):
        raise ValueError("a function of the table is in no file of specs/table")
    yield from sorted(found, key=lambda subject: place[subject[2][0].name])
