"""Manifest entries on statements about values: expression trees, files by digest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from leaveout.verifier.checker.files import BoxPart, FilePart


class NumberPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="number"):
    """A number: ``3/10`` for 0.3 in a specification."""

    value: str


class WordPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="word"):
    """A bare word, such as ``adaptive``."""

    value: str


class TextPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="text"):
    """A text that is not a path: the name of a label."""

    value: str


class FilePlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="file"):
    """A file, by its index in the list of files."""

    file: int


class InputsPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="inputs"):
    """A set of inputs."""

    box: BoxPart


class NamePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="name"):
    """A name defined by a let, ``forall`` or ``find``."""

    name: str


class ListPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="list"):
    """A list."""

    items: tuple[Part, ...]


class CallPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="call"):
    """A function call, with arguments by parameter name."""

    function: str
    given: dict[str, Part]
    number: int  # key of its proofs


class UnaryPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="unary"):
    """A negated number or claim."""

    operator: Literal["-", "not"]
    operand: Part


class BinaryPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="binary"):
    """An operation on two numbers or two claims."""

    operator: Literal["+", "-", "*", "/", "==", "!=", "<", "<=", ">", ">=", "and", "or", "=>"]
    left: Part
    right: Part


class BinderPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``name in domain`` of a ``forall``."""

    name: str
    domain: Part


class ForAllPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="forall"):
    """A claim for all values of names."""

    binders: tuple[BinderPart, ...]
    body: Part


Part: TypeAlias = (
    NumberPart
    | WordPart
    | TextPart
    | FilePlace
    | InputsPart
    | NamePart
    | ListPart
    | CallPart
    | UnaryPart
    | BinaryPart
    | ForAllPart
)
"""An expression."""


class FindPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The goal of a ``find``, and the bounds of its answer."""

    direction: Literal["least", "greatest"]
    variable: str
    lower: str | None  # fraction; None if no lower end is claimed
    upper: str | None  # fraction; None if no upper end is claimed


class StatementPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A statement and its claimed result."""

    name: str
    claim: Part
    verdict: Literal["proved", "refuted"]
    confidence: str | None = None  # confidence of a claim about samples; None if it is certain
    find: FindPart | None = None


class ValuesPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Statements about values, with the names and files they share."""

    files: tuple[FilePart, ...]
    lets: dict[str, Part]
    statements: tuple[StatementPart, ...]
    proofs: dict[str, str] = {}  # prefix of a call's arrays, by the call's key


def canonical(part: Part) -> str:
    """Return a text that is equal only for expressions with the same meaning."""
    return msgspec.json.encode(part, order="sorted").decode()


def children(part: Part) -> Iterator[Part]:
    """Yield the direct parts of an expression."""
    match part:
        case ListPart():
            yield from part.items
        case CallPart():
            yield from part.given.values()
        case UnaryPart():
            yield part.operand
        case BinaryPart():
            yield from (part.left, part.right)
        case ForAllPart():
            yield from (binder.domain for binder in part.binders)
            yield part.body


def everything(*parts: Part) -> Iterator[Part]:
    """Yield expressions and all their parts."""
    stack = list(reversed(parts))
    while stack:
        part = stack.pop()
        yield part
        stack.extend(reversed(list(children(part))))


def names(values: ValuesPart) -> Iterator[str]:
    """Yield the printed texts of statements: names, words and files."""
    for file in values.files:
        yield from (file.path, file.sha256, file.kind)
    yield from values.lets
    for statement in values.statements:
        yield statement.name
        if statement.find is not None:
            yield statement.find.variable
    for part in everything(*values.lets.values(), *(each.claim for each in values.statements)):
        match part:
            case NumberPart() | WordPart() | TextPart():
                yield part.value
            case NamePart():
                yield part.name
            case CallPart():
                yield from (part.function, *part.given)
            case ForAllPart():
                yield from (binder.name for binder in part.binders)
