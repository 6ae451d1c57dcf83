"""Context of a syntax error: the unexpected token and the tokens around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leaveout.specs.text.build import position
from leaveout.specs.text.source import Position

if TYPE_CHECKING:
    from lark import Lark, Token
    from lark.exceptions import UnexpectedToken


CLOSES = {"LPAR": "RPAR", "LSQB": "RSQB"}
"""The closing bracket of every opening one, by the grammar's names."""

_BRIEF = 30


@dataclass(frozen=True)
class Scene:
    """The unexpected token and its surroundings."""

    before: tuple[Token, ...]  # all tokens before it
    token: Token
    after: Token | None  # the next token, None where there is none or it cannot be read
    accepts: frozenset[str]  # the grammar's names of the tokens that would fit

    @classmethod
    def of(cls, error: UnexpectedToken, text: str, parser: Lark) -> Scene:
        """Retokenise the text around an error of lark."""
        from lark.exceptions import UnexpectedCharacters

        token: Token = error.token
        accepts = frozenset(error.accepts)
        ended = token.type == "$END"
        start = token.start_pos or 0
        before: list[Token] = []
        after = None
        try:
            for each in parser.lex(text):
                if ended or (each.end_pos or 0) <= start:
                    before.append(each)
                elif (each.start_pos or 0) > start:
                    after = each
                    break
        except UnexpectedCharacters:
            pass
        return cls(tuple(before), token, after, accepts)

    @property
    def previous(self) -> Token | None:
        """The token before, if any."""
        return self.before[-1] if self.before else None

    @property
    def at(self) -> Position:
        """Position of the token; at the end of the text, just past the last token."""
        if self.token.type == "$END" and self.previous is not None:
            last = position(self.previous)
            return Position(last.end_line, last.end_column, last.end_line, last.end_column + 1)
        return position(self.token)

    @property
    def token_text(self) -> str:
        """The token as a message shows it."""
        if self.token.type == "$END":
            return "the end of the text"
        text = str(self.token)
        shown = text if len(text) <= _BRIEF else f"{text[:_BRIEF]}…"
        return shown if self.token.type == "TEXT" else f"'{shown}'"

    @property
    def adjacent_text(self) -> str:
        """The text of the previous token if it directly precedes this one."""
        if self.previous is None or self.previous.end_pos != self.token.start_pos:
            return ""
        return str(self.previous)

    @property
    def open_brackets(self) -> tuple[Token, ...]:
        """The brackets still open, innermost last."""
        stack: list[Token] = []
        for token in self.before:
            if token.type in CLOSES:
                stack.append(token)
            elif token.type in CLOSES.values():
                stack.pop()
        return tuple(stack)

    @property
    def heading(self) -> Token | None:
        """The token two before: a statement's keyword if its name was read last."""
        return self.before[-2] if len(self.before) > 1 else None

    def back(self) -> Position:
        """Return the joint position of the previous token and this one."""
        return position(self.previous).to(self.at) if self.previous is not None else self.at
