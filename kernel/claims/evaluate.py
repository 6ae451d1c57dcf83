"""Exact evaluation of expressions by the checker's own functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from numpy.typing import NDArray

from ..numbers import need
from ..onnx_file import Reader
from ..refusal import Rejected
from ..values import (
    Answers,
    Compared,
    Given,
    HeldFile,
    Range,
    Text,
    Topic,
    compare,
    no_answers,
    number,
)
from .functions import FUNCTIONS
from .parts import (
    BinaryPart,
    CallPart,
    FilePlace,
    ForAllPart,
    InputsPart,
    ListPart,
    NamePart,
    NumberPart,
    Part,
    TextPart,
    UnaryPart,
    WordPart,
    canonical,
    children,
    everything,
)

Bindings: TypeAlias = Mapping[str, object]
"""Values of the names bound by ``forall`` and ``find``."""

Kept: TypeAlias = dict[tuple[str, Fraction | None], tuple[object, list[str]]]
"""Results, and the reports on each, by the call they are from."""

_ARITHMETIC: Mapping[str, Callable[[Range, Range], Range]] = {
    "+": Range.__add__,
    "-": Range.__sub__,
    "*": Range.__mul__,
    "/": Range.__truediv__,
}
_ORDER = ("<", "<=", ">", ">=")
_DEEPEST = 400
_MOST_VALUES = 500_000


def key_of(number: int, bound: Bindings) -> str:
    """Return the key of a call's proof, given the values of its names."""
    texts = []
    for name in sorted(bound):
        value = bound[name]
        if isinstance(value, Range):
            value = value.exact_value
        if isinstance(value, tuple) and all(isinstance(each, int) for each in value):
            value = " ".join(map(str, value))
        if not isinstance(value, int | Fraction | str):
            raise Rejected(f"a proof cannot be looked up by {name!r}")
        texts.append(f"{name} = {value}")
    return ", ".join([str(number), *texts])


@dataclass(eq=False)
class Steps:
    """A limit on the total number of values that ``forall`` ranges over."""

    left: int = _MOST_VALUES

    def take(self) -> None:
        """Count one; raises Rejected if there are too many."""
        self.left -= 1
        if self.left < 0:
            raise Rejected(f"more than {_MOST_VALUES:,} values to check in total")


@dataclass(frozen=True, eq=False)
class Ground:
    """What all calls of a certificate share."""

    answers: Answers = no_answers
    reader: Reader | None = None
    exact: bool = False  # whether bounds of networks are to be exact


