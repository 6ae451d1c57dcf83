"""The possible records of a table, as an input set of the language."""

from __future__ import annotations

from collections.abc import Sequence

from leaveout.models.family import DataFacts
from leaveout.models.train.decoding import listable
from leaveout.models.train.encoding import CategoryColumn, Encoding

_MOST_LISTED = 1_000_000
"""Numbers that the whole set lists: further columns stay ranges."""
_MOST_CHARACTERS = 60_000
"""... and that it, and its box, are written in."""
_LONGEST = 60
_NAMED = 8
"""Columns that stay ranges, by name."""


def records_text(facts: DataFacts, encoding: Encoding) -> str:
    """Return the lets that define ``X``, the possible records of a table."""
    refined, left = _refinements(encoding)
    names = [*(f"X{number}" for number in range(len(refined))), "X"]
    lines = [f"let {names[0]} = {_box(facts)}"]
    for number, (function, arguments, said) in enumerate(refined):
        call = f"{function}({names[number]}, {arguments})"
        lines.append(f"let {names[number + 1]} = {call}  # {said}")
    if left:
        more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        lines.insert(
            0,
            "# whole numbers or categories, but too many values to list them all, so these stay "
            f"ranges: {', '.join(left[:_NAMED])}{more}",
        )
    return "\n".join(lines)


def _box(facts: DataFacts) -> str:
    # A table's columns are scaled into [0, 1]; a constant one is 0, or 1 if it is a word.
    written = f"box({_list(facts.minimum)}, {_list(facts.maximum)})"
    low, high = min(facts.minimum), max(facts.maximum)
    plain = set(facts.minimum) == {low} and set(facts.maximum) == {high}
    if plain or len(written) > _MOST_CHARACTERS:
        return f"box({_number(low)}, {_number(high)})"
    return written


def _list(values: Sequence[float]) -> str:
    return f"[{', '.join(map(_number, values))}]"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(value)


def _refinements(encoding: Encoding) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return each refinement by a column's listed values, and columns left out.

    Left out are columns with too many values to list or to read again.
    """
    refined: list[tuple[str, str, str]] = []
    left: list[str] = []
    first, listed, written = 0, 0, 0
    for column in encoding.columns:
        features = range(first, first + len(column.features))
        first = features.stop
        name = " ".join(column.name.split())[:_LONGEST]
        if isinstance(column, CategoryColumn):
            count = len(features) ** 2
            call = ("one_hot", f"at = {list(features)}", name)
        elif column.whole and column.minimum < column.maximum:
            count = int(column.maximum - column.minimum) + 1
            low, high = _number(column.minimum), _number(column.maximum)
            plain = (low, high) == ("0", "1") or not column.scaled
            ends = "" if plain else f", zero = {low}, one = {high}"
            call = ("integers", f"at = {features.start}{ends}", f"{name}: {low} to {high}")
        else:
            # The box says all of it.
            continue
        length = sum(map(len, call))
        if (
            not listable(column)
            or listed + count > _MOST_LISTED
            or written + length > _MOST_CHARACTERS
        ):
            left.append(name)
            continue
        listed, written = listed + count, written + length
        refined.append(call)
    return refined, left
