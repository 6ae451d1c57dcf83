"""Name and type resolution for all expressions of a specification."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from leaveout.errors import SpecError
from leaveout.specs.table.functions import functions
from leaveout.specs.table.signatures import Function
from leaveout.specs.text.errors import Slip
from leaveout.specs.text.expressions import Confident, Expression, Name, walk
from leaveout.specs.text.parse import with_text
from leaveout.specs.text.place import error_in_file
from leaveout.specs.text.source import Position, Source
from leaveout.specs.text.tree import Find, Guarantee, Include, Let, Param, Spec
from leaveout.specs.types import NUMBER, Type
from leaveout.specs.typing.expansion import Expansion
from leaveout.specs.typing.infer import Entry, Inference, Scope
from leaveout.specs.typing.params import Constants


@dataclass(frozen=True)
class CheckedSpec:
    """A specification with all names resolved and all expressions typed.

    Attributes
    ----------
    spec : Spec
        As checked. For a tree built in Python: as parsed back from its canonical text, so
        that its nodes have positions.
    lets : mapping of str to Let
        In order; params are among them.
    statements : tuple of Guarantee or Find
        In order.
    functions : mapping of str to Function
        Those it was checked with.
    """

    spec: Spec
    lets: Mapping[str, Let]
    statements: tuple[Guarantee | Find, ...]
    functions: Mapping[str, Function] = field(compare=False, repr=False)
    _types: Mapping[int, Type] = field(compare=False, repr=False)

    @property
    def source(self) -> Source:
        """The text and its name."""
        return self.spec.source

    def type_of(self, node: Expression) -> Type:
        """Return the type of an expression of `spec`.

        Raises
        ------
        KeyError
            If the node is not one of `spec`; an equal node is not enough, since what a name
            stands for depends on where it stands.
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
        At the first name that is unknown or defined twice, expression that has no type, or
        claim that is none; the message points at it. Also if there is nothing to prove.
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
            raise Slip(statement.at, "nothing says which folder this path is relative to", cure)
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
            raise Slip(level.at, f"a confidence lies between 0 and 1, {level} does not", cure)
        inference.types[id(level)] = NUMBER
    inner = claim.claim if isinstance(claim, Confident) else claim
    if isinstance(claim, Confident):
        inference = replace(inference, sampled=inner)
    kind = inference.claim(inner, scope, f"what '{statement.name}' states")
    inference.types[id(claim)] = kind


def _with_variable(statement: Find, scope: Scope, inference: Inference) -> Scope:
    variable, at = statement.variable, statement.variable_at
    if variable in scope:
        raise inference.twice(variable, at, scope[variable].at)
    if Name(variable) not in walk(statement.claim):
        wrong = f"'{variable}' is not in the claim, so there is nothing to find"
        raise Slip(at, wrong, f"put '{variable}' where the {statement.direction} value belongs")
    return {**scope, variable: Entry(NUMBER, at)}
