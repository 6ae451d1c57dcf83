"""Error messages with the place, the line, carets under the token, and the cure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from leaveout.errors import SpecError
from leaveout.names import nearest_name


@dataclass(frozen=True)
class Position:
    """Position of a node, counted from 1, with an exclusive end; 0 if built in Python."""

    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0

    def to(self, last: Position) -> Position:
        """Return the span from the start of this position to the end of another."""
        return Position(self.line, self.column, last.end_line, last.end_column)

    def shift_down(self, lines: int) -> Position:
        """Return the same position that many lines further down."""
        return Position(self.line + lines, self.column, self.end_line + lines, self.end_column)


@dataclass(frozen=True)
class Source:
    """The text of a specification, and its name in messages."""

    name: str
    text: str
    included: tuple[Source, ...] = ()  # the files it includes

    @property
    def lines(self) -> int:
        """The number of lines, without those of included files."""
        return self.text.count("\n") + 1

    def find(self, at: Position) -> tuple[Source, Position]:
        """Return the file of a position, and the position within that file."""
        before = 0
        for file in (self, *self.included):
            if at.line - before <= file.lines:
                return file, at.shift_down(-before)
            before += file.lines
        return self, at


# Of a longer line only the part around the token is shown.
LONGEST = 160
AROUND = 60
WORDIEST = 300


class Slip(Exception):  # noqa: N818 - it never reaches a user; `error_in_source` makes the error
    """An error and its position, before its source is known."""

    def __init__(self, at: Position, wrong: str, cure: str = "") -> None:
        super().__init__(wrong)
        self.at = at
        self.wrong = wrong
        self.cure = cure


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean ...?`` for the most similar known name, or an empty string."""
    near = nearest_name(name, known)
    return "" if near is None else f"did you mean '{near}'?"


def _printable(character: str) -> str:
    """Return the character, or a replacement if it is not printable."""
    return (
        character if character == "\t" or character.isprintable() else "\N{REPLACEMENT CHARACTER}"
    )


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _pad(before: str) -> str:
    # Only a tab is as wide as a tab.
    return "".join("\t" if character == "\t" else " " * _width(character) for character in before)


def error_in_source(source: Source, slip: Slip) -> SpecError:
    """Return the error that shows a slip in its source."""
    at = slip.at
    lines = source.text.split("\n")
    # A carriage return belongs to the line's end, any other character to the line.
    line = lines[at.line - 1].removesuffix("\r") if 0 < at.line <= len(lines) else ""
    line = "".join(map(_printable, line))
    start = at.column - 1
    end = at.end_column - 1 if at.end_line == at.line else len(line)
    if len(line) > LONGEST:
        first, last = max(0, start - AROUND), min(len(line), start + AROUND)
        left, right = "…" * (first > 0), "…" * (last < len(line))
        line = left + line[first:last] + right
        start, end = start - first + len(left), min(end, last) - first + len(left)
    carets = "^" * max(1, sum(map(_width, line[start:end])))
    wrong = slip.wrong if len(slip.wrong) <= WORDIEST else f"{slip.wrong[:WORDIEST]}…"
    message = [
        f"{source.name}:{at.line}:{at.column}: {''.join(map(_printable, wrong))}",
        line,
        _pad(line[:start].ljust(start)) + carets,
    ]
    if slip.cure:
        message += ["".join(map(_printable, each)) for each in slip.cure.split("\n")]
    return SpecError("\n".join(message))


def error_in_file(source: Source, slip: Slip) -> SpecError:
    """Return the error that shows a slip in the file where it is."""
    file, at = source.find(slip.at)
    return error_in_source(file, Slip(at, slip.wrong, slip.cure))


def place(source: Source, at: Position, seen_from: Position) -> str:
    """Return ``line:column``, preceded by the name of the file if it is another one."""
    file, local = source.find(at)
    here, _ = source.find(seen_from)
    where = f"{local.line}:{local.column}"
    return where if file is here else f"{file.name}:{where}"
