"""Version 1.0: one network, variables X_0, X_1, ... and Y_0, Y_1, ... as SMT-LIB declares them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from fractions import Fraction

from leaveout.specs.text.errors import Slip, nearest
from leaveout.specs.text.source import Position
from leaveout.specs.vnnlib.formula import (
    All,
    Any,
    Formula,
    Linear,
    Place,
    UnreadableError,
    compared,
    negated,
    number,
    product,
    total,
)
from leaveout.specs.vnnlib.lisp import Bracketed, Tree, Word, read_lists
from leaveout.specs.vnnlib.problem import Declared, Problem, Tensor
from leaveout.specs.vnnlib.text import Lines

__all__ = ["read_classic"]

_VARIABLE = re.compile(r"([XY])_(0|[1-9]\d{0,8})")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
_SIGNS = {"<=": "<=", ">=": ">=", "<": "<", ">": ">", "=": "==", "==": "==", "!=": "!="}
_SIGNS["distinct"] = "!="
_IGNORED = {"set-logic", "set-info", "set-option", "check-sat", "get-model", "exit"}
_COMMANDS = {"declare-const", "declare-fun", "assert"}
_ARITHMETIC = {"+", "-", "*", "/"}
_LOGIC = {"and", "or", "not", "=>", "true", "false"}


def read_classic(bare: str, source: str) -> Problem:
    """Read a query of version 1.0.

    Parameters
    ----------
    bare : str
        Its text without comments.
    source : str

    Raises
    ------
    Slip
        If it is malformed, or states what is not read.
    """
    lists = read_lists(bare)
    if not lists:
        raise Slip(Position(1, 1, 1, 1), "the query is empty")
    reader = _Reader(Lines(bare))
    asserted = [found for found in map(reader.command, lists) if found is not None]
    start = reader.at(lists[0])
    widths = [reader.width(letter, start) for letter in "XY"]
    network = Declared(
        "N", Tensor("X", "real", (widths[0],)), Tensor("Y", "real", (widths[1],)), start
    )
    return Problem(source, "1.0", (network,), All(tuple(asserted)))


class _Reader:
    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.declared: dict[str, Place] = {}

    def at(self, tree: Tree) -> Position:
        length = len(tree.text) if isinstance(tree, Word) else 1
        return self.lines.place(tree.start, tree.start + length)

    def at_head(self, tree: Bracketed) -> Position:
        return self.at(tree.items[0] if tree.items else tree)

    def command(self, given: Bracketed) -> Formula | None:
        head = given.head
        if head in {"declare-const", "declare-fun"}:
            self.declare(given)
        elif head == "assert":
            if len(given.items) != 2:
                raise Slip(self.at(given), "'assert' takes one formula")
            return self.formula(given.items[1])
        elif head not in _IGNORED:
            wrong = f"the command '{head[:40]}' is not read"
            raise Slip(self.at_head(given), wrong, nearest(head[:40], _COMMANDS))
        return None

    def declare(self, given: Bracketed) -> None:
        const = given.head == "declare-const"
        items = given.items[1:]
        if not const and len(items) == 3 and isinstance(items[1], Bracketed):
            items = [items[0], *items[1].items, items[2]]
        if len(items) != 2 or not all(isinstance(item, Word) for item in items):
            raise Slip(
                self.at(given), f"expected '({given.head} X_0 {'' if const else '() '}Real)'"
            )
        name, sort = items
        assert isinstance(name, Word)
        assert isinstance(sort, Word)
        match = _VARIABLE.fullmatch(name.text)
        if match is None:
            raise Slip(
                self.at(name),
                f"'{name.text[:40]}' names no variable of version 1.0",
                "inputs are X_0, X_1, ... and outputs Y_0, Y_1, ... of one network; state a query "
                "over several networks in version 2.0",
            )
        if sort.text != "Real":
            raise Slip(
                self.at(sort), f"{name.text} is of sort '{sort.text[:40]}'; only Real is read"
            )
        if name.text in self.declared:
            raise Slip(self.at(name), f"{name.text} is declared twice")
        self.declared[name.text] = Place(match.group(1) == "Y", 0, int(match.group(2)))

    def width(self, letter: str, at: Position) -> int:
        indices = {p.element for p in self.declared.values() if p.output == (letter == "Y")}
        if not indices:
            raise Slip(at, f"{letter}_0 is not declared")
        for i in range(len(indices)):
            if i not in indices:
                raise Slip(at, f"{letter}_{max(indices)} is declared and {letter}_{i} is not")
        return len(indices)

    def formula(self, tree: Tree) -> Formula:
        if isinstance(tree, Word):
            if tree.text in {"true", "false"}:
                return All() if tree.text == "true" else Any()
            raise Slip(self.at(tree), f"expected a formula, found '{tree.text[:40]}'")
        head, rest = tree.head, tree.items[1:]
        if head in {"and", "or"}:
            parts = tuple(map(self.formula, rest))
            return All(parts) if head == "and" else Any(parts)
        if head == "not" and len(rest) == 1:
            return negated(self.formula(rest[0]))
        if head == "=>" and len(rest) == 2:
            return Any((negated(self.formula(rest[0])), self.formula(rest[1])))
        if head not in _SIGNS:
            wrong = f"'{head[:40]}' with {len(rest)} parts" if head else "this"
            cure = nearest(head[:40], _LOGIC) if head else ""
            raise Slip(self.at_head(tree), f"{wrong} is no formula that is read", cure)
        return self.comparison(_SIGNS[head], rest, tree)

    def comparison(self, sign: str, parts: Sequence[Tree], tree: Bracketed) -> Formula:
        at = self.at(tree)
        if len(parts) < 2 or (sign == "!=" and len(parts) > 2):
            raise Slip(at, f"'{tree.head}' compares two terms, found {len(parts)}")
        sides = [self.term(part) for part in parts]
        try:
            found = [compared(sign, *pair, at) for pair in itertools.pairwise(sides)]
        except UnreadableError as error:
            raise error.placed(at) from None
        return found[0] if len(found) == 1 else All(tuple(found))

    def term(self, tree: Tree) -> Linear:
        parts = [] if isinstance(tree, Word) else [self.term(part) for part in self.parts(tree)]
        try:
            return self.leaf(tree) if isinstance(tree, Word) else self.combined(tree, parts)
        except UnreadableError as error:
            raise error.placed(self.at(tree)) from None

    def combined(self, tree: Bracketed, parts: list[Linear]) -> Linear:
        match tree.head:
            case "+":
                return total(parts)
            case "-" if len(parts) == 1:
                return parts[0].scaled(Fraction(-1))
            case "-":
                return total(parts[:1], parts[1:])
            case "*":
                return product(parts)
        return self.quotient(parts)

    def parts(self, tree: Bracketed) -> list[Tree]:
        if tree.head not in _ARITHMETIC:
            what = f"'{tree.head[:40]}'" if tree.head else "this"
            raise Slip(self.at_head(tree), f"{what} is no arithmetic that is read")
        if len(tree.items) < (3 if tree.head == "/" else 2):
            raise Slip(self.at(tree), f"'{tree.head}' of too few terms")
        return tree.items[1:]

    def quotient(self, parts: list[Linear]) -> Linear:
        for divisor in parts[1:]:
            if divisor.terms:
                raise UnreadableError("division by a variable is not linear")
            if divisor.constant == 0:
                raise UnreadableError("division by 0")
        return product([parts[0], *(Linear(constant=1 / each.constant) for each in parts[1:])])

    def leaf(self, word: Word) -> Linear:
        spot = self.declared.get(word.text)
        if spot is not None:
            return Linear({spot: Fraction(1)})
        if _NUMBER.fullmatch(word.text):
            return Linear(constant=number(word.text))
        cure = nearest(word.text[:40], self.declared) if len(self.declared) < 1000 else ""
        raise UnreadableError(f"'{word.text[:40]}' is no number and no declared variable", cure)
