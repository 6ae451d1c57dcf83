"""Where things stand in the text of a specification."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Position:
    """Where a node stands in its text, counted from 1; the end is just past the last character.

    A node built in Python stands nowhere: all its positions are 0.
    """

    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0

    def to(self, last: Position) -> Position:
        """Return the span from the start of this position to the end of another."""
        return Position(self.line, self.column, last.end_line, last.end_column)

    def moved(self, lines: int) -> Position:
        """Return the same place that many lines further down."""
        return Position(self.line + lines, self.column, self.end_line + lines, self.end_column)


@dataclass(frozen=True)
class Source:
    """The text a specification was read from, and the name messages call it by."""

    name: str
    text: str
    included: tuple[Source, ...] = ()  # the files it includes

    @property
    def lines(self) -> int:
        """How many lines the text has, without those of included files."""
        return self.text.count("\n") + 1

    def find(self, at: Position) -> tuple[Source, Position]:
        """Return the file a position is in, and the position as counted in that file."""
        before = 0
        for file in (self, *self.included):
            if at.line - before <= file.lines:
                return file, at.moved(-before)
            before += file.lines
        return self, at
