"""Nested lists of words in brackets, as in SMT-LIB."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from leaveout.specs.text.errors import Slip
from leaveout.specs.vnnlib.text import place

_TOKEN = re.compile(
    r"""[()]
    | "(?:[^"]|"")*" | \|[^|]*\|
    | [A-Za-z]\w*+\s*+\[[^\][()"|]*\]  # a name and what stands in square brackets after it
    | <\d+\.\d+>
    | [<>=!]= | => | [<>=*/] | [-+](?![\d.])  # operators, which need no space after them
    | [^\s()"|]+
    | ["|]""",
    re.ASCII | re.VERBOSE,
)


@dataclass(slots=True)
class Word:
    """A name, number, operator or quoted text, as written, with its start."""

    text: str
    start: int


@dataclass(slots=True)
class Bracketed:
    """A bracketed list, with its start."""

    items: list[Tree]
    start: int

    @property
    def head(self) -> str:
        """The first word; empty if there is none."""
        first = self.items[0] if self.items else None
        return first.text if isinstance(first, Word) else ""


Tree: TypeAlias = Word | Bracketed


def read_lists(bare: str) -> list[Bracketed]:
    """Read the lists of a text without comments or deep nesting."""
    found: list[Bracketed] = []
    open_lists: list[Bracketed] = []
    for match in _TOKEN.finditer(bare):
        text = match.group()
        if text == "(":
            open_lists.append(Bracketed([], match.start()))
        elif text == ")":
            if not open_lists:
                raise Slip(place(bare, *match.span()), "this ')' closes nothing")
            done = open_lists.pop()
            (open_lists[-1].items if open_lists else found).append(done)
        elif text in {'"', "|"}:
            raise Slip(place(bare, *match.span()), f"this {text} is not closed")
        elif not open_lists:
            wrong = f"'{text[:40]}' stands outside of all brackets"
            raise Slip(place(bare, *match.span()), wrong)
        else:
            open_lists[-1].items.append(Word(text, match.start()))
    if open_lists:
        start = open_lists[-1].start
        raise Slip(place(bare, start, start + 1), "this '(' is not closed")
    return found
