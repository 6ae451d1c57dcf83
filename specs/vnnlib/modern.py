"""Version 2.0: declared networks, then assertions over the elements of tensors."""

from __future__ import annotations

import re

from leaveout.specs.text.errors import Slip, nearest
from leaveout.specs.text.source import Position
from leaveout.specs.vnnlib.assertions import Assertions
from leaveout.specs.vnnlib.declarations import Declarations, Names
from leaveout.specs.vnnlib.formula import All, Formula
from leaveout.specs.vnnlib.lisp import Bracketed, Word, read_lists
from leaveout.specs.vnnlib.problem import Problem
from leaveout.specs.vnnlib.text import Lines

VERSIONS = ("2.0", "2.1")
"""Of these the second adds the default values of inputs, which are not read."""

_VERSION = re.compile(r"\s*\(\s*vnnlib-version\b")
_MODERN_COMMANDS = ("declare-network", "assert")


def is_modern(bare: str) -> bool:
    """Return whether a text without comments states its version."""
    return _VERSION.match(bare) is not None


def read_modern(bare: str, source: str) -> Problem:
    """Read a query of version 2.0."""
    lines, names = Lines(bare), Names()
    formulas = Assertions(lines, names)
    first, *rest = read_lists(bare)
    _refuse_version(first, formulas)
    declarations = Declarations(lines, names)
    asserted: list[Formula] = []
    for each in rest:
        if each.head == "assert":
            if not names.networks:
                raise Slip(formulas.at(each), "an assertion before any network is declared")
            asserted.append(formulas.read_assert(each))
        elif each.head == "declare-network":
            if asserted:
                wrong = "a network is declared after an assertion"
                raise Slip(formulas.at(each), wrong, "declare all networks first")
            declarations.network(each)
        else:
            wrong = f"the command '{each.head[:40]}' is not read"
            raise Slip(formulas.at_head(each), wrong, nearest(each.head[:40], _MODERN_COMMANDS))
    if not names.networks:
        raise Slip(Position(1, 1, 1, 1), "the query declares no network")
    return Problem(source, "2.0", tuple(names.networks), All(tuple(asserted)))


def _refuse_version(given: Bracketed, formulas: Assertions) -> None:
    match given.items[1:]:
        case [Word(text=text) as word]:
            if text not in {f"<{version}>" for version in VERSIONS}:
                wrong = f"version '{text[:20]}' is not read"
                raise Slip(formulas.at(word), wrong, f"1.0, {' and '.join(VERSIONS)} are")
        case _:
            raise Slip(formulas.at(given), "expected '(vnnlib-version <2.0>)'")
