"""Statements about values as text in the specification language."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path

import msgspec

from leaveout.verifier.checker.basic_parts import BoxPart
from leaveout.verifier.checker.expressions.functions import FUNCTIONS
from leaveout.verifier.checker.expressions.parts import (
    BinaryPart,
    CallPart,
    FilePlace,
    ForAllPart,
    InputsPart,
    ListPart,
    NamePart,
    NumberPart,
    Part,
    StatementPart,
    TextPart,
    UnaryPart,
    WordPart,
)
from leaveout.verifier.checker.expressions.ranges import number

_TIGHT = {
    "=>": 1, "or": 2, "and": 3, "==": 5, "!=": 5, "<": 5, "<=": 5, ">": 5, ">=": 5, "+": 6, "-": 6,
    "*": 7, "/": 7,
}  # fmt: skip
_NOT, _ATOM = 4, 8
_LONG = 25


def text(part: Part, files: Mapping[int, Path]) -> str:
    """Return an expression as the specification language writes it, files as they were found."""
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
            # As '-1' is a number, what is the negation of 1 has parentheses.
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
        wrong = "" if statement.verdict == "proved" else "it is not so that "
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
    """Return a fraction as a decimal number if it is one, else as a quotient."""
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
    """Return twelve digits, also of numbers beyond float64's range."""
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
    """Return a set of inputs in words: its range, or else also its digest."""
    sides = sorted(set(zip(box.lower, box.upper, strict=True)))
    if len(sides) == 1 and not box.choices:
        low, high = sides[0]
        return f"box({low!r}, {high!r})"
    digest = hashlib.sha256(msgspec.json.encode(box)).hexdigest()
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
