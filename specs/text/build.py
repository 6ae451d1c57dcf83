"""Builder of the tree while lark reduces: one method per grammar rule, children in order."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from leaveout.errors import SpecError
from leaveout.specs.text.errors import Position, Slip
from leaveout.specs.text.expressions import (
    And,
    Arithmetic,
    Binder,
    Call,
    Compare,
    Confident,
    Expression,
    ForAll,
    Implies,
    ListOf,
    Name,
    Negate,
    Not,
    Number,
    Option,
    Or,
    Text,
    unquote_text,
    wrong_escape,
)
from leaveout.specs.text.tree import Find, Guarantee, Include, Let, Param, Statement

# Tokens, nodes and groups from lark, with no token filtered out.
Parts = list[Any]


class _Group(NamedTuple):
    """A parenthesised expression, whose parentheses extend the enclosing position."""

    node: Expression
    at: Position


def position(token: Any) -> Position:
    """Return the position of a lark token."""
    return Position(token.line, token.column, token.end_line, token.end_column)


def _at(part: Any) -> Position:
    return part.at if hasattr(part, "at") else position(part)


def _span(parts: Parts) -> Position:
    return _at(parts[0]).to(_at(parts[-1]))


def _bare(part: Any) -> Any:
    return part.node if isinstance(part, _Group) else part


def _between(parts: Parts, opening: str) -> Parts:
    """Return the parts between a pair of brackets, without commas."""
    first = next(index for index, part in enumerate(parts) if part == opening)
    # A missing optional part is None.
    return [_bare(part) for part in parts[first + 1 : -1] if part is not None and part != ","]


def _text(token: Any) -> Text:
    text, at = str(token), position(token)
    wrong = wrong_escape(text)
    if wrong is not None:
        start = at.column + wrong
        raise Slip(
            Position(at.line, start, at.line, start + 2),
            f"'{text[wrong : wrong + 2]}' has no meaning in a text",
            r"write \\ for a backslash, or / in a path",
        )
    try:
        return Text(unquote_text(text), at=at)
    except SpecError as error:
        raise Slip(at, str(error)) from None


class _Builder:
    """Builder of nodes; raises `Slip` for text that parses but is not allowed."""

    def start(self, parts: Parts) -> tuple[Statement, ...]:
        return tuple(parts)

    def let(self, parts: Parts) -> Let:
        _, name, _, value = parts
        return Let(str(name), _bare(value), at=_span(parts), name_at=position(name))

    def param(self, parts: Parts) -> Param:
        _, name, _, value = parts
        return Param(str(name), _bare(value), at=_span(parts), name_at=position(name))

    def include(self, parts: Parts) -> Include:
        return Include(_text(parts[1]), at=_span(parts))

    def guarantee(self, parts: Parts) -> Guarantee:
        _, name, _, claim = parts
        return Guarantee(str(name), _bare(claim), at=_span(parts), name_at=position(name))

    def find(self, parts: Parts) -> Find:
        _, name, _, direction, variable, per_label, _, _, claim = parts
        return Find(
            str(name),
            direction.value,
            str(variable),
            per_label is not None,
            _bare(claim),
            at=_span(parts),
            name_at=position(name),
            variable_at=position(variable),
        )

    def per_label(self, parts: Parts) -> bool:
        if parts[1] != "label":
            raise Slip(position(parts[1]), f"expected 'label' after 'per', found '{parts[1]}'")
        return True

    def confident(self, parts: Parts) -> Confident:
        claim, _, word, level = parts
        if word != "confidence":
            wrong = f"expected 'confidence' after 'with', found '{word}'"
            raise Slip(position(word), wrong, "write: ... with confidence 0.95")
        return Confident(_bare(claim), level, at=_span(parts))

    def implies(self, parts: Parts) -> Implies:
        return Implies(_bare(parts[0]), _bare(parts[2]), at=_span(parts))

    def or_(self, parts: Parts) -> Or:
        return Or(_bare(parts[0]), _bare(parts[2]), at=_span(parts))

    def and_(self, parts: Parts) -> And:
        return And(_bare(parts[0]), _bare(parts[2]), at=_span(parts))

    def not_(self, parts: Parts) -> Not:
        return Not(_bare(parts[1]), at=_span(parts))

    def forall(self, parts: Parts) -> ForAll:
        binders = tuple(part for part in parts[:-1] if isinstance(part, Binder))
        return ForAll(binders, _bare(parts[-1]), at=_span(parts))

    def binder(self, parts: Parts) -> Binder:
        name, _, domain, *rest = [part for part in parts if part is not None]
        but = _bare(rest[-1]) if rest else None
        return Binder(str(name), _bare(domain), but, at=_span([name, domain, *rest]))

    def compare(self, parts: Parts) -> Compare:
        left, operator, right = parts
        return Compare(_bare(left), operator.value, _bare(right), at=_span(parts))

    def arithmetic(self, parts: Parts) -> Arithmetic:
        left, operator, right = parts
        return Arithmetic(_bare(left), operator.value, _bare(right), at=_span(parts))

    def negate(self, parts: Parts) -> Negate:
        return Negate(_bare(parts[1]), at=_span(parts))

    def number(self, parts: Parts) -> Number:
        digits = str(parts[-1])
        value = float(digits)
        if value == float("inf"):
            raise Slip(_span(parts), "this number is too large", "the largest is about 1.8e308")
        if value == 0 and digits.lower().partition("e")[0].strip("0.") != "":
            raise Slip(
                _span(parts), "this number is too small: it would become 0", "write 0 if you mean 0"
            )
        return Number(-value if len(parts) == 2 else value, at=_span(parts))

    def text(self, parts: Parts) -> Text:
        return _text(parts[0])

    def name(self, parts: Parts) -> Name:
        return Name(str(parts[0]), at=_span(parts))

    def call(self, parts: Parts) -> Call:
        given = _between(parts, "(")
        options = tuple(part for part in given if isinstance(part, Option))
        arguments = tuple(part for part in given if not isinstance(part, Option))
        for before, after in itertools.pairwise(given):
            if isinstance(before, Option) and not isinstance(after, Option):
                wrong = f"an argument without a name follows '{before.name} = ...'"
                raise Slip(after.at, wrong, "put the arguments without a name first")
        return Call(str(parts[0]), arguments, options, at=_span(parts))

    def option(self, parts: Parts) -> Option:
        name, _, value = parts
        return Option(str(name), _bare(value), at=_span(parts))

    def list_of(self, parts: Parts) -> ListOf:
        return ListOf(tuple(_between(parts, "[")), at=_span(parts))

    def group(self, parts: Parts) -> _Group:
        return _Group(_bare(parts[1]), _span(parts))


def builder() -> object:
    """Return the object whose methods lark calls, named after the grammar's rules."""
    return _Builder()
