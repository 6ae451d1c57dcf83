"""Numpydoc docstrings as Sphinx wants them: before napoleon reads them, and after.

Types are words here, "ndarray of float32, shape (n,)", and no names to look up; attributes become a
list; names of the package in single backticks become links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sphinx.application import Sphinx

__all__ = ["attributes_listed", "clean", "literal", "setup"]

_REFERENCE = re.compile(r"(?<![`:\w])`(leaveout(?:\.\w+)+)`(?!`)")
_STAR = re.compile(r"(?<![\w*`\\])\*(?=\w)(?![^*]*\*)")
_TYPE = re.compile(r"^(\s*:(?:type|rtype)[^:]*:\s+)([^`\s][^`]*)$")
_HEADS = {"Attributes", "Class attributes"}


def clean(line: str) -> str:
    """Return a line whose names of the package are links, and whose lone stars are stars."""
    return _STAR.sub(r"\\*", _REFERENCE.sub(r":py:obj:`~\1`", line))


def literal(line: str) -> str:
    """Return a field of a type with the type as code."""
    return _TYPE.sub(lambda field: f"{field[1]}``{field[2].replace(chr(92), '')}``", line)


def attributes_listed(lines: Sequence[str]) -> list[str]:
    """Return a docstring in which a section of attributes is a list."""
    found: list[str] = []
    at = 0
    while at < len(lines):
        if lines[at] in _HEADS and lines[at + 1 : at + 2] == ["-" * len(lines[at])]:
            end = _end(lines, at + 2)
            found += ["", *_bullets(lines[at + 2 : end]), ""]
            at = end
        else:
            found.append(lines[at])
            at += 1
    return found


def _end(lines: Sequence[str], start: int) -> int:
    """Return where the next section begins."""
    for at in range(start, len(lines) - 1):
        if lines[at] and set(lines[at + 1]) == {"-"} and len(lines[at + 1]) == len(lines[at]):
            return at
    return len(lines)


def _bullets(lines: Sequence[str]) -> Iterator[str]:
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line and not line.startswith(" "):
            names, _, kind = line.partition(" : ")
            shown = ", ".join(f"``{name}``" for name in names.split(", "))
            colon = ":" if following.startswith(" ") else ""
            yield f"* {shown}{f' ({kind})' if kind else ''}{colon}"
        elif line:
            yield f"  {line.strip()}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to docstrings before napoleon reads them, and after."""
    properties: dict[str, list[str]] = {}

    def before(
        app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
    ) -> None:
        lines[:] = attributes_listed([clean(line) for line in lines])
        if what == "property":
            properties[name] = list(lines)

    def after(
        app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
    ) -> None:
        # Napoleon takes the words of a property before a colon for its type.
        lines[:] = properties.get(name) or [literal(line) for line in lines]

    app.connect("autodoc-process-docstring", before, priority=100)
    app.connect("autodoc-process-docstring", after, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
