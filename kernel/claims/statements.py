"""Statements about values: evaluated again and compared with their claims."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..numbers import need
from ..records import encode
from ..refusal import Rejected
from ..values import HeldFile, Range, number
from .evaluate import Evaluation, Ground, Kept, Steps
from .functions import FUNCTIONS
from .parts import (
    BinaryPart,
    BoxPart,
    CallPart,
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
    canonical,
    children,
    everything,
)

_DEEPEST = 200
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def refuse_unreadable(
    statement: StatementPart, needed: Mapping[str, Part], lets: Mapping[str, Part]
) -> None:
    """Refuse a statement whose text would read differently from its evaluation."""
    variable = () if statement.find is None else (statement.find.variable,)
    for name in (*needed, *variable):
        _refuse_name(name)
    for name in variable:
        _refuse_second(name, lets)
    for each, held in ((statement.claim, variable), *((part, ()) for part in needed.values())):
        _refuse_deep(each)
        _refuse_bound(each, frozenset(held), lets)
        for part in everything(each):
            _refuse(part)


def _refuse(part: Part) -> None:
    for name in _names(part):
        _refuse_name(name)
    match part:
        case NumberPart():
            number(part.value)
        case InputsPart() if len(part.box.lower) != len(part.box.upper):
            raise Rejected("a set of inputs has unequal numbers of lower and upper bounds")
        case CallPart() if part.function == "abs":
            need(set(part.given) == {"number"}, "'abs' needs exactly one argument, a number")
        case CallPart():
            known = FUNCTIONS.get(part.function)
            if known is None:
                raise Rejected(f"{part.function!r} is not a function that can be checked")
            for name in part.given:
                need(name in known.takes, f"{part.function!r} has no argument {name!r}")
        case ForAllPart() if not part.binders:
            raise Rejected("a 'forall' binds no variable")


def _names(part: Part) -> Iterator[str]:
    match part:
        case NamePart():
            yield part.name
        case WordPart():
            yield part.value
        case CallPart():
            yield from (part.function, *part.given)
        case ForAllPart():
            yield from (binder.name for binder in part.binders)


def _refuse_name(name: str) -> None:
    need(_NAME.fullmatch(name) is not None, f"{name!r} is not a valid name")


def _refuse_second(name: str, lets: Mapping[str, Part]) -> None:
    need(name not in lets, f"{name!r} is defined twice")


def _refuse_bound(part: Part, held: frozenset[str], lets: Mapping[str, Part]) -> None:
    """Refuse a ``forall`` that rebinds a name."""
    stack = [(part, held)]
    while stack:
        each, outer = stack.pop()
        if isinstance(each, ForAllPart):
            for binder in each.binders:
                stack.append((binder.domain, outer))
                _refuse_second(binder.name, {**lets, **dict.fromkeys(outer, part)})
                outer |= {binder.name}
            stack.append((each.body, outer))
        else:
            stack.extend((child, outer) for child in children(each))


def _refuse_deep(part: Part) -> None:
    stack = [(part, 1)]
    while stack:
        each, depth = stack.pop()
        need(depth <= _DEEPEST, f"an expression is nested more than {_DEEPEST} levels deep")
        stack.extend((child, depth + 1) for child in children(each))


_TIGHT = {
    "=>": 1, "or": 2, "and": 3, "==": 5, "!=": 5, "<": 5, "<=": 5, ">": 5, ">=": 5, "+": 6, "-": 6,
    "*": 7, "/": 7,
}  # fmt: skip
_NOT, _ATOM = 4, 8
_LONG = 25


def text(part: Part, files: Mapping[int, Path]) -> str:
    """Return an expression in the specification language, with files as found."""
    match part:
        case NumberPart():
            return decimal(number(part.value))
        case WordPart():
            return part.value
        case TextPart():
            return quote_text(part.value)
        case NamePart():
            return part.name
        case FilePlace():
            return f'"{files[part.file]}"' if part.file in files else "a file"
        case InputsPart():
            return _inputs(part.box)
        case ListPart():
            return f"[{', '.join(text(each, files) for each in part.items)}]"
        case CallPart():
            return f"{part.function}({', '.join(_arguments(part, files))})"
        case UnaryPart(operator="-", operand=NumberPart()):
            # As '-1' is a number, the negation of 1 is written in parentheses.
            shown = text(part.operand, files)
            return f"-{shown}" if shown.startswith("-") else f"-({shown})"
        case UnaryPart(operator="-"):
            return f"-{_inside(part.operand, _ATOM, files)}"
        case UnaryPart():
            return f"not {_inside(part.operand, _NOT, files)}"
        case BinaryPart():
            tight = _TIGHT[part.operator]
            left = _inside(part.left, tight + (tight in (1, 5)), files)
            right = _inside(part.right, tight + (tight != 1), files)
            return f"{left} {part.operator} {right}"
        case ForAllPart():
            bound = ", ".join(f"{b.name} in {_inside(b.domain, 6, files)}" for b in part.binders)
            return f"forall {bound}: {text(part.body, files)}"


def statement_lines(statement: StatementPart, files: Mapping[int, Path]) -> Iterator[str]:
    """Yield the lines of a statement and its claim."""
    claim = text(statement.claim, files)
    if statement.confidence is not None:
        claim += f" with confidence {decimal(number(statement.confidence))}"
    asked = statement.find
    if asked is None:
        wrong = "" if statement.verdict == "proved" else "it is not true that "
        yield f"{statement.name}: {wrong}{claim}"
        return
    sentence = f"{statement.name}: the {asked.direction} {asked.variable} such that {claim}"
    if statement.verdict == "refuted":
        yield f"{sentence}: there is none"
        return
    ends = [
        f"at {word} {decimal(number(end))}"
        for word, end in (("least", asked.lower), ("most", asked.upper))
        if end is not None
    ]
    same = asked.lower is not None and asked.lower == asked.upper
    yield f"{sentence} is {ends[0].removeprefix('at least ') if same else ' and '.join(ends)}"


def quote_text(value: str) -> str:
    """Return a text in quotes, as the specification language writes it."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def decimal(value: Fraction) -> str:
    """Return a fraction as a decimal number if possible, else as a quotient."""
    rest, places = value.denominator, 0
    for prime in (2, 5):
        count = 0
        while rest % prime == 0:
            rest //= prime
            count += 1
        places = max(places, count)
    if rest != 1 or places > 20:
        whole = str(value)
        return whole if len(whole) <= _LONG else f"about {_round_digits(value)}"
    if places == 0:
        return str(value.numerator)
    digits = str(abs(value.numerator) * 10**places // value.denominator).zfill(places + 1)
    return f"{'-' * (value < 0)}{digits[:-places]}.{digits[-places:]}"


def _round_digits(value: Fraction) -> str:
    """Return twelve digits, even for numbers beyond float64's range."""
    near = Context(prec=12).divide(Decimal(value.numerator), Decimal(value.denominator))
    plain = not value or Decimal("1e-300") < abs(near) < Decimal("1e300")
    return f"{float(value):.12g}" if plain else f"{near:.12g}"


def _arguments(part: CallPart, files: Mapping[int, Path]) -> Iterator[str]:
    known = FUNCTIONS.get(part.function)
    takes = tuple(part.given) if known is None else known.takes
    places = takes if known is None else takes[: known.places]
    for name in (name for name in takes if name in part.given):
        shown = text(part.given[name], files)
        yield shown if name in places else f"{name} = {shown}"


def _inputs(box: BoxPart) -> str:
    """Return a set of inputs in words: its range, and its digest if that is not all."""
    sides = sorted(set(zip(box.lower, box.upper, strict=True)))
    if len(sides) == 1 and not box.choices:
        low, high = sides[0]
        return f"box({low!r}, {high!r})"
    digest = hashlib.sha256(encode(box)).hexdigest()
    return f"inputs({len(box.lower)} features, SHA-256 {digest})"


def _inside(part: Part, tight: int, files: Mapping[int, Path]) -> str:
    shown = text(part, files)
    match part:
        case BinaryPart():
            own = _TIGHT[part.operator]
        case ForAllPart():
            own = 1
        case UnaryPart(operator="not"):
            own = _NOT
        case NumberPart() if "/" in shown:
            own = 6
        case _:
            own = _ATOM
    return shown if own >= tight else f"({shown})"


@dataclass(frozen=True, eq=False)
class ValueSubject:
    """Description of one statement about values."""

    statement: StatementPart
    lets: Mapping[str, Part]  # the lets it needs
    files: Mapping[int, HeldFile]
    told: list[str] = field(default_factory=list)  # the assumptions it depends on

    @property
    def members(self) -> int | None:
        """None, since it does not concern a family."""
        return None

    def lines(self) -> Iterator[str]:
        """Yield the lines of the statement."""
        yield from statement_lines(self.statement, self._paths)

    def rests_on(self) -> Iterator[str]:
        """Yield a line for each definition, file and assumption it depends on."""
        for name, part in self.lets.items():
            yield f"{name} = {text(part, self._paths)}"
        for each in self.files.values():
            yield f"file {each.path} (SHA-256 {each.sha256})"
        yield from self.told

    @property
    def _paths(self) -> dict[int, Path]:
        return {place: each.path for place, each in self.files.items()}


@dataclass(eq=False)
class Statements:
    """Checker of one certificate's statements about values."""

    part: ValuesPart
    file: Callable[[int], HeldFile]
    proof: Callable[[str], Mapping[str, NDArray[Any]]]
    ground: Ground = field(default_factory=Ground)
    _kept: Kept = field(default_factory=dict)
    _steps: Steps = field(default_factory=Steps)

    def check(self, statement: StatementPart) -> ValueSubject:
        """Evaluate a statement again."""
        needed = self._lets(statement.claim)
        refuse_unreadable(statement, needed, self.part.lets)
        places = [
            each.file
            for each in everything(statement.claim, *needed.values())
            if isinstance(each, FilePlace)
        ]
        files = {place: self.file(place) for place in dict.fromkeys(places)}
        for each in files.values():
            # Text after it would be read as part of the claim.
            plain = '"' not in str(each.path)
            need(plain, f"the file name {str(each.path)!r} contains a quotation mark")
        evaluation = self._evaluation(statement, needed)
        if statement.find is None:
            found = evaluation.truth(statement.claim, {})
            if found is not (statement.verdict == "proved"):
                which = "not decided" if found is None else "refuted" if not found else "proved"
                raise Rejected(f"it is claimed to be {statement.verdict}, but is {which}")
        else:
            self._find(statement, statement.find, evaluation)
        return ValueSubject(statement, needed, files, evaluation.told)

    def _evaluation(self, statement: StatementPart, needed: Mapping[str, Part]) -> Evaluation:
        """Return the evaluator of a statement; its sampled numbers share the error."""
        each: Fraction | None = None
        if statement.confidence is not None:
            level = number(statement.confidence)
            need(0 < level < 1, f"{level} is not a confidence")
            calls = [*everything(statement.claim, *needed.values())]
            single = not any(isinstance(part, ForAllPart) for part in calls)
            need(single, "a claim over many values cannot have a confidence")
            sampled = {
                canonical(part) for part in calls if isinstance(part, CallPart) and _samples(part)
            }
            each = 1 - (1 - level) / max(1, len(sampled))
        return Evaluation(
            self.part.lets, self.file, self._proof, each, self._kept,
            ground=self.ground, steps=self._steps,
        )  # fmt: skip

    def _proof(self, key: str) -> Mapping[str, NDArray[Any]]:
        prefix = self.part.proofs.get(key)
        return {} if prefix is None else self.proof(prefix)

    def _lets(self, claim: Part) -> dict[str, Part]:
        """Return the lets that a claim needs, in the order of the certificate."""
        lets, found, stack = self.part.lets, set[str](), [claim]
        while stack:
            for each in everything(stack.pop()):
                if isinstance(each, NamePart) and each.name in lets and each.name not in found:
                    found.add(each.name)
                    stack.append(lets[each.name])
        return {name: part for name, part in lets.items() if name in found}

    def _find(self, statement: StatementPart, asked: FindPart, evaluation: Evaluation) -> None:
        """Compare the claimed bounds with the claim at adjacent numbers."""
        claim, variable = statement.claim, asked.variable
        refuted = statement.verdict == "refuted"
        bounded = asked.lower is not None or asked.upper is not None
        need(refuted or bounded, f"it states no bound of {variable}")
        ends = [None if end is None else number(end) for end in (asked.lower, asked.upper)]
        value = _comparand(claim, variable)
        if value is not None:
            _right_way(claim, asked)
            found = evaluation.range(value, {})
            lower, upper = ends
            need(not refuted, "a value always exists, so this cannot be refuted")
            if (lower is not None and not found.lower >= lower) or (
                upper is not None and not found.upper <= upper
            ):
                raise Rejected(f"the value is between {found.lower} and {found.upper}")
            return
        certain = statement.confidence is None
        need(certain, "a search over many numbers cannot have a confidence")
        holds_below = self._holds_below(claim, variable)
        exists = holds_below == (asked.direction == "greatest")
        need(exists, f"there can be no {asked.direction} {variable}")

        def holds(at: Fraction) -> bool | None:
            return evaluation.truth(claim, {variable: Range.exactly(at)})

        if refuted:
            never = holds_below and holds(Fraction(0)) is False
            need(never, "it is not shown that the claim is false for every number")
            return
        # The claim changes at the sought number, so it is evaluated next to each end of the range.
        lower, upper = ends
        beside = [(lower, True, 0), (upper, False, 1)]
        if not holds_below:
            beside = [(lower, False, -1), (upper, True, 0)]
        for end, expected, step in beside:
            if end is None:
                continue
            need(
                end.denominator == 1 and end >= 0,
                f"{variable} must be a whole number of at least 0, not {decimal(end)}",
            )
            if end + step < 0:
                continue
            shown, word = holds(end + step) is expected, "hold" if expected else "fail"
            need(shown, f"the claim is not shown to {word} for {variable} = {end + step}")

    def _holds_below(self, claim: Part, variable: str) -> bool:
        """Return whether the claim, if true for a number, is true for all smaller ones."""
        wrong = Rejected(f"it is not known how the claim changes with {variable}")
        if not isinstance(claim, BinaryPart) or claim.operator not in ("<", "<=", ">", ">="):
            raise wrong
        left, operator, right = claim.left, claim.operator, claim.right
        if _mentions(right, variable):
            mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
            left, operator, right = right, mirrored[operator], left  # type: ignore[assignment]
        if _mentions(right, variable) or not isinstance(left, CallPart):
            raise wrong
        holders = [name for name, part in left.given.items() if _mentions(part, variable)]
        if len(holders) != 1 or left.given[holders[0]] != NamePart(variable):
            raise wrong
        known = FUNCTIONS.get(left.function)
        if known is None or holders[0] not in known.falling:
            raise wrong
        return operator in (">", ">=")


def _comparand(claim: Part, variable: str) -> Part | None:
    """Return what a variable is directly compared with; None if it is an argument."""
    if isinstance(claim, BinaryPart):
        for one, other in ((claim.left, claim.right), (claim.right, claim.left)):
            if one == NamePart(variable) and not _mentions(other, variable):
                return other
    return None


def _right_way(claim: Part, asked: FindPart) -> None:
    """Refuse a least or greatest number that does not exist."""
    assert isinstance(claim, BinaryPart)
    below = "<=" if claim.left == NamePart(asked.variable) else ">="
    above = ">=" if below == "<=" else "<="
    exists = claim.operator == {"greatest": below, "least": above}[asked.direction]
    need(exists, f"there can be no {asked.direction} {asked.variable}")


def _samples(call: CallPart) -> bool:
    known = FUNCTIONS.get(call.function)
    return known is not None and known.samples


def _mentions(part: Part, name: str) -> bool:
    return any(each == NamePart(name) for each in everything(part))
