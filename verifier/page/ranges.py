"""A chart of the bounds of a number: a bar from lower to upper per result."""

from __future__ import annotations

from collections.abc import Mapping

from leaveout.specs import Call, Compare, Confident, Find, ForAll, Function, Implies, Number
from leaveout.verifier.amounts import bound, plain, same, span
from leaveout.verifier.page.markup import Html, tag
from leaveout.verifier.page.model import Statement
from leaveout.verifier.page.plot import Axis, linear
from leaveout.verifier.report import Result

_INSET = 1.0


def ranges(statement: Statement, table: Mapping[str, Function]) -> Html | None:
    """Return the chart of a statement; None if one number in a sentence says as much."""
    rows = [
        result
        for result in statement.results
        if result.lower is not None or result.upper is not None
    ]
    asked = _threshold(statement)
    if not rows or (len(rows) == 1 and asked is None and _exact(rows[0])):
        return None
    ends = [end for row in rows for end in (row.lower, row.upper) if end is not None]
    # A bar without an upper end needs room to show that.
    ends += [1.5 * row.lower for row in rows if row.lower is not None and row.upper is None]
    axis = _axis([*ends, *([] if asked is None else [asked])], _shares(statement, table))
    names = "Lower and upper bound"
    if statement.kind == "find" and len(rows) > 1:
        names += " for each label"
    return tag(
        "figure",
        tag("figcaption", names, *_legend(asked)),
        tag(
            "div",
            [_row(row, axis, asked) for row in rows],
            tag("div", tag("span"), _ticks(axis), tag("span"), class_="row"),
            class_="ranges",
        ),
        class_="range",
    )


def _axis(values: list[float], shares: bool) -> Axis:
    """Return an axis for some numbers that includes 0; shares of a whole end at 1."""
    low, high = min(0.0, *values), max(0.0, *values)
    if shares and low >= 0 and high <= 1:
        return Axis(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0))
    return linear(low, high, about=4)


def _place(axis: Axis, value: float) -> str:
    """Return the position of a number in per cent of the drawn width."""
    return f"{_INSET + axis.share(value) * (100 - 2 * _INSET):.3f}%"


def _row(result: Result, axis: Axis, asked: float | None) -> Html:
    name = "" if result.label is None else f"label {result.label_text}"
    said = span(*result.claimed_bounds)
    lower = axis.low if result.lower is None else result.lower
    upper = axis.high if result.upper is None else result.upper
    at, to = _place(axis, lower), _place(axis, upper)
    lines = [
        tag("line", x1="1%", x2="99%", y1="50%", y2="50%", class_="track"),
        tag("line", x1=at, x2=to, y1="50%", y2="50%", class_="bar"),
    ]
    if result.lower is not None:
        lines.append(tag("line", x1=at, x2=at, y1=5, y2=23, class_="end"))
    if result.upper is not None:
        lines.append(tag("line", x1=to, x2=to, y1=5, y2=23, class_="end"))
    if asked is not None:
        place = _place(axis, asked)
        lines.append(tag("line", x1=place, x2=place, y1=0, y2=28, class_="asked"))
    return tag(
        "div",
        tag("span", name, class_="name"),
        tag(
            "svg",
            lines,
            class_=result.verdict,
            role="img",
            aria_label=f"{name}: {said}".removeprefix(": "),
        ),
        tag("span", said, class_="value"),
        class_="row",
    )


def _ticks(axis: Axis) -> Html:
    last = len(axis.ticks) - 1
    texts = [
        tag(
            "text",
            plain(value),
            x=_place(axis, value),
            y=11,
            class_="first" if at == 0 else "last" if at == last else None,
        )
        for at, value in enumerate(axis.ticks)
    ]
    return tag("svg", texts, class_="ticks", aria_hidden="true")


def _legend(asked: float | None) -> list[str]:
    return [] if asked is None else [f"; the dashed line is what is asked for, {plain(asked)}"]


def _exact(result: Result) -> bool:
    if result.lower is None or result.upper is None:
        return False
    agree = bound(result.lower) == bound(result.upper, up=True)
    return agree or same(result.lower, result.upper)


def _comparison(statement: Statement) -> tuple[Call, float | None] | None:
    """Return the call a claim compares and the number it is compared with."""
    if statement.written is None:
        return None
    claim = statement.written.statement.claim
    claim = claim.claim if isinstance(claim, Confident) else claim
    if not isinstance(claim, Compare):
        return None
    for value, other in ((claim.left, claim.right), (claim.right, claim.left)):
        if isinstance(value, Call):
            return value, other.value if isinstance(other, Number) else None
    return None


def _threshold(statement: Statement) -> float | None:
    """Return the number that a guarantee's bounds are to be compared with."""
    if statement.written is None or statement.kind == "find":
        return None
    claim = statement.written.statement.claim
    match claim:
        # Bounds of a guarantee over points are those of a leak's confidence.
        case ForAll(_, Implies(Compare(Call("confidence"), ">" | ">=", Number(value)), _)):
            return value
    found = _comparison(statement)
    return None if found is None else found[1]


def _shares(statement: Statement, table: Mapping[str, Function]) -> bool:
    found = _comparison(statement)
    if found is None or not (found[0].function in table and table[found[0].function].share):
        return False
    # A find may ask for how many changes there are, which is no share.
    wanted = statement.written.statement if statement.written is not None else None
    return not isinstance(wanted, Find) or found[1] is None
