"""Version 1.0: one network, variables X_0, X_1, ... and Y_0, Y_1, ... of SMT-LIB."""

from __future__ import annotations

import re
from collections.abc import Collection

from leaveout.specs.text.errors import Slip, nearest
from leaveout.specs.text.source import Position
from leaveout.specs.vnnlib.assertions import Assertions
from leaveout.specs.vnnlib.formula import All, Formula, Place
from leaveout.specs.vnnlib.lisp import Bracketed, Word, read_lists
from leaveout.specs.vnnlib.problem import Declared, Problem, Tensor
from leaveout.specs.vnnlib.text import Lines

_VARIABLE = re.compile(r"([XY])_(0|[1-9]\d{0,8})")
_IGNORED = {"set-logic", "set-info", "set-option", "check-sat", "get-model", "exit"}
_CLASSIC_COMMANDS = {"declare-const", "declare-fun", "assert"}


def read_classic(bare: str, source: str) -> Problem:
    """Read a query of version 1.0."""
    lists = read_lists(bare)
    if not lists:
        raise Slip(Position(1, 1, 1, 1), "the query is empty")
    variables = _Variables()
    formulas = Assertions(Lines(bare), variables)
    read = [_command(each, formulas, variables) for each in lists]
    asserted = tuple(found for found in read if found is not None)
    start = formulas.at(lists[0])
    widths = [variables.width(letter, start) for letter in "XY"]
    network = Declared(
        "N", Tensor("X", "real", (widths[0],)), Tensor("Y", "real", (widths[1],)), start
    )
    return Problem(source, "1.0", (network,), All(asserted))


def _command(given: Bracketed, formulas: Assertions, variables: _Variables) -> Formula | None:
    head = given.head
    if head in {"declare-const", "declare-fun"}:
        variables.declare(given, formulas)
    elif head == "assert":
        return formulas.read_assert(given)
    elif head not in _IGNORED:
        wrong = f"the command '{head[:40]}' is not read"
        raise Slip(formulas.at_head(given), wrong, nearest(head[:40], _CLASSIC_COMMANDS))
    return None


class _Variables:
    """A `Scope` of the variables of version 1.0."""

    def __init__(self) -> None:
        self.declared: dict[str, Place] = {}

    def find(self, name: str) -> Place | None:
        return self.declared.get(name)

    def names(self) -> Collection[str]:
        return self.declared

    def declare(self, given: Bracketed, formulas: Assertions) -> None:
        const = given.head == "declare-const"
        items = given.items[1:]
        if not const and len(items) == 3 and isinstance(items[1], Bracketed):
            items = [items[0], *items[1].items, items[2]]
        if len(items) != 2 or not all(isinstance(item, Word) for item in items):
            raise Slip(
                formulas.at(given), f"expected '({given.head} X_0 {'' if const else '() '}Real)'"
            )
        name, sort = items
        assert isinstance(name, Word)
        assert isinstance(sort, Word)
        match = _VARIABLE.fullmatch(name.text)
        if match is None:
            raise Slip(
                formulas.at(name),
                f"'{name.text[:40]}' names no variable of version 1.0",
                "inputs are X_0, X_1, ... and outputs Y_0, Y_1, ... of one network; state a query "
                "over several networks in version 2.0",
            )
        if sort.text != "Real":
            raise Slip(
                formulas.at(sort), f"{name.text} is of sort '{sort.text[:40]}'; only Real is read"
            )
        if name.text in self.declared:
            raise Slip(formulas.at(name), f"{name.text} is declared twice")
        self.declared[name.text] = Place(match.group(1) == "Y", 0, int(match.group(2)))

    def width(self, letter: str, at: Position) -> int:
        indices = {p.element for p in self.declared.values() if p.output == (letter == "Y")}
        if not indices:
            raise Slip(at, f"{letter}_0 is not declared")
        for i in range(len(indices)):
            if i not in indices:
                raise Slip(at, f"{letter}_{max(indices)} is declared and {letter}_{i} is not")
        return len(indices)
