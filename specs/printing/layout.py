"""Line breaking: words, and places where a line may end.

A statement becomes parts. A group is printed on one line if it fits, else each `Break` of it
ends a line; a `Fill` ends a line only where the next item does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

STEP = 4
"""Columns that a broken line is indented by."""


@dataclass(frozen=True)
class Comment:
    """A one-line comment, after something or on its own line."""

    text: str
    alone: bool


@dataclass(frozen=True)
class Word:
    """Text that stays together."""

    text: str
    token: int = -1  # number of the last token of it, -1 for one that is not counted: a parenthesis
    tokens: int = 1  # how many it has: a negative number has two


@dataclass(frozen=True)
class Break:
    """A possible line end, printed as ``flat`` if the line goes on."""

    flat: str = " "


@dataclass(frozen=True)
class Group:
    """Parts on one line, or broken at every `Break` with inner lines indented."""

    parts: tuple[Part, ...]
    indented: bool = False


@dataclass(frozen=True)
class Fill:
    """Items separated by a `Break` that ends a line only if necessary."""

    items: tuple[Group, ...]


Part: TypeAlias = Word | Break | Group | Fill

_CLOSING = frozenset({")", "]", ",", ":"})


def _words(part: Part) -> list[Word | Break]:
    match part:
        case Group():
            return [word for each in part.parts for word in _words(each)]
        case Fill():
            found: list[Word | Break] = []
            for item in part.items:
                found += [*([Break()] if found else []), *_words(item)]
            return found
        case _:
            return [part]


@dataclass
class _Printer:
    """Printer of parts; comments keep the token they follow and end the line."""

    width: int
    comments: Mapping[int, Sequence[Comment]]
    lines: list[str] = field(default_factory=lambda: [""])
    waiting: list[Comment] = field(default_factory=list)
    gap: str = ""

    def word(self, word: Word, indent: int) -> None:
        if word.text == " ":
            self.gap = " "
            return
        if self.waiting and word.text not in _CLOSING:
            self.end_line(max(indent, STEP))
        self.lines[-1] += self.gap + word.text
        self.gap = ""
        self.waiting += self.after(word)

    def after(self, word: Word) -> list[Comment]:
        """Return the comments that follow a word."""
        first = word.token - word.tokens + 1
        return [
            comment
            for token in range(first, word.token + 1)
            for comment in self.comments.get(token, ())
        ]

    def end_line(self, indent: int, before: int = 0) -> None:
        """Start a new line after pending comments, whose indent may differ."""
        own = self.waiting
        if own and not own[0].alone:
            self.lines[-1] += f"  {own[0].text}"
            own = own[1:]
        self.lines += [" " * max(indent, before) + comment.text for comment in own]
        self.lines.append(" " * indent)
        self.waiting, self.gap = [], ""

    def fits(self, part: Part, after: int = 0) -> bool:
        """Return whether a part fits in the line with no comment inside it."""
        used = len(self.lines[-1]) + len(self.gap) + after
        commented = False
        for each in _words(part):
            if isinstance(each, Break):
                used += len(each.flat)
                continue
            if commented and each.text not in _CLOSING:
                return False
            found = self.after(each)
            if any(comment.alone for comment in found) and each.text not in _CLOSING:
                return False
            commented = commented or bool(found)
            used += len(each.text)
        return used <= self.width

    def flat(self, part: Part, indent: int) -> None:
        for each in _words(part):
            if isinstance(each, Word):
                self.word(each, indent)
            else:
                self.gap = each.flat

    def print(self, part: Part, indent: int, broken: bool, after: int = 0) -> None:
        match part:
            case Word():
                self.word(part, indent)
            case Break() if broken:
                self.end_line(indent)
            case Break():
                self.gap = part.flat
            case Fill():
                self.fill(part, indent)
            case Group():
                self.group(part, indent, after)

    def group(self, group: Group, indent: int, after: int) -> None:
        if self.fits(group, after):
            self.flat(group, indent)
            return
        inner = indent + STEP if group.indented else indent
        for i, part in enumerate(group.parts):
            # What closes a group stands where its line began.
            closes = group.indented and i >= len(group.parts) - 2 and _is_closing(group.parts[-1])
            if closes and isinstance(part, Break):
                self.end_line(indent, inner)
                continue
            follows = _closers(group.parts[i + 1 :])
            self.print(part, indent if closes else inner, True, follows)

    def fill(self, fill: Fill, indent: int) -> None:
        for i, item in enumerate(fill.items):
            if i and self.waiting:
                self.end_line(indent)
            elif i:
                self.gap = " "
                if not self.fits(item):
                    self.end_line(indent)
            self.group(item, indent, 0)


def _is_closing(part: Part) -> bool:
    return isinstance(part, Word) and part.text in _CLOSING


def _closers(parts: Sequence[Part]) -> int:
    """Return the width of what follows before the next possible line end."""
    width = 0
    for part in parts:
        if not isinstance(part, Word):
            break
        width += len(part.text)
    return width


def render_lines(
    part: Part, width: int, comments: Mapping[int, Sequence[Comment]]
) -> tuple[str, ...]:
    """Return the lines of a statement and of its comments."""
    printer = _Printer(width, comments)
    printer.print(part, 0, False)
    printer.end_line(0)
    return tuple(printer.lines[:-1])
