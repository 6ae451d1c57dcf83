"""Specifications in Python: the same tree, by operators and the functions of the table.

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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from leaveout.specs.python.terms import (
    Claim,
    Term,
    Value,
    call_builder,
    claim_of,
    name,
    names,
    number,
    term,
)
from leaveout.specs.table.functions import functions
from leaveout.specs.text.expressions import Binder, Confident, ForAll, Text
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


@dataclass(frozen=True)
class Goal:
    """The goal of a `find`, from `least` or `greatest`."""

    direction: Literal["least", "greatest"]
    variable: str
    per_label: bool


Written: TypeAlias = Term | Statement
"""A statement; a term only if it is from `let` or `param`."""


def spec(*statements: Written) -> Spec:
    """Return a specification of these statements, in order.

    Parameters
    ----------
    statements : from `let`, `param`, `include`, `guarantee` and `find`

    Returns
    -------
    Spec
        ``str`` gives its text; `leaveout.verify` takes it.
    """
    found: list[Statement] = []
    for each in statements:
        statement = each.definition if isinstance(each, Term) else each
        if not isinstance(statement, Let | Include | Guarantee | Find):
            raise TypeError(f"a specification is made of statements, got {each!r}")
        found.append(statement)
    return Spec(tuple(found))


def let(name_: str, value: Value) -> Term:
    """Define a name for a value, to use in expressions and to pass to `spec`."""
    return Term(name(name_).node, Let(name_, term(value).node))


def param(name_: str, value: Value) -> Term:
    """Define a named constant, like `let`, that the user may override."""
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
        Probability that the claim holds over what was measured.
    """
    node = claim_of(claim, f"what '{name_}' states")
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
        A callable is given the variable.
    confidence : float, optional
        Probability that the claim holds over what was measured.
    """
    if not isinstance(goal, Goal):
        raise TypeError(f"the second argument of find is least(...) or greatest(...), got {goal!r}")
    body = claim if isinstance(claim, Term) or not callable(claim) else claim(name(goal.variable))
    node = claim_of(body, f"what '{name_}' states")
    if confidence is not None:
        node = Confident(node, number(confidence))
    return Find(str(name(name_)), goal.direction, goal.variable, goal.per_label, node)


class But(NamedTuple):
    """The result of `but`."""

    family: Value
    share: float


def but(family: Value, share: float) -> But:
    """Return a family of which a share of all rows is left out, for `forall`."""
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
        What each variable goes over; a later one may use an earlier one.
    body : Term or callable
        A callable is given the variables, in order.
    """
    if not over:
        raise TypeError("forall needs a variable, as in forall({'x': box(0, 1)}, ...)")
    bound = [name(each) for each in over]
    binders = tuple(_binder(str(each), over[str(each)]) for each in bound)
    claim = body if isinstance(body, Term) or not callable(body) else body(*bound)
    return Term(ForAll(binders, claim_of(claim, "the body of forall")))


def __getattr__(name_: str) -> Callable[..., Term]:
    """Return a function of the table, plug-ins' included."""
    if not name_.startswith("_"):
        function = functions().get(name_)
        if function is not None:
            return call_builder(function)
    raise AttributeError(f"module {__name__!r} has no attribute {name_!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *functions()})
