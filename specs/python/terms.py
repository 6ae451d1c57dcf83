"""Expressions in Python: wrapped nodes whose operators build larger nodes.

The wrapper is not the node, because ``==`` of the one makes a comparison, ``==`` of the other
asks whether two trees are the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Literal, NoReturn, TypeAlias

from leaveout.errors import SpecError
from leaveout.specs.table.signatures import Function
from leaveout.specs.text.errors import Slip
from leaveout.specs.text.expressions import (
    And,
    Arithmetic,
    Call,
    Compare,
    Expression,
    Implies,
    ListOf,
    Name,
    Negate,
    Not,
    Number,
    Option,
    Or,
    Text,
)
from leaveout.specs.text.tokens import KEYWORDS
from leaveout.specs.text.tree import Let
from leaveout.specs.typing.arguments import bind

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_JOINED = "write '(a > b) & (c > d)': in Python '&', '|' and '~' bind tighter than comparisons"


class Term:
    """An expression of the language, built with Python's operators.

    Arithmetic and comparisons are Python's; claims are joined by ``&``, ``|``, ``~`` and
    `implies`.

    Parameters
    ----------
    node : Expression
        The tree of the expression.
    definition : Let, optional
        Of a name from `let` or `param`: the statement that gives it its value.
    """

    __slots__ = ("definition", "node")
    __hash__ = None  # type: ignore[assignment]
    # So that arrays leave operators to a term.
    __array_ufunc__ = None

    def __init__(self, node: Expression, definition: Let | None = None) -> None:
        self.node = node
        self.definition = definition

    def __str__(self) -> str:
        return str(self.node)

    def __repr__(self) -> str:
        return f"<Term {self.node}>"

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"'{self.node}' is neither true nor false before it is verified: for 'and', 'or' and "
            "'not' write '&', '|' and '~' with parentheses around comparisons, as in "
            "'(a < b) & (b < c)'; for 'a < b < c' write that too; for 'if' use .implies"
        )

    def __iter__(self) -> NoReturn:
        raise TypeError(f"'{self.node}' cannot be iterated in Python; use forall")

    def __contains__(self, item: object) -> NoReturn:
        raise TypeError(f"Python's 'in' cannot ask about '{self.node}'; use forall")

    def implies(self, other: Claim) -> Term:
        """Return ``self => other``."""
        return Term(Implies(claim_of(self, "the premise"), claim_of(other, "the conclusion")))

    def __and__(self, other: object) -> Term:
        return Term(And(_claim_operand(self, "&"), _claim_operand(other, "&")))

    def __rand__(self, other: object) -> Term:
        return Term(And(_claim_operand(other, "&"), _claim_operand(self, "&")))

    def __or__(self, other: object) -> Term:
        return Term(Or(_claim_operand(self, "|"), _claim_operand(other, "|")))

    def __ror__(self, other: object) -> Term:
        return Term(Or(_claim_operand(other, "|"), _claim_operand(self, "|")))

    def __invert__(self) -> Term:
        return Term(Not(_claim_operand(self, "~")))

    def __neg__(self) -> Term:
        return Term(Negate(self.node))

    def __add__(self, other: Value) -> Term:
        return _arithmetic(self, "+", other)

    def __radd__(self, other: Value) -> Term:
        return _arithmetic(other, "+", self)

    def __sub__(self, other: Value) -> Term:
        return _arithmetic(self, "-", other)

    def __rsub__(self, other: Value) -> Term:
        return _arithmetic(other, "-", self)

    def __mul__(self, other: Value) -> Term:
        return _arithmetic(self, "*", other)

    def __rmul__(self, other: Value) -> Term:
        return _arithmetic(other, "*", self)

    def __truediv__(self, other: Value) -> Term:
        return _arithmetic(self, "/", other)

    def __rtruediv__(self, other: Value) -> Term:
        return _arithmetic(other, "/", self)

    def __eq__(self, other: object) -> Term:  # type: ignore[override]
        return _compare(self, "==", other)

    def __ne__(self, other: object) -> Term:  # type: ignore[override]
        return _compare(self, "!=", other)

    def __lt__(self, other: Value) -> Term:
        return _compare(self, "<", other)

    def __le__(self, other: Value) -> Term:
        return _compare(self, "<=", other)

    def __gt__(self, other: Value) -> Term:
        return _compare(self, ">", other)

    def __ge__(self, other: Value) -> Term:
        return _compare(self, ">=", other)


Value: TypeAlias = object
"""A `Term`, a number, a text, a path, or a list, tuple or array of such."""

Claim: TypeAlias = Term


def term(value: Value) -> Term:
    """Return a Python value as an expression."""
    if isinstance(value, Term):
        return value
    if isinstance(value, str | os.PathLike):
        return Term(Text(os.fsdecode(value)))
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return Term(ListOf(tuple(term(item).node for item in value)))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Term(number(value))
    raise TypeError(f"expected a number, a text, a list or an expression, got {value!r}")


def number(value: float) -> Number:
    """Return a Python number as a node."""
    try:
        return Number(float(value))
    except OverflowError:
        raise SpecError("this number is too large; the largest is about 1.8e308") from None


def name(text: str) -> Term:
    """Return a name, of a let or a variable.

    Raises
    ------
    SpecError
        If it cannot be one.
    """
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        raise SpecError(f"a name is made of a-z, A-Z, 0-9 and _, not first of 0-9, got {text!r}")
    if text.upper() in KEYWORDS and text == text.lower():
        raise SpecError(f"'{text}' is a word of the language and cannot be a name")
    return Term(Name(text))


def names(text: str) -> tuple[Term, ...]:
    """Return the names that a text lists, separated by spaces."""
    return tuple(name(each) for each in text.split())


def claim_of(value: object, what: str) -> Expression:
    """Return the node of a claim."""
    if isinstance(value, Term) and not _is_number(value.node):
        return value.node
    raise TypeError(f"{what} must be a claim, such as a comparison, got {value!r}")


def call_builder(function: Function) -> Callable[..., Term]:
    """Return a Python function that builds calls of a function of the table.

    Bare words, such as ``adaptive``, are passed as strings.
    """
    words = {each.name: each.words for each in function.parameters}
    positional = [each.name for each in function.parameters if not each.named]

    def node(parameter: str, value: Value) -> Expression:
        if isinstance(value, str) and value in words.get(parameter, ()):
            return Name(value)
        return term(value).node

    def call(*arguments: Value, **options: Value) -> Term:
        parameters = [*positional, *[""] * len(arguments)]
        made = Call(
            function.name,
            tuple(node(each, value) for each, value in zip(parameters, arguments, strict=False)),
            tuple(Option(each, node(each, value)) for each, value in options.items()),
        )
        try:
            bind(made, function)
        except Slip as slip:
            raise SpecError(f"{slip.wrong}\n{slip.cure}".rstrip()) from None
        return Term(made)

    call.__name__ = call.__qualname__ = function.name
    call.__doc__ = f"{function.doc}\n\n{function.signature}\n\nAs text: {function.example}"
    return call


def _is_number(node: Expression) -> bool:
    return isinstance(node, Number | Text | ListOf | Negate | Arithmetic)


def _claim_operand(value: object, by: str) -> Expression:
    """Return the node of an operand that joins claims; refuse one that is not a claim."""
    if isinstance(value, Term) and not _is_number(value.node):
        return value.node
    shown = str(value) if isinstance(value, Term) else repr(value)
    raise TypeError(f"'{by}' joins claims, {shown} is none; {_JOINED}")


def _arithmetic(left: Value, operator: Literal["+", "-", "*", "/"], right: Value) -> Term:
    return Term(Arithmetic(term(left).node, operator, term(right).node))


def _compare(
    left: object, operator: Literal["==", "!=", "<", "<=", ">", ">="], right: object
) -> Term:
    return Term(Compare(term(left).node, operator, term(right).node))
