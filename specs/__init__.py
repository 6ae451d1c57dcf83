"""Specifications: parsing to a typed syntax tree, with errors that show the place.

All functions of the language, plug-ins' included, can be imported from here to build the tree in
Python: see `leaveout.specs.builder`.
"""

from collections.abc import Callable

from leaveout.specs import builder
from leaveout.specs.builder import (
    Term,
    but,
    find,
    forall,
    greatest,
    guarantee,
    include,
    least,
    let,
    name,
    names,
    param,
    spec,
)
from leaveout.specs.format import format_specification
from leaveout.specs.table import functions
from leaveout.specs.table.signatures import Function, Parameter
from leaveout.specs.text.errors import Position, Source
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
)
from leaveout.specs.text.included import expand, load
from leaveout.specs.text.parse import parse
from leaveout.specs.text.tree import Find, Guarantee, Include, Let, Param, Spec, Statement
from leaveout.specs.types import Type
from leaveout.specs.typing.check import CheckedSpec, check
from leaveout.specs.typing.params import params, with_params

__all__ = [
    "And",
    "Arithmetic",
    "Binder",
    "Call",
    "CheckedSpec",
    "Compare",
    "Confident",
    "Expression",
    "Find",
    "ForAll",
    "Function",
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
    "Parameter",
    "Position",
    "Source",
    "Spec",
    "Statement",
    "Term",
    "Text",
    "Type",
    "but",
    "check",
    "expand",
    "find",
    "forall",
    "format_specification",
    "functions",
    "greatest",
    "guarantee",
    "include",
    "least",
    "let",
    "load",
    "name",
    "names",
    "param",
    "params",
    "parse",
    "spec",
    "with_params",
]


def __getattr__(name_: str) -> Callable[..., Term]:
    try:
        return builder.__getattr__(name_)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name_!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(builder)})
