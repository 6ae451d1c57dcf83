"""Assignment of a call's arguments to parameters."""

from __future__ import annotations

from leaveout.specs.table.signatures import Bound, Function
from leaveout.specs.text.errors import Slip, nearest
from leaveout.specs.text.expressions import Call
from leaveout.specs.text.source import Position


def name_position(at: Position, name: str) -> Position:
    """Return the position of the name that a node starts with."""
    return Position(at.line, at.column, at.line, at.column + len(name))


def bind(call: Call, function: Function) -> Bound:
    """Match every argument of a call to its parameter, without looking at types."""
    by_position = [each.name for each in function.parameters if not each.named]
    if len(call.arguments) > len(by_position):
        extra = call.arguments[len(by_position)]
        takes = f"{len(by_position)} argument{'s' * (len(by_position) != 1)}"
        wrong = f"{function.name} takes {takes}, got {len(call.arguments)}"
        raise Slip(extra.at, wrong, function.signature)
    given: Bound = dict(zip(by_position, call.arguments, strict=False))
    names = [each.name for each in function.parameters]
    for option in call.options:
        at = name_position(option.at, option.name)
        if option.name not in names:
            near = nearest(option.name, names)
            cure = f"{near}\n{function.signature}" if near else function.signature
            raise Slip(at, f"{function.name} has no option '{option.name}'", cure)
        if option.name in given:
            wrong = f"'{option.name}' of {function.name} is given twice"
            raise Slip(at, wrong, function.signature)
        given[option.name] = option.value
    needed = [each.name for each in function.parameters if not each.optional]
    missing = " and ".join(f"'{name}'" for name in needed if name not in given)
    if missing:
        wrong = f"{function.name} needs {missing}"
        raise Slip(name_position(call.at, call.function), wrong, function.signature)
    return given
