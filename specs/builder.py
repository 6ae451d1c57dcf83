"""Specifications in Python: the same syntax tree, built with operators and functions.

::

    from leaveout.specs import box, confidence, family, find, forall, label, least, let
    from leaveout.specs import network, spec

    N = let("N", network("full.onnx"))
    F = let("F", family("family.npz"))
    bound = find(
        "bound",
        least("b", per_label=True),
        lambda b: forall(
            {"x": box(0, 1), "M": F},
            lambda x, M: (confidence(N, x) > b).implies(label(M, x) == label(N, x)),
        ),
    )
    leaveout.verify(spec(N, F, bound))

Claims are joined by ``&``, ``|``, ``~`` and ``.implies``; Python binds these tighter than
comparisons, so comparisons need parentheses: ``(a > b) & (c > d)``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, NoReturn, TypeAlias

from leaveout.errors import SpecError
from leaveout.specs.table import functions
from leaveout.specs.table.signatures import Function, bind
from leaveout.specs.text.errors import KEYWORDS, Slip
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
)
from leaveout.specs.text.tree import Find, Guarantee, Include, Let, Param, Spec, Statement

__all__ = [
    "Goal",
    "Term",
    "but",
    "find",
    "forall",
    "greatest",
    "guarantee",
    "include",
    "least",
    "let",
    "name",
    "names",
    "param",
    "spec",
    "term",
]

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
        For a name from `let` or `param`: the statement that defines it.
    """

    __slots__ = ("definition", "node")
    __hash__ = None  # type: ignore[assignment]
    # So that numpy arrays leave operators to `Term`.
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
        raise TypeError(f"'{self.node}' cannot be iterated over in Python; use forall")

    def __contains__(self, item: object) -> NoReturn:
        raise TypeError(f"Python's 'in' does not work on '{self.node}'; use forall")

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
"""A `Term`, number, text, path, or a list, tuple or array of these."""

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
    raise TypeError(f"expected a number, a string, a list or an expression, got {value!r}")


def number(value: float) -> Number:
    """Return a Python number as a node."""
    try:
        return Number(float(value))
    except OverflowError:
        raise SpecError("this number is too large; the largest is about 1.8e308") from None


def name(text: str) -> Term:
    """Return the node of a name, of a let or a variable.

    Raises
    ------
    SpecError
        If the text is not a valid name.
    """
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        raise SpecError(
            f"a name consists of a-z, A-Z, 0-9 and _ and does not begin with a digit, got {text!r}"
        )
    if text.upper() in KEYWORDS and text == text.lower():
        raise SpecError(f"'{text}' is a word of the language and cannot be a name")
    return Term(Name(text))


def names(text: str) -> tuple[Term, ...]:
    """Return the space-separated names in a text."""
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
    """Return the node of an operand of a logical operator; refuse one that is not a claim."""
    if isinstance(value, Term) and not _is_number(value.node):
        return value.node
    shown = str(value) if isinstance(value, Term) else repr(value)
    raise TypeError(f"'{by}' joins claims, but {shown} is not a claim; {_JOINED}")


def _arithmetic(left: Value, operator: Literal["+", "-", "*", "/"], right: Value) -> Term:
    return Term(Arithmetic(term(left).node, operator, term(right).node))


def _compare(
    left: object, operator: Literal["==", "!=", "<", "<=", ">", ">="], right: object
) -> Term:
    return Term(Compare(term(left).node, operator, term(right).node))


@dataclass(frozen=True)
class Goal:
    """The goal of a `find`, from `least` or `greatest`."""

    direction: Literal["least", "greatest"]
    variable: str
    per_label: bool


Written: TypeAlias = Term | Statement
"""A statement, or a term from `let` or `param`."""


