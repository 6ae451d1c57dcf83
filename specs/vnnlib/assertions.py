"""Formulas of both versions: prefix notation over declared variables."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import Protocol

from leaveout.specs.text.errors import Slip, nearest
from leaveout.specs.text.source import Position
from leaveout.specs.vnnlib.formula import (
    All,
    Any,
    Formula,
    Linear,
    Place,
    UnreadableError,
    compare_linear,
    negate_formula,
    number,
    product,
    total,
)
from leaveout.specs.vnnlib.lisp import Bracketed, Tree, Word
from leaveout.specs.vnnlib.text import Lines

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
_SIGNS = {"<=": "<=", ">=": ">=", "<": "<", ">": ">", "=": "==", "==": "==", "!=": "!="}
_SIGNS["distinct"] = "!="
_ARITHMETIC = {"+", "-", "*", "/"}
LOGIC = {"and", "or", "not", "=>", "true", "false"}
_MOST_NAMES = 1000
"""Of those a name is compared with that is none of them."""


class Scope(Protocol):
    """Meanings of the names in a query."""

    def find(self, name: str) -> Place | None:
        """Return the element a name stands for; None if it is not declared.

        Raises
        ------
        UnreadableError
            If it is declared, and is no variable of formulas.
        """

    def names(self) -> Collection[str]:
        """Return the declared names."""


class Assertions:
    """Reader of the formulas of a text."""

    def __init__(self, lines: Lines, scope: Scope) -> None:
        self.lines, self.scope = lines, scope

    def at(self, tree: Tree) -> Position:
        """Return the position of a word, or of a list's opening bracket."""
        length = len(tree.text) if isinstance(tree, Word) else 1
        return self.lines.place(tree.start, tree.start + length)

    def at_head(self, tree: Bracketed) -> Position:
        """Return the position of the first word of a list."""
        return self.at(tree.items[0] if tree.items else tree)

    def read_assert(self, given: Bracketed) -> Formula:
        """Read ``(assert formula)``."""
        if len(given.items) != 2:
            raise Slip(self.at(given), "'assert' takes one formula")
        return self.formula(given.items[1])

    def formula(self, tree: Tree) -> Formula:
        """Read a formula, without ``assert`` around it."""
        if isinstance(tree, Word):
            if tree.text in {"true", "false"}:
                return All() if tree.text == "true" else Any()
            raise Slip(self.at(tree), f"expected a formula, found '{tree.text[:40]}'")
        head, rest = tree.head, tree.items[1:]
        if head in {"and", "or"}:
            parts = tuple(map(self.formula, rest))
            return All(parts) if head == "and" else Any(parts)
        if head == "not" and len(rest) == 1:
            return negate_formula(self.formula(rest[0]))
        if head == "=>" and len(rest) == 2:
            return Any((negate_formula(self.formula(rest[0])), self.formula(rest[1])))
        if head not in _SIGNS:
            wrong = f"'{head[:40]}' with {len(rest)} parts" if head else "this"
            cure = nearest(head[:40], LOGIC) if head else ""
            raise Slip(self.at_head(tree), f"{wrong} is no formula that is read", cure)
        return self._comparison(_SIGNS[head], rest, tree)

    def _comparison(self, sign: str, parts: Sequence[Tree], tree: Bracketed) -> Formula:
        at = self.at(tree)
        if len(parts) < 2 or (sign == "!=" and len(parts) > 2):
            raise Slip(at, f"'{tree.head}' compares two terms, found {len(parts)}")
        sides = [self._term(part) for part in parts]
        try:
            found = [compare_linear(sign, *pair, at) for pair in itertools.pairwise(sides)]
        except UnreadableError as error:
            raise error.slip_at(at) from None
        return found[0] if len(found) == 1 else All(tuple(found))

    def _term(self, tree: Tree) -> Linear:
        parts = [] if isinstance(tree, Word) else [self._term(part) for part in self._parts(tree)]
        try:
            return self._leaf(tree) if isinstance(tree, Word) else _combine_terms(tree, parts)
        except UnreadableError as error:
            raise error.slip_at(self.at(tree)) from None

    def _parts(self, tree: Bracketed) -> list[Tree]:
        if tree.head not in _ARITHMETIC:
            what = f"'{tree.head[:40]}'" if tree.head else "this"
            raise Slip(self.at_head(tree), f"{what} is no arithmetic that is read")
        if len(tree.items) < (3 if tree.head == "/" else 2):
            raise Slip(self.at(tree), f"'{tree.head}' of too few terms")
        return tree.items[1:]

    def _leaf(self, word: Word) -> Linear:
        spot = self.scope.find(word.text)
        if spot is not None:
            return Linear({spot: Fraction(1)})
        if _NUMBER.fullmatch(word.text):
            return Linear(constant=number(word.text))
        names = self.scope.names()
        cure = nearest(word.text[:40], names) if len(names) < _MOST_NAMES else ""
        raise UnreadableError(f"'{word.text[:40]}' is no number and no declared variable", cure)


def _combine_terms(tree: Bracketed, parts: list[Linear]) -> Linear:
    """Return the linear function of an arithmetic operation on its parts."""
    match tree.head:
        case "+":
            return total(parts)
        case "-" if len(parts) == 1:
            return parts[0].scale_by(Fraction(-1))
        case "-":
            return total(parts[:1], parts[1:])
        case "*":
            return product(parts)
    return _quotient(parts)


def _quotient(parts: list[Linear]) -> Linear:
    for divisor in parts[1:]:
        if divisor.terms:
            raise UnreadableError("division by a variable is not linear")
        if divisor.constant == 0:
            raise UnreadableError("division by 0")
    return product([parts[0], *(Linear(constant=1 / each.constant) for each in parts[1:])])
