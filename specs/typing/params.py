"""The params of a specification, and how to override them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from leaveout.errors import SpecError
from leaveout.specs.text.errors import Slip, error_in_file
from leaveout.specs.text.expressions import (
    Expression,
    Name,
    Number,
    Text,
    constant,
    unquote_text,
    wrong_escape,
)
from leaveout.specs.text.parse import parse
from leaveout.specs.text.tree import Let, Param, Spec

Value: TypeAlias = float | str
"""The value of a param."""

_LONGEST = 40


@dataclass
class Constants:
    """The constants among the lets and params read so far."""

    _known: dict[str, Number | Text] = field(default_factory=dict, init=False)

    def read(self, let: Let) -> Value | None:
        """Record and return the value of a let or param; None if it is not constant."""
        node = self._follow(let.value)
        if isinstance(node, Text):
            self._known.setdefault(let.name, node)
            return node.value
        value = constant(node, self._follow)
        if value is not None:
            self._known.setdefault(let.name, Number(value))
        return value

    def param(self, param: Param) -> Value:
        """Return the value of a param; raises `Slip` if it is not constant."""
        value = self.read(param)
        if value is None:
            wrong = f"the value of '{param.name}' is neither a constant number nor a text"
            raise Slip(
                param.value.at, wrong, "write 'let' for it; a param looks like: param eps = 0.1"
            )
        return value

    def _follow(self, node: Expression) -> Expression:
        return self._known.get(node.name, node) if isinstance(node, Name) else node


def params(spec: Spec) -> dict[str, Value]:
    """Return the params of a specification with their values, in order.

    Raises
    ------
    SpecError
        If a value is not constant; the message points at it.
    """
    constants = Constants()
    found: dict[str, Value] = {}
    for each in spec.statements:
        try:
            if isinstance(each, Param):
                found.setdefault(each.name, constants.param(each))
            elif isinstance(each, Let):
                with suppress(Slip):
                    constants.read(each)
        except Slip as slip:
            raise error_in_file(spec.source, slip) from None
    return found


def with_params(spec: Spec, values: Mapping[str, Value]) -> Spec:
    """Return a specification with some params replaced.

    Parameters
    ----------
    spec : Spec
    values : mapping of str to float or str
        By param name. A number may be a text, in the specification's syntax.

    Returns
    -------
    Spec
        The same except for the values; messages still show the original text.

    Raises
    ------
    SpecError
        If there is no such param, or its value is of another type.
    """
    if not values:
        return spec
    known = params(spec)
    given: dict[str, Number | Text] = {}
    for name, value in values.items():
        if name not in known:
            raise SpecError(
                f"there is no param '{name}' in {spec.source.name}: {_list_params(known)}"
            )
        given[name] = _node(name, value, known[name])

    def replace_param(each: Param) -> Param:
        """Return the param with its new value."""
        return replace(each, value=replace(given[each.name], at=each.value.at))

    return replace(
        spec,
        statements=tuple(
            replace_param(each) if isinstance(each, Param) and each.name in given else each
            for each in spec.statements
        ),
    )


def _list_params(known: Mapping[str, Value]) -> str:
    """Return the known params and their values in words."""
    if not known:
        return "it has none; a param is written: param eps = 0.1"
    values = [f"{name} = {value_text(value)}" for name, value in known.items()]
    return f"its params are {', '.join(values)}"


def value_text(value: Value) -> str:
    """Return a value as a specification writes it."""
    return str(Text(value) if isinstance(value, str) else Number(value))


def _node(name: str, value: object, now: Value) -> Number | Text:
    if isinstance(now, str):
        if isinstance(value, str):
            return Text(_bare(value))
        raise _wrong(name, "a text", value, now)
    if isinstance(value, str):
        number = _number(value)
        if number is None:
            raise _wrong(name, "a number", value, now)
        return Number(number)
    try:
        known = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        known = math.nan
    if not math.isfinite(known):
        raise _wrong(name, "a number", value, now)
    return Number(known)


def _wrong(name: str, human: str, value: object, now: Value) -> SpecError:
    got = repr(value)
    got = got if len(got) <= _LONGEST else f"{got[:_LONGEST]}…"
    return SpecError(f"the param '{name}' is {human}, as in {name} = {value_text(now)}; got {got}")


def _bare(value: str) -> str:
    """Remove the quotes of a text, which a shell may have removed already."""
    inside = value[1:-1]
    quoted = len(value) > 1 and value[0] == value[-1] == '"' and '"' not in inside
    return unquote_text(value) if quoted and wrong_escape(value) is None else value


def _number(text: str) -> float | None:
    try:
        statements = parse(f"let it = {text}").statements
    except SpecError:
        return None
    (first, *others) = statements
    if others or not isinstance(first, Let):
        return None
    try:
        return constant(first.value, lambda node: node)
    except Slip:
        return None