def spec(*statements: Written) -> Spec:
    """Return a specification of these statements, in order.

    Parameters
    ----------
    statements : from `let`, `param`, `include`, `guarantee` and `find`

    Returns
    -------
    Spec
        ``str`` returns its text; pass it to `leaveout.verify`.
    """
    found: list[Statement] = []
    for each in statements:
        statement = each.definition if isinstance(each, Term) else each
        if not isinstance(statement, Let | Include | Guarantee | Find):
            raise TypeError(f"a specification consists of statements, got {each!r}")
        found.append(statement)
    return Spec(tuple(found))


def let(name_: str, value: Value) -> Term:
    """Define a name for a value, to use in expressions and to pass to `spec`."""
    return Term(name(name_).node, Let(name_, term(value).node))


def param(name_: str, value: Value) -> Term:
    """Define a named constant, like `let`, that the user can override."""
    return Term(name(name_).node, Param(name_, term(value).node))


def include(path: str) -> Include:
    """Return an include of another file's statements."""
    return Include(Text(str(path)))


def guarantee(name_: str, claim: Claim, *, confidence: float | None = None) -> Guarantee:
    """Return a claim to prove or refute.

    Parameters
    ----------
    name_ : str
    claim : Term
    confidence : float, optional
        Probability with which the claim must hold over the measured sample.
    """
    node = claim_of(claim, f"the body of '{name_}'")
    if confidence is not None:
        node = Confident(node, number(confidence))
    return Guarantee(str(name(name_)), node)


def least(variable: str, *, per_label: bool = False) -> Goal:
    """Look for the least value of a variable."""
    return Goal("least", str(name(variable)), per_label)


def greatest(variable: str, *, per_label: bool = False) -> Goal:
    """Look for the greatest value of a variable."""
    return Goal("greatest", str(name(variable)), per_label)


def find(
    name_: str,
    goal: Goal,
    claim: Claim | Callable[[Term], Claim],
    *,
    confidence: float | None = None,
) -> Find:
    """Return a search for the least or greatest value for which a claim holds.

    Parameters
    ----------
    name_ : str
    goal : Goal
        From `least` or `greatest`.
    claim : Term or callable
        A callable receives the variable.
    confidence : float, optional
        Probability with which the claim must hold over the measured sample.
    """
    if not isinstance(goal, Goal):
        raise TypeError(f"the second argument of find is least(...) or greatest(...), got {goal!r}")
    body = claim if isinstance(claim, Term) or not callable(claim) else claim(name(goal.variable))
    node = claim_of(body, f"the body of '{name_}'")
    if confidence is not None:
        node = Confident(node, number(confidence))
    return Find(str(name(name_)), goal.direction, goal.variable, goal.per_label, node)


class But(NamedTuple):
    """The result of `but`."""

    family: Value
    share: float


def but(family: Value, share: float) -> But:
    """Return a family with a share of all rows left out, for `forall`."""
    return But(family, number(share).value)


def _binder(variable: str, over: Value | But) -> Binder:
    if isinstance(over, But):
        return Binder(variable, term(over.family).node, number(over.share))
    return Binder(variable, term(over).node)


def forall(over: Mapping[str, Value | But], body: Claim | Callable[..., Claim]) -> Term:
    """Return the claim that the body holds for all values of some variables.

    Parameters
    ----------
    over : mapping of str to Term, or to what `but` returns
        The domain of each variable; later ones may use earlier variables.
    body : Term or callable
        A callable receives the variables, in order.
    """
    if not over:
        raise TypeError("forall needs a variable, as in forall({'x': box(0, 1)}, ...)")
    bound = [name(each) for each in over]
    binders = tuple(_binder(str(each), over[str(each)]) for each in bound)
    claim = body if isinstance(body, Term) or not callable(body) else body(*bound)
    return Term(ForAll(binders, claim_of(claim, "the body of forall")))


def __getattr__(name_: str) -> Callable[..., Term]:
    """Return a function of the language, plug-ins' included."""
    if not name_.startswith("_"):
        function = functions().get(name_)
        if function is not None:
            return call_builder(function)
    raise AttributeError(f"module {__name__!r} has no attribute {name_!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *functions()})
