"""Version 2.0, parsed and type-checked by the package of those who keep the standard."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from leaveout.errors import SpecError
from leaveout.specs.text.errors import Slip
from leaveout.specs.text.source import Position
from leaveout.specs.vnnlib.complaints import slip_of
from leaveout.specs.vnnlib.formula import (
    All,
    Any,
    Formula,
    Linear,
    Place,
    UnreadableError,
    compared,
    number,
    product,
    total,
)
from leaveout.specs.vnnlib.problem import Declared, Problem, Tensor
from leaveout.specs.vnnlib.text import place as place_in

if TYPE_CHECKING:
    import vnnlib

__all__ = ["is_modern", "read_modern"]

_VERSION = re.compile(r"\s*\(vnnlib-version\b\s*([^\s)]*)")
_INDICES = re.compile(r"\[([^\]]*)\]")
_WHOLE = re.compile(r"\s*(\d{1,9}\s*(,\s*\d{1,9}\s*)*)?", re.ASCII)
_NAMED = re.compile(
    r'(\(declare-(?:input|output)\s+(\w+)\s+\w+\s*\[[^\]]*\]\s*)("[^"\n]*")', re.ASCII
)
_TYPES = {"F32": "float32", "Real": "real"}
_SIGNS = {
    "GreaterEqual": ">=",
    "GreaterThan": ">",
    "LessEqual": "<=",
    "LessThan": "<",
    "Equal": "==",
    "NotEqual": "!=",
}


def is_modern(bare: str) -> bool:
    """Whether a text without comments says which version it is of."""
    return _VERSION.match(bare) is not None


def read_modern(bare: str, source: str) -> Problem:
    """Read a query of version 2.0.

    Parameters
    ----------
    bare : str
        Its text without comments.
    source : str

    Raises
    ------
    Slip
        If it is malformed, or states what is not read.
    SpecError
        If the package ``vnnlib`` is missing.
    """
    try:
        # The name by itself would also find any folder vnnlib beside the networks.
        from vnnlib import parse_query_string
    except ImportError:
        raise SpecError(
            f"{source}: reading VNN-LIB 2.0 needs the package vnnlib: "
            "pip install 'leaveout[vnnlib]'"
        ) from None
    _refuse_version(bare)
    names = {match.group(2): match.group(3)[1:-1] for match in _NAMED.finditer(bare)}
    # The package's own parser knows these names for hidden nodes only.
    bare = _NAMED.sub(lambda match: match.group(1) + " " * len(match.group(3)), bare)
    _refuse_odd_indices(bare)
    try:
        query = parse_query_string(bare)
    except Exception as error:
        # Beside its own it raises what the C++ below it throws.
        raise slip_of(error, bare) from None
    return _Reader(query, bare, names).problem(source)


def _refuse_version(bare: str) -> None:
    match = _VERSION.match(bare)
    if match is not None and match.group(1) != "<2.0>":
        at = place_in(bare, match.start(1), match.end(1))
        raise Slip(at, f"version '{match.group(1)[:20]}' is not read", "1.0 and 2.0 are")


def _refuse_odd_indices(bare: str) -> None:
    # The package takes -1 and 1.5 for whole numbers.
    for match in _INDICES.finditer(bare):
        if _WHOLE.fullmatch(match.group(1)) is None:
            at = place_in(bare, match.start(), match.end())
            raise Slip(at, f"'{match.group()[:40]}' are no indices or sizes", "give whole numbers")


class _Reader:
    def __init__(self, query: vnnlib.Query, bare: str, names: dict[str, str]) -> None:
        self.query, self.bare, self.names = query, bare, names
        self.lines = bare.split("\n")
        self.line = self.column = 0
        self.variables: dict[str, tuple[bool, int, Tensor]] = {}

    def problem(self, source: str) -> Problem:
        networks: list[Declared] = []
        for position, each in enumerate(self.query.networks):
            declared = self.network(each)
            if any(declared.name == other.name for other in networks):
                raise Slip(declared.at, f"the network {declared.name} is declared twice")
            self.variables[declared.input.name] = (False, position, declared.input)
            self.variables[declared.output.name] = (True, position, declared.output)
            networks.append(declared)
        types = {tensor.type for _, _, tensor in self.variables.values()}
        if len(types) > 1:
            raise Slip(networks[0].at, "a query in both real and float32 is not read")
        formula = All(tuple(self.formula(each.expr) for each in self.query.assertions))
        return Problem(source, "2.0", tuple(networks), formula)

    def network(self, each: vnnlib.Network) -> Declared:
        at = self.declaration("network", each.name)
        for hidden in each.hidden:
            raise Slip(self.declaration("hidden", hidden.name), "hidden nodes are not read")
        for kind, found in (("input", each.inputs), ("output", each.outputs)):
            if len(found) != 1:
                second = self.declaration(kind, found[1].name) if found else at
                wrong = f"the network {each.name} has {len(found)} {kind}s; one is read"
                raise Slip(second, wrong)
        read, computed = (
            self.tensor(kind, found)
            for kind, found in (("input", each.inputs[0]), ("output", each.outputs[0]))
        )
        return Declared(each.name, read, computed, at, each.equal_to, each.isometric_to)

    def tensor(self, kind: str, found: vnnlib.InputDefinition | vnnlib.OutputDefinition) -> Tensor:
        known = _TYPES.get(found.dtype.name)
        if known is None:
            raise Slip(
                self.declaration(kind, found.name),
                f"{found.name} is of a type that is not read",
                "declare it as real or float32",
            )
        return Tensor(found.name, known, tuple(found.shape), self.names.get(found.name, ""))

    def declaration(self, kind: str, name: str) -> Position:
        match = re.search(rf"\(declare-{kind}\s+{re.escape(name)}\b", self.bare)
        return Position(1, 1, 1, 1) if match is None else place_in(self.bare, *match.span())

    def leaf(self, line: int, word: str) -> Position:
        """Return the place of the next name or number: the package gives its line only."""
        if line != self.line:
            self.line, self.column = line, 0
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        column = max(text.find(word, self.column), 0)
        self.column = column + len(word)
        return Position(line, column + 1, line, self.column + 1)

    def formula(self, node: vnnlib.BoolExpr) -> Formula:
        import vnnlib

        if isinstance(node, vnnlib.And):
            return All(tuple(map(self.formula, node.args)))
        if isinstance(node, vnnlib.Or):
            return Any(tuple(map(self.formula, node.args)))
        sign = _SIGNS.get(type(node).__name__)
        if sign is None or not isinstance(node, vnnlib.Comparison):
            raise Slip(Position(1, 1, 1, 1), f"{type(node).__name__} is no formula that is read")
        (left, at), (right, _) = self.term(node.lhs), self.term(node.rhs)
        try:
            return compared(sign, left, right, at)
        except UnreadableError as error:
            raise error.placed(at) from None

    def term(self, node: vnnlib.ArithExpr) -> tuple[Linear, Position]:
        """Read a term; leaves are visited in the order they stand in."""
        import vnnlib

        if isinstance(node, vnnlib.Var):
            at = self.leaf(node.line, node.name)
            return Linear({self.place(node, at): Fraction(1)}), at
        if isinstance(node, vnnlib.Literal):
            at = self.leaf(node.line, node.lexeme)
            parts = []
        else:
            found = [self.term(child) for child in self.operands(node)]
            parts, at = [part for part, _ in found], found[0][1]
        try:
            return self.combined(node, parts), at
        except UnreadableError as error:
            raise error.placed(at) from None

    def combined(self, node: vnnlib.ArithExpr, parts: list[Linear]) -> Linear:
        import vnnlib

        if isinstance(node, vnnlib.Literal):
            return Linear(constant=number(node.lexeme))
        if isinstance(node, vnnlib.Negate):
            return parts[0].scaled(Fraction(-1))
        if isinstance(node, vnnlib.Multiply):
            return product(parts)
        if isinstance(node, vnnlib.Minus):
            return total(parts[:1], parts[1:])
        return total(parts)

    def operands(self, node: vnnlib.ArithExpr) -> Sequence[vnnlib.ArithExpr]:
        import vnnlib

        if isinstance(node, vnnlib.Negate):
            return (node.expr,)
        if isinstance(node, vnnlib.Minus):
            return (node.head, *node.rest)
        if isinstance(node, (vnnlib.Plus, vnnlib.Multiply)):
            return node.args
        raise Slip(Position(1, 1, 1, 1), f"{type(node).__name__} is no arithmetic that is read")

    def place(self, node: vnnlib.Var, at: Position) -> Place:
        output, network, tensor = self.variables[node.name]
        flat = 0
        for index, size in zip(node.indices, tensor.shape, strict=True):
            if not 0 <= index < size:
                raise Slip(at, f"{node.name} has no element {index}")
            flat = flat * size + index
        return Place(output, network, flat)
