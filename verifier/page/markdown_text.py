"""Markdown in which all text is escaped, so names of others stay text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from leaveout.verifier.page.markup import clean

# What any common reader of Markdown gives a meaning, wherever in a line it stands. A dot or a
# bracket after a number, a hyphen and a plus have one at the start of a line only, where no text
# of others stands.
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#|~$&!^@]")
_FENCE = re.compile("`+")


def text(words: str) -> str:
    """Return a text on one line with all Markdown and HTML syntax escaped."""
    line = clean(" ".join(words.split()))
    return _SPECIAL.sub(_escape_sign, line)


def _escape_sign(found: re.Match[str]) -> str:
    """Return the escape of one special character."""
    sign = found[0]
    # As HTML these are safe in readers that know no backslash before them, too.
    return {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;"}.get(sign, f"\\{sign}")


def code_span(words: str) -> str:
    """Return a name as a code span, safe against backquotes and table bars."""
    line = clean(" ".join(words.split())) or " "
    if "|" in line:
        # Within a table a bar ends the cell even in code.
        return text(line)
    longest = max((len(each) for each in _FENCE.findall(line)), default=0)
    fence = "`" * (longest + 1)
    room = " " if longest else ""
    return f"{fence}{room}{line}{room}{fence}"


def list_items(lines: Iterable[str], numbered: bool = False) -> str:
    """Return a list of lines that are already Markdown."""
    return "".join(
        f"{f'{at}.' if numbered else '-'} {line}\n" for at, line in enumerate(lines, start=1)
    )


def rows(titles: Sequence[str], cells: Iterable[Sequence[str]]) -> str:
    """Return table rows of cells that are already Markdown."""
    head = f"| {' | '.join(titles)} |\n|{' --- |' * len(titles)}\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in cells)
