"""The syntax tree: statements, and the `expressions` they consist of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

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
    Node,
    Not,
    Number,
    Option,
    Or,
    Text,
    children,
)
from leaveout.specs.text.highlight import html
from leaveout.specs.text.source import Position, Source

__all__ = [
    "And",
    "Arithmetic",
    "Binder",
    "Call",
    "Compare",
    "Confident",
    "Expression",
    "Find",
    "ForAll",
    "Guarantee",
    "Implies",
    "Include",
    "Let",
    "ListOf",
    "Name",
    "Negate",
    "Node",
    "Not",
    "Number",
    "Option",
    "Or",
    "Param",
    "Position",
    "Source",
    "Spec",
    "Statement",
    "Text",
    "children",
]

# A statement longer than this puts its claim on a line of its own.
WIDTH = 100


def _with_head(head: str, claim: Expression) -> str:
    """Return a claim after its head, on a new line if it is too long."""
    line = f"{head} {claim}"
    return line if len(line) <= WIDTH else f"{head}\n    {claim}"


@dataclass(frozen=True)
class Let(Node):
    """A name for a value."""

    name: str
    value: Expression
    name_at: Position = field(default=Position(), compare=False, repr=False, kw_only=True)

    def __str__(self) -> str:
        return f"let {self.name} = {self.value}"


@dataclass(frozen=True)
class Param(Let):
    """A named constant that the user may override; otherwise a let."""

    def __str__(self) -> str:
        return f"param {self.name} = {self.value}"


@dataclass(frozen=True)
class Include(Node):
    """An include of another file's statements."""

    path: Text

    def __str__(self) -> str:
        return f"include {self.path}"


@dataclass(frozen=True)
class Guarantee(Node):
    """A claim to prove or refute."""

    name: str
    claim: Expression
    name_at: Position = field(default=Position(), compare=False, repr=False, kw_only=True)

    def __str__(self) -> str:
        return _with_head(f"guarantee {self.name}:", self.claim)


@dataclass(frozen=True)
class Find(Node):
    """The least or greatest value of a variable for which a claim holds."""

    name: str
    direction: Literal["least", "greatest"]
    variable: str
    per_label: bool
    claim: Expression
    name_at: Position = field(default=Position(), compare=False, repr=False, kw_only=True)
    variable_at: Position = field(default=Position(), compare=False, repr=False, kw_only=True)

    def __str__(self) -> str:
        each = " per label" if self.per_label else ""
        head = f"find {self.name}: {self.direction} {self.variable}{each} such that"
        return _with_head(head, self.claim)


Statement: TypeAlias = Let | Param | Include | Guarantee | Find


@dataclass(frozen=True)
class Spec:
    """A whole specification."""

    statements: tuple[Statement, ...]
    source: Source = field(default=Source("<built>", ""), compare=False, repr=False)

    def __str__(self) -> str:
        return "".join(f"{statement}\n" for statement in self.statements)

    def _repr_html_(self) -> str:
        read = self.source.text and not self.source.included
        return html(self.source.text if read else str(self))
