"""Where things stand in the text of a specification."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Position", "Source"]


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


@dataclass(frozen=True)
class Source:
    """The text a specification was read from, and the name messages call it by."""

    name: str
    text: str
