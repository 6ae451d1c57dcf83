"""Statements of the language in words; anything without words stays as written."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from leaveout.errors import cause
from leaveout.specs import (
    And,
    Binder,
    Call,
    Compare,
    Confident,
    Expression,
    Find,
    ForAll,
    Function,
    Guarantee,
    Implies,
    Node,
    Not,
    Or,
)
from leaveout.specs.table.signatures import bind
from leaveout.specs.text.errors import Slip
from leaveout.specs.text.expressions import walk

T = TypeVar("T")


def call_hook(function: Function, what: str, make: Callable[[], T]) -> T | None:
    """Return what a declaration's hook makes; None, with a warning, if it fails."""
    try:
        return make()
    except (Exception, SystemExit) as error:  # a plug-in may raise anything
        why = cause(error)
        warnings.warn(f"'{what}' of function {function.name} failed: {why}", stacklevel=2)
        return None


CLAIMED = "It is claimed that "
"""How every guarantee in words begins."""

_COMPARED = {
    "==": "is",
    "!=": "is not",
    "<": "is below",
    "<=": "is at most",
    ">": "is above",
    ">=": "is at least",
}


def in_words(statement: Guarantee | Find, table: Mapping[str, Function]) -> str:
    """Return a statement as an equivalent sentence."""
    said = _Prose(table).claim(statement.claim)
    if isinstance(statement, Guarantee):
        return f"{CLAIMED}{said}."
    the = "For each label, the" if statement.per_label else "The"
    return f"{the} {statement.direction} {statement.variable} such that {said}."


def claim_in_words(claim: Expression, table: Mapping[str, Function]) -> str:
    """Return a claim as a phrase, without its verdict or confidence."""
    return _Prose(table).claim(claim.claim if isinstance(claim, Confident) else claim)


def vocabulary(
    nodes: tuple[Node, ...], table: Mapping[str, Function]
) -> tuple[tuple[str, str], ...]:
    """Return the functions that nodes call and their meanings, in order of first appearance."""
    called = [each.function for each in walk(*nodes) if isinstance(each, Call)]
    return tuple((name, table[name].doc) for name in dict.fromkeys(called) if name in table)


@dataclass(frozen=True)
class _Prose:
    """Phrases expressions, using the words of the functions they call."""

    table: Mapping[str, Function]

    def claim(self, node: Expression) -> str:
        match node:
            case ForAll(binders, body):
                return f"for {' and '.join(map(_every, binders))}: {self.claim(body)}"
            case Implies(left, right):
                return f"if {self._part(left, And, Or)}, then {self._part(right, Implies, And, Or)}"
            case And(left, right):
                return f"{self._part(left, And)} and {self._part(right, And)}"
            case Or(left, right):
                return f"{self._part(left, Or)} or {self._part(right, Or)}"
            case Not(claim):
                return f"it is not true that {self._part(claim)}"
            case Compare(left, operator, right):
                return f"{self._term(left)} {_COMPARED[operator]} {self._term(right)}"
            case Confident(claim, level):
                return f"with confidence {level}, {self.claim(claim)}"
            case _:
                return self._term(node)

    def _part(self, node: Expression, *clear: type[Node]) -> str:
        """Return a nested claim, in parentheses where its end is ambiguous."""
        joins = isinstance(node, ForAll | Implies | And | Or | Confident | Not)
        said = self.claim(node)
        return f"({said})" if joins and not isinstance(node, clear) else said

    def _term(self, node: Expression) -> str:
        if not (isinstance(node, Call) and node.function in self.table):
            return str(node)
        function = self.table[node.function]
        try:
            given = {name: str(value) for name, value in bind(node, function).items()}
        except Slip:
            return str(node)
        return call_hook(function, "words", lambda: function.call_words(given)) or str(node)


def _every(binder: Binder) -> str:
    if binder.but is None:
        return f"every {binder.name} in {binder.domain}"
    return (
        f"every {binder.name} that lacks one training row, except for a share of {binder.but} of "
        f"the rows ({binder.domain} is a sample)"
    )
