"""Expression nodes of the syntax tree; ``str`` of a node is its canonical text."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias

from leaveout.errors import SpecError
from leaveout.specs.text.errors import Position, Slip

_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f-\x9f]')
_RIGHT = re.compile(r'\\(["\\]|u[0-9a-fA-F]{4})')


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return f"\\{character}" if character in '"\\' else f"\\u{ord(character):04x}"


def quote_text(value: str) -> str:
    """Return a text in quotes with control characters escaped."""
    return f'"{_ESCAPED.sub(_escape, value)}"'


def unquote_text(text: str) -> str:
    """Return the value of a quoted text that has no wrong escapes."""
    value = json.loads(text, strict=False)
    assert isinstance(value, str)
    return value


def wrong_escape(text: str) -> int | None:
    """Return the index of the first invalid backslash, or None."""
    index = text.find("\\")
    while index >= 0:
        right = _RIGHT.match(text, index)
        if right is None:
            return index
        index = text.find("\\", right.end())
    return None


@dataclass(frozen=True)
class Node:
    """Base of every node."""

    at: Position = field(default=Position(), compare=False, repr=False, kw_only=True)


def children(node: Node) -> Iterator[Node]:
    """Yield the children of a node in text order."""
    for each in fields(node):
        value = getattr(node, each.name)
        for child in value if isinstance(value, tuple) else (value,):
            if isinstance(child, Node):
                yield child


def walk(*nodes: Node) -> Iterator[Node]:
    """Yield nodes and all their descendants in text order."""
    stack = list(reversed(nodes))
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(list(children(node))))


def binds(node: Node) -> int:
    """Return how tightly a node binds; where that is too loose, it needs parentheses."""
    match node:
        case Confident():
            return 0
        case ForAll() | Implies():
            return 1
        case Or():
            return 2
        case And():
            return 3
        case Not():
            return 4
        case Compare():
            return 5
        case Arithmetic(operator="+" | "-"):
            return 6
        case Arithmetic():
            return 7
        case _:
            return 8


def _inside(node: Node, tight: int) -> str:
    return str(node) if binds(node) >= tight else f"({node})"


@dataclass(frozen=True)
class Number(Node):
    """A finite number."""

    value: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise SpecError(f"a number must be finite, got {self.value}")

    def __str__(self) -> str:
        whole = float(self.value).is_integer() and abs(self.value) < 1e15
        return str(int(self.value)) if whole else repr(float(self.value))


@dataclass(frozen=True)
class Text(Node):
    """A text in double quotes, such as a path."""

    value: str

    def __post_init__(self) -> None:
        if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in self.value):
            raise SpecError("a text cannot contain a NUL character or half of a surrogate pair")

    def __str__(self) -> str:
        return quote_text(self.value)


@dataclass(frozen=True)
class Name(Node):
    """A name of a let or bound variable, or a bare word such as ``adaptive``."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ListOf(Node):
    """A list in square brackets."""

    items: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.items))}]"


@dataclass(frozen=True)
class Option(Node):
    """A named argument, ``name = value``."""

    name: str
    value: Expression

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"


@dataclass(frozen=True)
class Call(Node):
    """A call of a function of the table, with arguments and then options."""

    function: str
    arguments: tuple[Expression, ...] = ()
    options: tuple[Option, ...] = ()

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments + self.options))})"


@dataclass(frozen=True)
class Negate(Node):
    """Unary minus."""

    operand: Expression

    def __str__(self) -> str:
        # '-1' is a number, so the negation of the number 1 is '-(1)'.
        digits = isinstance(self.operand, Number) and not str(self.operand).startswith("-")
        return f"-({self.operand})" if digits else f"-{_inside(self.operand, 8)}"


@dataclass(frozen=True)
class Arithmetic(Node):
    """A sum, difference, product or quotient."""

    left: Expression
    operator: Literal["+", "-", "*", "/"]
    right: Expression

    def __str__(self) -> str:
        tight = binds(self)
        return f"{_inside(self.left, tight)} {self.operator} {_inside(self.right, tight + 1)}"


@dataclass(frozen=True)
class Compare(Node):
    """A comparison of two values; comparisons do not chain."""

    left: Expression
    operator: Literal["==", "!=", "<", "<=", ">", ">="]
    right: Expression

    def __str__(self) -> str:
        return f"{_inside(self.left, 6)} {self.operator} {_inside(self.right, 6)}"


@dataclass(frozen=True)
class Not(Node):
    """The negation of a claim."""

    claim: Expression

    def __str__(self) -> str:
        return f"not {_inside(self.claim, 4)}"


@dataclass(frozen=True)
class And(Node):
    """Both claims."""

    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"{_inside(self.left, 3)} and {_inside(self.right, 4)}"


@dataclass(frozen=True)
class Or(Node):
    """At least one of two claims."""

    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"{_inside(self.left, 2)} or {_inside(self.right, 3)}"


@dataclass(frozen=True)
class Implies(Node):
    """Implication of the right claim by the left; binds loosest, to the right."""

    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"{_inside(self.left, 2)} => {_inside(self.right, 1)}"


@dataclass(frozen=True)
class Binder(Node):
    """``name in domain`` of a ``forall``, or ``name in domain but share``.

    ``but`` leaves out any share of all rows that the domain was drawn from.
    """

    name: str
    domain: Expression
    but: Number | None = None

    def __str__(self) -> str:
        rest = "" if self.but is None else f" but {self.but}"
        return f"{self.name} in {_inside(self.domain, 6)}{rest}"


@dataclass(frozen=True)
class ForAll(Node):
    """A body for all values of bound variables; extends as far right as possible."""

    binders: tuple[Binder, ...]
    body: Expression

    def __str__(self) -> str:
        return f"forall {', '.join(map(str, self.binders))}: {_inside(self.body, 1)}"


@dataclass(frozen=True)
class Confident(Node):
    """A claim that holds with a stated probability over the measured sample."""

    claim: Expression
    level: Number

    def __str__(self) -> str:
        return f"{_inside(self.claim, 1)} with confidence {self.level}"


Expression: TypeAlias = (
    Number
    | Text
    | Name
    | ListOf
    | Call
    | Negate
    | Arithmetic
    | Compare
    | Not
    | And
    | Or
    | Implies
    | ForAll
    | Confident
)


Follow = Callable[[Expression], Expression]
"""Maps a name to the expression behind it; returns other expressions unchanged."""

_OPERATORS: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def constant(node: Expression, follow: Follow) -> float | None:
    """Return the value of a constant expression, or None if it is not constant."""
    node = follow(node)
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Negate):
        inner = constant(node.operand, follow)
        return None if inner is None else -inner
    if isinstance(node, Arithmetic):
        left, right = constant(node.left, follow), constant(node.right, follow)
        if left is None or right is None:
            return None
        if node.operator == "/" and right == 0:
            raise Slip(node.at, "division by zero")
        result = _OPERATORS[node.operator](left, right)
        if not math.isfinite(result):
            raise Slip(node.at, "this is not a finite number")
        return result
    return None
