"""The syntax tree: statements, and the `expressions` they consist of."""

from __future__ import annotations

import html as markup
import re
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from leaveout.specs.text.errors import KEYWORDS, Position, Source
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

_STYLES = {
    "comment": "color:#6a737d;font-style:italic",
    "text": "color:#0b6e4f",
    "number": "color:#b35900",
    "keyword": "color:#7b2cbf;font-weight:bold",
    "function": "color:#1f5fa8",
}

_WORDS = "|".join(sorted(word.lower() for word in KEYWORDS))
_TOKENS = re.compile(
    r"(?P<comment>#[^\n]*)"
    r'|(?P<text>"(?:\\.|[^"\\\n])*")'
    rf"|(?P<keyword>\b(?:{_WORDS})\b)"
    r"|(?P<function>[A-Za-z_]\w*(?=\s*\())"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<other>.)",
    re.ASCII | re.DOTALL,
)


def html(text: str) -> str:
    """Return a specification as HTML with coloured words, names and numbers."""
    return (
        f'<pre style="line-height:1.4">{"".join(map(_colour_token, _TOKENS.finditer(text)))}</pre>'
    )


def _colour_token(match: re.Match[str]) -> str:
    escaped = markup.escape(match.group())
    style = _STYLES.get(match.lastgroup or "")
    return f'<span style="{style}">{escaped}</span>' if style else escaped


# A longer statement puts its claim on a separate line.
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
