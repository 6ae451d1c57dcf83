"""Statements about values in a certificate: expressions, files and proofs of calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from leaveout.bab.native.files.manifest_parts import box_part, file_part
from leaveout.kernel.claims.evaluate import key_of
from leaveout.kernel.claims.functions import FUNCTIONS
from leaveout.kernel.claims.parts import (
    BinaryPart,
    BinderPart,
    BoxPart,
    CallPart,
    FilePart,
    FilePlace,
    FindPart,
    ForAllPart,
    InputsPart,
    ListPart,
    NamePart,
    NumberPart,
    Part,
    StatementPart,
    TextPart,
    UnaryPart,
    ValuesPart,
    WordPart,
)
from leaveout.kernel.records import convert, plain
from leaveout.specs import (
    And,
    Arithmetic,
    Call,
    CheckedSpec,
    Compare,
    Confident,
    Expression,
    Find,
    ForAll,
    Guarantee,
    Implies,
    ListOf,
    Name,
    Negate,
    Not,
    Number,
    Or,
    Text,
)
from leaveout.specs.types import INPUTS, TEXT
from leaveout.verifier.reachable import lets_named
from leaveout.verifier.report import Result
from leaveout.verifier.values.evaluate import Held, Valuation


class Uncertified(Exception):  # noqa: N818
    """A statement cannot be in a certificate; the message says why, after its name."""


@dataclass(eq=False)
class ValueBook:
    """Collects a certificate's statements about values."""

    spec: CheckedSpec
    valuation: Valuation  # with the proofs that deciders left
    _files: list[Path] = field(default_factory=list)
    _lets: dict[str, Part] = field(default_factory=dict)
    _statements: list[StatementPart] = field(default_factory=list)
    _numbers: dict[tuple[str, float | None], int] = field(default_factory=dict)
    _confidence: float | None = None
    _asked: FindPart | None = None

    def add(self, statement: Guarantee | Find, result: Result, confidence: float | None) -> None:
        """Store a decided statement."""
        claim, level = statement.claim, None
        if isinstance(claim, Confident):
            level, claim = str(Fraction(repr(claim.level.value))), claim.claim
        asked = _find_part(statement, result) if isinstance(statement, Find) else None
        if result.verdict == "unknown" and asked is None:
            raise Uncertified("it was not decided")
        before = len(self._files), len(self._numbers)
        self._confidence = confidence
        self._asked = asked
        try:
            part = self._part(claim, frozenset() if asked is None else {asked.variable})
            lets = {
                name: self._part(self.spec.lets[name].value, frozenset())
                for name in lets_named(claim, self.spec)
                # Sets of inputs and texts are written where they are used.
                if self.spec.type_of(self.spec.lets[name].value) not in (INPUTS, TEXT)
            }
        except Uncertified:
            del self._files[before[0] :]
            self._numbers = dict(list(self._numbers.items())[: before[1]])
            raise
        self._lets |= lets
        verdict: Literal["proved", "refuted"] = "proved"
        if result.verdict == "refuted":
            verdict = "refuted"
        self._statements.append(StatementPart(statement.name, part, verdict, level, asked))

    def __bool__(self) -> bool:
        return bool(self._statements)

    @property
    def files(self) -> list[Path]:
        """The files of the statements."""
        return list(self._files)

    def part(self, folder: Path, prefixes: Mapping[str, str]) -> dict[str, Any]:
        """Return the statements' part of a manifest."""
        files = [
            file_part(each, folder, "access" if each.is_dir() else "file") for each in self._files
        ]
        found = ValuesPart(
            tuple(FilePart(**each) for each in files),
            self._lets,
            tuple(self._statements),
            dict(prefixes),
        )
        built: dict[str, Any] = plain(found)
        return built

    def proofs(self) -> Iterator[tuple[str, Mapping[str, NDArray[Any]]]]:
        """Yield the key and the arrays of each proof a checker may need."""
        near = _near([each.find for each in self._statements if each.find is not None])
        for place, number in self._numbers.items():
            for held, proof in self.valuation.proofs.get(place, {}).items():
                bound = dict(held)
                if None in bound.values():
                    continue
                if _is_asked(held, near):
                    yield key_of(number, bound), proof()

    def _part(self, node: Expression, bound: frozenset[str] | set[str]) -> Part:
        match node:
            case Number():
                return NumberPart(str(Fraction(repr(float(node.value)))))
            case Name():
                if node.name not in bound and node.name not in self.spec.lets:
                    raise Uncertified(f"{node.name!r} is a bare keyword")
                return NamePart(node.name)
            case ListOf():
                return ListPart(tuple(self._part(each, bound) for each in node.items))
            case Call():
                return self._call(node, bound)
            case Negate():
                return UnaryPart("-", self._part(node.operand, bound))
            case Not():
                return UnaryPart("not", self._part(node.claim, bound))
            case Arithmetic() | Compare():
                return self._binary(node.operator, node, bound)
            case And() | Or() | Implies():
                word: Literal["and", "or", "=>"] = (
                    "and" if isinstance(node, And) else "or" if isinstance(node, Or) else "=>"
                )
                return self._binary(word, node, bound)
            case ForAll():
                return self._over(node, bound)
            case _:
                raise Uncertified(f"{type(node).__name__.lower()} cannot appear in a certificate")

    def _binary(
        self,
        operator: Literal["+", "-", "*", "/", "==", "!=", "<", "<=", ">", ">=", "and", "or", "=>"],
        node: Arithmetic | Compare | And | Or | Implies,
        bound: frozenset[str] | set[str],
    ) -> BinaryPart:
        return BinaryPart(operator, self._part(node.left, bound), self._part(node.right, bound))

    def _over(self, node: ForAll, bound: frozenset[str] | set[str]) -> ForAllPart:
        binders, names = [], set(bound)
        for binder in node.binders:
            binders.append(BinderPart(binder.name, self._part(binder.domain, names)))
            names.add(binder.name)
        return ForAllPart(tuple(binders), self._part(node.body, names))

    def _call(self, node: Call, bound: frozenset[str] | set[str]) -> CallPart:
        function = self.valuation.resolver.function(node)
        if node.function not in FUNCTIONS and node.function != "abs":
            raise Uncertified(f"certificates do not support '{node.function}'")
        given: dict[str, Part] = {}
        for name, argument in self.valuation.resolver.bound_arguments(node).items():
            if isinstance(argument, Name) and argument.name in function.parameter(name).words:
                given[name] = WordPart(argument.name)
            elif isinstance(text := self.valuation.resolver.value(argument), Text):
                is_path = function.parameter(name).is_path
                path = self.valuation.resolver.path(text)
                given[name] = self._file(path) if is_path else TextPart(text.value)
            elif self.spec.type_of(argument) == INPUTS:
                box = box_part(self.valuation.inputs(argument, node))
                given[name] = InputsPart(convert(box, BoxPart))
            else:
                given[name] = self._part(argument, bound)
        near = _near([] if self._asked is None else [self._asked])
        unproved = self.valuation.unproved.get((str(node), self._confidence), {})
        for held, why in unproved.items():
            if _is_asked(held, near):
                raise Uncertified(why)
        number = self._numbers.setdefault((str(node), self._confidence), len(self._numbers))
        return CallPart(node.function, given, number)

    def _file(self, path: Path) -> FilePlace:
        if path not in self._files:
            self._files.append(path)
        return FilePlace(self._files.index(path))


def _near(finds: Iterable[FindPart]) -> set[Fraction]:
    """Return the numbers near a find's bounds at which a checker evaluates claims."""
    return {
        Fraction(end) + step
        for each in finds
        for end in (each.lower, each.upper)
        if end is not None
        for step in (-1, 0, 1)
    } | {Fraction(0)}


def _is_asked(held: Held, near: set[Fraction]) -> bool:
    """Return whether a checker may evaluate a call with its names' values."""
    return all(not isinstance(value, Fraction) or value in near for _, value in held)


def _find_part(statement: Find, result: Result) -> FindPart:
    """Return a find with its bounds, as a certificate states it."""
    ends = [
        None if end is None or result.verdict == "refuted" else str(Fraction(end))
        for end in (result.lower, result.upper)
    ]
    if ends == [None, None] and result.verdict != "refuted":
        raise Uncertified("no bound for its answer is known")
    return FindPart(statement.direction, statement.variable, ends[0], ends[1])
