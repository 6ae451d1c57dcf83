"""Bracketed lists of words, as SMT-LIB writes them."""

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
    """A name, a number, an operator or a quoted text, as written, and where it starts."""

    text: str
    start: int


@dataclass(slots=True)
class Bracketed:
    """A list in brackets, and where it starts."""

    items: list[Tree]
    start: int

    @property
    def head(self) -> str:
        """The first word, empty if there is none."""
        first = self.items[0] if self.items else None
        return first.text if isinstance(first, Word) else ""


Tree: TypeAlias = Word | Bracketed


def read_lists(bare: str) -> list[Bracketed]:
    """Read the lists of a text that has no comments and no deep brackets."""
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
