"""The table of functions a specification may call: the built-in ones and plug-ins'."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from leaveout.specs.expressions import Expression, ListOf, Number
from leaveout.specs.listed import Reader, Unknown
from leaveout.specs.types import (
    FAMILY,
    INPUTS,
    LABEL,
    LIST,
    NETWORK,
    NUMBER,
    POINT,
    TABLE,
    TEXT,
    Type,
)

__all__ = ["BUILT_IN", "Bound", "Function", "Parameter", "built_in", "functions"]

GROUP = "leaveout.functions"

Bound = dict[str, Expression]
"""The arguments of one call under the names of the parameters."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function.

    Attributes
    ----------
    name : str
        Any argument may be given by it, ``name = value``.
    types : tuple of Type
        What the argument may be; one of `types` and `words` is not empty.
    optional : bool
    named : bool
        Whether the argument must be given by name.
    words : tuple of str
        Bare words the argument may be instead, such as ``adaptive``.
    """

    name: str
    types: tuple[Type, ...] = ()
    optional: bool = False
    named: bool = False
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        kinds = (*self.words, *(kind.name for kind in self.types))
        return f"{self.name}{' = ' if self.named else ': '}{' | '.join(kinds)}"


@dataclass(frozen=True)
class Function:
    """A function a specification may call.

    Attributes
    ----------
    name : str
    parameters : tuple of Parameter
        Those that must be given come first.
    result : Type
    doc : str
        What it means, in a line.
    example : str
    rule : callable or None
        Given the arguments of a call under their parameters' names, each of a right type,
        returns what is wrong with them together, or None. It may raise a
        `leaveout.specs.errors.Slip` to point at one of them.
    """

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    doc: str
    example: str
    rule: Callable[[Bound], str | None] | None = None

    @property
    def signature(self) -> str:
        """The function as messages show it, optional parameters in square brackets."""
        text = ""
        for parameter in self.parameters:
            comma = ", " if text else ""
            text += f"[{comma}{parameter}]" if parameter.optional else f"{comma}{parameter}"
        return f"{self.name}({text}) -> {self.result.name}"


def _ordered_bounds(given: Bound) -> str | None:
    """Refuse a box known to be empty; bounds that are not literals are not known here."""

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


def _whole_label(given: Bound) -> str | None:
    label = given.get("label")
    if isinstance(label, Number) and not (label.value >= 0 and float(label.value).is_integer()):
        return f"a label is a whole number from 0, {label} is not"
    return None


def _can_be_listed(function: str) -> Callable[[Bound], str | None]:
    """Refuse what is known to be no list; what is not known here is left to when it is used."""

    def rule(given: Bound) -> str | None:
        with suppress(Unknown):
            Reader(lambda node: node).read(function, given)
        return None

    return rule


_BOUND = (NUMBER, LIST)
_INPUTS = Parameter("inputs", (INPUTS,))
_AT = Parameter("at", (NUMBER, LIST), named=True)
_ALSO = Parameter("also", (LIST, TABLE), optional=True, named=True)


def _option(name: str, *types: Type) -> Parameter:
    return Parameter(name, types, optional=True, named=True)


BUILT_IN: tuple[Function, ...] = (
    Function(
        "network",
        (Parameter("path", (TEXT,)),),
        NETWORK,
        "The network in an ONNX file.",
        'let N = network("full.onnx")',
    ),
    Function(
        "family",
        (Parameter("path", (TEXT,)),),
        FAMILY,
        "The networks retrained without one point each.",
        'let F = family("family.npz")',
    ),
    Function(
        "box",
        (Parameter("lower", _BOUND), Parameter("upper", _BOUND)),
        INPUTS,
        "Every input between two bounds: a number for all features, or a list, one a feature.",
        "let X = box(0, 1)",
        _ordered_bounds,
    ),
    Function(
        "grid",
        (_INPUTS, _AT, Parameter("values", (LIST, TABLE, TEXT), named=True)),
        INPUTS,
        "Only inputs whose features take listed values: each one of some numbers, or together one "
        "of some rows, or what they take together in an NPZ file of data.",
        "let X = grid(box(0, 1), at = 3, values = [0, 0.5, 1])",
        _can_be_listed("grid"),
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
        "Only inputs whose features are whole numbers, scaled so that 'zero' (default 0) becomes "
        "0 and 'one' (default 1) becomes 1; by default all that the box holds.",
        "let X = integers(box(0, 1), at = 0, lower = 17, upper = 90, one = 100)",
        _can_be_listed("integers"),
    ),
    Function(
        "one_hot",
        (_INPUTS, Parameter("at", (LIST,), named=True), _ALSO),
        INPUTS,
        "Only inputs with a 1 in one of these features and 0 in the others, or with a row of "
        "'also'.",
        "let X = one_hot(box(0, 1), at = [5, 6, 7])",
        _can_be_listed("one_hot"),
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
        _can_be_listed("circle"),
    ),
    Function(
        "confidence",
        (
            Parameter("network", (NETWORK,)),
            Parameter("point", (POINT,)),
            Parameter("label", (NUMBER,), optional=True),
        ),
        NUMBER,
        "The score of a label, by default the predicted one, minus the best other score.",
        "confidence(N, x) > 0.5",
        _whole_label,
    ),
    Function(
        "label",
        (Parameter("network", (NETWORK,)), Parameter("point", (POINT,))),
        LABEL,
        "The label a network predicts for a point.",
        "label(M, x) == label(N, x)",
    ),
)


def built_in(name: str) -> Function:
    """Return a built-in function.

    Raises
    ------
    KeyError
        If there is none of that name.
    """
    return {function.name: function for function in BUILT_IN}[name]


def functions() -> dict[str, Function]:
    """Return the functions a specification may call, by name.

    Returns
    -------
    dict of str to Function
        The built-in ones, then those of the entry points ``leaveout.functions``. The
        environment variable ``LEAVEOUT_PLUGINS=off`` leaves plug-ins out.

    Warns
    -----
    UserWarning
        For a plug-in that cannot be loaded or whose name is taken; it is left out.
    """
    table = {function.name: function for function in BUILT_IN}
    if os.environ.get("LEAVEOUT_PLUGINS", "").lower() in {"off", "0", "no", "false"}:
        return table
    # Reading the metadata of every installed package is not for who only parses.
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        try:
            function = point.load()
        except Exception as error:  # a plug-in may raise anything
            _skip(point.value, f"it cannot be loaded: {type(error).__name__}: {error}")
            continue
        if not isinstance(function, Function):
            _skip(point.value, f"it is a {type(function).__name__}, expected a Function")
        elif function.name in table:
            _skip(point.value, f"there is a function '{function.name}' already")
        else:
            table[function.name] = function
    return table


def _skip(plugin: str, why: str) -> None:
    warnings.warn(f"plug-in function {plugin} is left out: {why}", stacklevel=3)
