"""Positions in the text of a specification."""

from __future__ import annotations

from dataclasses import dataclass


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