@dataclass(eq=False)
class Evaluation:
    """Evaluator of a certificate's expressions; constant parts are computed once."""

    lets: Mapping[str, Part]
    file: Callable[[int], HeldFile]
    proof: Callable[[str], Mapping[str, NDArray[Any]]]
    confidence: Fraction | None = None  # confidence of each sampled number
    kept: Kept = field(default_factory=dict)  # earlier results, which statements can share
    told: list[str] = field(default_factory=list)
    ground: Ground = field(default_factory=Ground)
    steps: Steps = field(default_factory=Steps)  # limit that statements can share
    _open: set[str] = field(default_factory=set)

    def truth(self, part: Part, bound: Bindings) -> bool | None:
        """Return whether a claim holds; None if unknown."""
        value = self.value(part, bound)
        if value is not None and not isinstance(value, bool):
            raise Rejected("expected a claim, which is true or false")
        return value

    def range(self, part: Part, bound: Bindings) -> Range:
        """Return a number."""
        value = self.value(part, bound)
        if not isinstance(value, Range):
            raise Rejected("expected a number")
        return value

    def value(self, part: Part, bound: Bindings) -> object:
        """Return the value of an expression."""
        match part:
            case NumberPart():
                return Range.exactly(number(part.value))
            case WordPart():
                return part.value
            case TextPart():
                return Text(part.value)
            case FilePlace():
                return self.file(part.file)
            case InputsPart():
                return part.box
            case NamePart():
                return bound[part.name] if part.name in bound else self._let(part.name)
            case ListPart():
                return tuple(self.value(each, bound) for each in part.items)
            case CallPart():
                return self._call(part, bound)
            case UnaryPart(operator="-"):
                return -self.range(part.operand, bound)
            case UnaryPart():
                found = self.truth(part.operand, bound)
                return None if found is None else not found
            case BinaryPart():
                return self._binary(part, bound)
            case ForAllPart():
                return self._over(part, 0, bound)

    def _let(self, name: str) -> object:
        need(name in self.lets, f"{name!r} is not defined")

        def make() -> object:
            closed = name not in self._open and len(self._open) <= _DEEPEST
            need(closed, f"{name!r} is defined in terms of itself")
            self._open.add(name)
            try:
                return self.value(self.lets[name], {})
            finally:
                self._open.discard(name)

        return self._once(f"let {name}", make)

    def _once(self, what: str, make: Callable[[], object]) -> object:
        """Return a result that is computed once, and repeat its reports."""
        key = what, self.confidence
        if key not in self.kept:
            outer, self.told = self.told, []
            try:
                value = make()
            finally:
                lines, self.told = self.told, outer
            self.kept[key] = value, lines
        value, lines = self.kept[key]
        self.told += lines
        return value

    def _binary(self, part: BinaryPart, bound: Bindings) -> object:
        operator = part.operator
        if operator in _ARITHMETIC:
            left, right = self.range(part.left, bound), self.range(part.right, bound)
            return _ARITHMETIC[operator](left, right).short()
        if operator in ("and", "or", "=>"):
            return self._join_claims(part, bound)
        one, other = self.value(part.left, bound), self.value(part.right, bound)
        if isinstance(one, Range) and isinstance(other, Range):
            return compare(one, operator, other)
        if operator in _ORDER or isinstance(one, Range) or isinstance(other, Range):
            raise Rejected(f"{operator!r} compares something other than numbers")
        if not isinstance(one, Compared) or type(one) is not type(other):
            raise Rejected(f"{operator!r} compares something other than numbers or forests")
        return bool(one == other) == (operator == "==")

    def _join_claims(self, part: BinaryPart, bound: Bindings) -> bool | None:
        """Join two claims; the right one is skipped if the left one decides."""
        left = self.truth(part.left, bound)
        if part.operator == "=>":
            left = None if left is None else not left
        settles = part.operator != "and"
        if left is settles:
            return settles
        right = self.truth(part.right, bound)
        if right is settles:
            return settles
        return None if left is None or right is None else not settles

    def _over(self, part: ForAllPart, depth: int, bound: Bindings) -> bool | None:
        if depth == len(part.binders):
            return self.truth(part.body, bound)
        binder = part.binders[depth]
        domain = self.value(binder.domain, bound)
        if not isinstance(domain, Iterable) or isinstance(domain, str):
            raise Rejected(f"{binder.name!r} does not range over a set of values")
        found: bool | None = True
        for item in domain:
            self.steps.take()
            each = self._over(part, depth + 1, {**bound, binder.name: item})
            if each is False:
                return False
            found = found if each is True else None
        return found

    def _call(self, part: CallPart, bound: Bindings) -> object:
        if part.function == "abs":
            return abs(self.range(part.given["number"], bound))
        known = FUNCTIONS.get(part.function)
        if known is None:
            raise Rejected(f"{part.function!r} is not a function that can be checked")
        mentioned = {name: bound[name] for name in _names(part) if name in bound}

        def make() -> object:
            values = {name: self.value(each, bound) for name, each in part.given.items()}
            proof = self.proof(key_of(part.number, mentioned)) if _has_key(mentioned) else {}
            ground = self.ground
            ask = ground.answers(Topic(part.function, "", proof))
            given = Given(
                values, proof, self.confidence, self.told.append, ask, ground.exact,
                ground.answers, ground.reader,
            )  # fmt: skip
            found = known.check(given)
            right = {"number": Range, "claim": bool | None}.get(known.result)
            if right is not None and not isinstance(found, right):
                raise AssertionError(f"{part.function} returned a {type(found).__name__}")
            return found

        return make() if mentioned else self._once(canonical(part), make)


def _has_key(mentioned: Bindings) -> bool:
    return all(isinstance(each, Range | int | str | tuple) for each in mentioned.values())


def _names(part: Part) -> Iterator[str]:
    for each in everything(*children(part)):
        if isinstance(each, NamePart):
            yield each.name
