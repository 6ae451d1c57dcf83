"""Name and type resolution for all expressions of a specification."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from leaveout.errors import SpecError
from leaveout.specs.table import functions
from leaveout.specs.table.signatures import Function
from leaveout.specs.text.errors import Position, Slip, Source, error_in_file
from leaveout.specs.text.expressions import (
    Call,
    Confident,
    Expression,
    ListOf,
    Name,
    Node,
    Number,
    children,
    walk,
)
from leaveout.specs.text.parse import DEEPEST, LONGEST, with_text
from leaveout.specs.text.tree import Find, Guarantee, Include, Let, Param, Spec
from leaveout.specs.types import NUMBER, Type
from leaveout.specs.typing.infer import Entry, Inference, Scope
from leaveout.specs.typing.params import Constants

MOST_IN_ALL = 20 * LONGEST
"""Most parts of all claims of a specification together, with all names written out."""


@dataclass(frozen=True)
class _Measure:
    """Size and depth of an expression with lets written out."""

    size: int
    depth: int


@dataclass
class Expansion:
    """The sizes of the lets read so far, each computed once."""

    functions: Mapping[str, Function]  # the functions called
    _lets: dict[str, _Measure] = field(default_factory=dict, init=False)
    _claims: int = field(default=0, init=False)

    def let(self, let: Let) -> None:
        """Measure a let or param; raises `Slip` if it is too large or too deep."""
        self._lets.setdefault(let.name, self._measure_or_refuse(let.value))

    def claim(self, claim: Expression) -> None:
        """Measure a claim; raises `Slip` if it, or all together, are too large or too deep."""
        self._claims += self._measure_or_refuse(claim).size
        if self._claims > MOST_IN_ALL:
            raise Slip(
                claim.at,
                "with every name written out, the claims up to this one have more than "
                f"{MOST_IN_ALL:,} parts",
                "put the others into a separate specification",
            )

    def _measure_or_refuse(self, node: Expression) -> _Measure:
        """Measure an expression; raise `Slip` if it is too large or too deep."""
        found = self._measure(node)
        # Text in one specification is never larger unless it uses names.
        if found.size > LONGEST:
            raise Slip(
                node.at,
                f"with every name written out, this expression has more than {LONGEST:,} parts",
                "each name stands for everything that its 'let' contains, each time it is used: "
                "use names fewer times",
            )
        if found.depth > DEEPEST:
            raise Slip(
                node.at,
                "with every name written out, this expression is nested more than "
                f"{DEEPEST} levels deep",
                "shorten the chain of names that refer to each other",
            )
        return found

    def _measure(self, node: Node) -> _Measure:
        if isinstance(node, Name) and node.name in self._lets:
            named = self._lets[node.name]
            return _Measure(named.size + 1, named.depth + 1)
        if isinstance(node, ListOf) and all(isinstance(item, Number) for item in node.items):
            # Literal data is read only once.
            return _Measure(1, 1)
        size = depth = 1
        for child in children(node):
            inner = self._measure(child)
            size += inner.size
            # Sets of inputs that refine one another, by name or not, are read without recursion.
            more = 1 if child is not self._refined_set(node) else -isinstance(child, Name)
            depth = max(depth, inner.depth + more)
        return _Measure(size, depth)

    def _refined_set(self, node: Node) -> Expression | None:
        """Return the set of inputs that a call refines, if any."""
        if isinstance(node, Call) and self.functions[node.function].lists and node.arguments:
            return node.arguments[0]
        return None


@dataclass(frozen=True)
class CheckedSpec:
    """A specification with all names resolved and all expressions typed.

    Attributes
    ----------
    spec : Spec
        The checked specification. A tree built in Python is parsed from its canonical text, so that
        its nodes have positions.
    lets : mapping of str to Let
        In order; params are among them.
    statements : tuple of Guarantee or Find
        In order.
    functions : mapping of str to Function
        The functions it was checked with.
    """

    spec: Spec
    lets: Mapping[str, Let]
    statements: tuple[Guarantee | Find, ...]
    functions: Mapping[str, Function] = field(compare=False, repr=False)
    _types: Mapping[int, Type] = field(compare=False, repr=False)

    @property
    def source(self) -> Source:
        """Its text and name."""
        return self.spec.source

    def type_of(self, node: Expression) -> Type:
        """Return the type of an expression of `spec`.

        Raises
        ------
        KeyError
            If the node is not in `spec`; an equal node is not enough, since the meaning of a name
            depends on its place.
        """
        return self._types[id(node)]


def check(spec: Spec, table: Mapping[str, Function] | None = None) -> CheckedSpec:
    """Resolve the names and types of a specification.

    Parameters
    ----------
    spec : Spec
        From `parse`, `load`, or built in Python.
    table : mapping of str to Function, optional
        The functions by name; by default the built-in ones and plug-ins'.

    Returns
    -------
    CheckedSpec

    Raises
    ------
    SpecError
        At the first unknown or repeated name, expression without a type, or statement that is not a
        claim; the message points at it. Also if there is no statement to prove.
    """
    spec = with_text(spec)
    try:
        return _check(spec, functions() if table is None else table)
    except Slip as slip:
        raise error_in_file(spec.source, slip) from None


def _check(spec: Spec, table: Mapping[str, Function]) -> CheckedSpec:
    lets = {each.name: each for each in reversed(spec.statements) if isinstance(each, Let)}
    proven = tuple(each for each in spec.statements if isinstance(each, Guarantee | Find))
    inference = Inference(
        table,
        {name: let.name_at for name, let in lets.items()},
        frozenset(each.name for each in proven),
        spec.source,
    )
    scope: dict[str, Entry] = {}
    results: dict[str, Position] = {}
    constants, expansion = Constants(), Expansion(table)
    for statement in spec.statements:
        if isinstance(statement, Include):
            cure = "read the file with leaveout.specs.load, or use leaveout.specs.expand"
            raise Slip(statement.at, "it is not known which folder this path is relative to", cure)
        if isinstance(statement, Let):
            if statement.name in scope:
                first = scope[statement.name].at
                raise inference.twice(statement.name, statement.name_at, first)
            kind = inference.infer(statement.value, scope)
            expansion.let(statement)
            if isinstance(statement, Param):
                constants.param(statement)
            else:
                with suppress(Slip):
                    constants.read(statement)
            scope[statement.name] = Entry(kind, statement.name_at, statement.value)
        else:
            if statement.name in results:
                first = results[statement.name]
                raise inference.twice(statement.name, statement.name_at, first)
            results[statement.name] = statement.name_at
            _check_claim(statement, scope, inference)
            expansion.claim(statement.claim)
    if not proven:
        raise SpecError(
            f"{spec.source.name}: nothing to prove: there is no guarantee and no find\n"
            "add one, as in: guarantee quiet: forall x in X, M in F: label(M, x) == label(N, x)"
        )
    return CheckedSpec(
        spec, MappingProxyType(dict(reversed(lets.items()))), proven, table, inference.types
    )


def _check_claim(statement: Guarantee | Find, scope: Scope, inference: Inference) -> None:
    if isinstance(statement, Find):
        scope = _with_variable(statement, scope, inference)
    claim = statement.claim
    if isinstance(claim, Confident):
        level = claim.level
        if not 0 < level.value < 1:
            percent = 1 < level.value < 100
            cure = f"write {level.value / 100:g} for {level} %" if percent else "as in 0.95"
            raise Slip(level.at, f"a confidence must be between 0 and 1, got {level}", cure)
        inference.types[id(level)] = NUMBER
    inner = claim.claim if isinstance(claim, Confident) else claim
    if isinstance(claim, Confident):
        inference = replace(inference, sampled=inner)
    kind = inference.claim(inner, scope, f"the body of '{statement.name}'")
    inference.types[id(claim)] = kind


def _with_variable(statement: Find, scope: Scope, inference: Inference) -> Scope:
    variable, at = statement.variable, statement.variable_at
    if variable in scope:
        raise inference.twice(variable, at, scope[variable].at)
    if Name(variable) not in walk(statement.claim):
        wrong = f"'{variable}' is not in the claim, so there is nothing to find"
        raise Slip(at, wrong, f"put '{variable}' where the {statement.direction} value belongs")
    return {**scope, variable: Entry(NUMBER, at)}
