"""Refusal of expressions that a reader would take for something else.

A claim is printed in the words of the specification language. So names are what that calls names,
none stands for two things, and a call is given nothing but what its function takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.expressions import functions
from leaveout.verifier.checker.expressions.parts import (
    CallPart,
    ForAllPart,
    InputsPart,
    NamePart,
    NumberPart,
    Part,
    StatementPart,
    WordPart,
    children,
    everything,
)
from leaveout.verifier.checker.expressions.ranges import number

_DEEPEST = 200
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def refuse_unreadable(
    statement: StatementPart, needed: Mapping[str, Part], lets: Mapping[str, Part]
) -> None:
    """Refuse a statement that would not be read as it is evaluated."""
    variable = () if statement.find is None else (statement.find.variable,)
    for name in (*needed, *variable):
        _refuse_name(name)
    for name in variable:
        _refuse_second(name, lets)
    for each, held in ((statement.claim, variable), *((part, ()) for part in needed.values())):
        _refuse_deep(each)
        _refuse_bound(each, frozenset(held), lets)
        for part in everything(each):
            _refuse(part)


def _refuse(part: Part) -> None:
    for name in _names(part):
        _refuse_name(name)
    match part:
        case NumberPart():
            number(part.value)
        case InputsPart() if len(part.box.lower) != len(part.box.upper):
            raise RejectedError("a set of inputs has another number of lower than of upper bounds")
        case CallPart() if part.function == "abs":
            if set(part.given) != {"number"}:
                raise RejectedError("'abs' is given other than a number")
        case CallPart():
            known = functions.FUNCTIONS.get(part.function)
            if known is None:
                raise RejectedError(f"{part.function!r} is no function that can be checked")
            for name in part.given:
                if name not in known.takes:
                    raise RejectedError(f"{part.function!r} takes no {name!r}")
        case ForAllPart() if not part.binders:
            raise RejectedError("a 'forall' is over nothing")


def _names(part: Part) -> Iterator[str]:
    match part:
        case NamePart():
            yield part.name
        case WordPart():
            yield part.value
        case CallPart():
            yield from (part.function, *part.given)
        case ForAllPart():
            yield from (binder.name for binder in part.binders)


def _refuse_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise RejectedError(f"{name!r} is no name")


def _refuse_second(name: str, lets: Mapping[str, Part]) -> None:
    if name in lets:
        raise RejectedError(f"{name!r} stands for two things")


def _refuse_bound(part: Part, held: frozenset[str], lets: Mapping[str, Part]) -> None:
    """Refuse a ``forall`` that gives a name to something that has one already."""
    stack = [(part, held)]
    while stack:
        each, outer = stack.pop()
        if isinstance(each, ForAllPart):
            for binder in each.binders:
                stack.append((binder.domain, outer))
                _refuse_second(binder.name, {**lets, **dict.fromkeys(outer, part)})
                outer |= {binder.name}
            stack.append((each.body, outer))
        else:
            stack.extend((child, outer) for child in children(each))


def _refuse_deep(part: Part) -> None:
    stack = [(part, 1)]
    while stack:
        each, depth = stack.pop()
        if depth > _DEEPEST:
            raise RejectedError(f"an expression is nested more than {_DEEPEST} deep")
        stack.extend((child, depth + 1) for child in children(each))
