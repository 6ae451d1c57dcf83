"""Sets of inputs: boxes, and restrictions of them to listed values."""

from __future__ import annotations

from contextlib import suppress

from leaveout.specs.table.listed import Lists, Reader, Unknown, circle, grid, integers, one_hot
from leaveout.specs.table.signatures import Bound, Function, Parameter, Rule, Types
from leaveout.specs.text.expressions import Expression, ListOf, Number
from leaveout.specs.types import INPUTS, LIST, NUMBER, TABLE, TEXT, Type


def _ordered_bounds(given: Bound, types: Types) -> str | None:
    """Refuse an empty box; the check waits if bounds are not literals."""

    def values(bound: Expression) -> list[Number] | None:
        if isinstance(bound, Number):
            return [bound]
        if isinstance(bound, ListOf):
            items = [item for item in bound.items if isinstance(item, Number)]
            return items if len(items) == len(bound.items) else None
        return None

    lower, upper = given["lower"], given["upper"]
    if isinstance(lower, ListOf) and isinstance(upper, ListOf):
        count, other = len(lower.items), len(upper.items)
        if count != other:
            return f"{count} lower and {other} upper bounds: each feature needs one of each"
    lows, highs = values(lower), values(upper)
    if lows is None or highs is None:
        return None
    features = max(len(lows), len(highs))
    lows, highs = (side * features if len(side) == 1 else side for side in (lows, highs))
    for feature, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if low.value > high.value:
            where = f" of feature {feature}" if features > 1 else ""
            return (
                f"this box is empty: the lower bound {low}{where} is above the upper bound {high}"
            )
    return None


def _can_be_listed(lists: Lists) -> Rule:
    """Refuse an argument known not to be a list; other arguments are checked when used."""

    def rule(given: Bound, types: Types) -> str | None:
        with suppress(Unknown):
            lists(Reader(lambda node: node), given)
        return None

    return rule


_BOUND = (NUMBER, LIST)
_INPUTS = Parameter("inputs", (INPUTS,))
_AT = Parameter("at", (NUMBER, LIST), named=True)
_ALSO = Parameter("also", (LIST, TABLE), optional=True, named=True)


def _option(name: str, *types: Type) -> Parameter:
    return Parameter(name, types, optional=True, named=True)


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "box",
        (Parameter("lower", _BOUND), Parameter("upper", _BOUND)),
        INPUTS,
        "Every input between two bounds: a number for all features, or a list with one per "
        "feature.",
        "let X = box(0, 1)",
        _ordered_bounds,
    ),
    Function(
        "around",
        (
            Parameter("centre", (LIST,)),
            Parameter("radius", (NUMBER,), least=0),
            _option("within", INPUTS),
        ),
        INPUTS,
        "Every input whose features each lie at most a radius from those of a centre; with "
        "'within', only those that lie in that set too.",
        "let X = around([0.2, 0.5, 0.9], 0.05, within = box(0, 1))",
    ),
    Function(
        "missing",
        (_INPUTS, _AT),
        INPUTS,
        "These features may also be missing (NaN), where trees read the inputs.",
        "let X = missing(box(0, 1), at = [3, 4])",
    ),
    Function(
        "grid",
        (_INPUTS, _AT, Parameter("values", (LIST, TABLE, TEXT), named=True)),
        INPUTS,
        "Only inputs whose features take listed values: one feature a value from a list, "
        "several features together a row from a list, or the values they take together in an "
        "NPZ file of data.",
        "let X = grid(box(0, 1), at = 3, values = [0, 0.5, 1])",
        _can_be_listed(grid),
        lists=grid,
    ),
    Function(
        "integers",
        (
            _INPUTS,
            _AT,
            _option("lower", NUMBER),
            _option("upper", NUMBER),
            _option("zero", NUMBER),
            _option("one", NUMBER),
        ),
        INPUTS,
        "Only inputs whose features are whole numbers, scaled so that 'zero' (default 0) "
        "becomes 0 and 'one' (default 1) becomes 1; by default all that the box contains.",
        "let X = integers(box(0, 1), at = 0, lower = 17, upper = 90, one = 100)",
        _can_be_listed(integers),
        lists=integers,
    ),
    Function(
        "one_hot",
        (_INPUTS, Parameter("at", (LIST,), named=True), _ALSO),
        INPUTS,
        "Only inputs with a 1 in one of these features and 0 in the others, or with a row of "
        "'also'.",
        "let X = one_hot(box(0, 1), at = [5, 6, 7])",
        _can_be_listed(one_hot),
        lists=one_hot,
    ),
    Function(
        "circle",
        (
            _INPUTS,
            Parameter("at", (LIST,), named=True),
            Parameter("points", (NUMBER,), named=True),
            _option("arc", NUMBER),
            _option("start", NUMBER),
            _option("radius", NUMBER),
            _option("centre", NUMBER, LIST),
            _ALSO,
        ),
        INPUTS,
        "Only inputs whose two features are the (cos, sin) of evenly spaced angles, all the way "
        "round or over an 'arc' with both its ends, or a row of 'also'; 'start' and 'arc' are in "
        "turns.",
        "let X = circle(box(-1, 1), at = [8, 9], points = 12)",
        _can_be_listed(circle),
        lists=circle,
    ),
)
