"""The least or greatest number for which a claim about one value holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from leaveout.specs import Call, Compare, Confident, Expression, Find, Function, Name, Parameter
from leaveout.specs.deciders import Decided
from leaveout.specs.text.errors import Slip
from leaveout.specs.typing.arguments import bind
from leaveout.verifier.values.reachable import mentions

State: TypeAlias = Literal["near", "far", "unknown"]
"""Whether a claim holds as at the near end of the range, as at its far end, or is not known."""

_SHAPE = (
    "what can be found of a value:\n"
    "    find a: greatest r such that certified_accuracy(dpa(V), edits = r) >= 0.5\n"
    "    find b: greatest b such that certified_accuracy(dpa(V), edits = 8) >= b"
)
_MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WHOLE_MOST = 2**40
_HALVINGS = 50
_CLOSE = 1e-6


@dataclass(frozen=True)
class Sought:
    """A find that can be answered."""

    value: Expression  # where the variable itself is compared: what with; the answer is that value
    parameter: Parameter | None


def read_find(statement: Find, function: Callable[[Call], Function]) -> Sought:
    """Return what a find asks for."""
    if statement.per_label:
        wrong = "'per label' is about the labels of a network, this is about one value"
        raise Slip(statement.name_at, wrong, "leave 'per label' out")
    claim, variable = statement.claim, statement.variable
    inner = claim.claim if isinstance(claim, Confident) else claim
    if not isinstance(inner, Compare) or inner.operator not in _MIRROR:
        raise Slip(inner.at, "this cannot be searched", _SHAPE)
    left, operator, right = inner.left, str(inner.operator), inner.right
    if not mentions(left, {variable}):
        left, operator, right = right, _MIRROR[operator], left
    if mentions(right, {variable}):
        raise Slip(inner.at, f"'{variable}' is on both sides", _SHAPE)
    if isinstance(left, Name):
        return _comparison_find(statement, inner, operator, right)
    given = bind(left, function(left)) if isinstance(left, Call) else {}
    holders = [name for name, node in given.items() if mentions(node, {variable})]
    if not isinstance(left, Call) or len(holders) != 1 or not isinstance(given[holders[0]], Name):
        raise Slip(left.at, f"'{variable}' must itself be an argument of one call", _SHAPE)
    if isinstance(claim, Confident):
        wrong = "a search asks many times, so 'with confidence' would not hold of its answer"
        raise Slip(claim.level.at, wrong, "find a bound of one value instead, or leave it out")
    owner, parameter = function(left), function(left).parameter(holders[0])
    if not parameter.trend:
        wrong = f"{owner.name} does not say how it changes with '{parameter.name}'"
        raise Slip(left.at, wrong, "so nothing can be found: state it as a guarantee of one value")
    if parameter.least is None or (parameter.most is None and not parameter.whole):
        wrong = f"{owner.name} does not say from where to where '{parameter.name}' goes"
        raise Slip(left.at, wrong, "so nothing can be found: state it as a guarantee of one value")
    _meaningful(statement, (operator in (">", ">=")) == (parameter.trend == "falling"))
    return Sought(left, parameter)


def _comparison_find(statement: Find, inner: Compare, operator: str, value: Expression) -> Sought:
    """Return a find of a number compared with one value."""
    _meaningful(statement, operator in ("<", "<="))
    if operator in ("<", ">"):
        wrong = f"there is no {statement.direction} number that is strictly beyond a value"
        raise Slip(inner.at, wrong, f"write '{inner.operator}='")
    return Sought(value, None)


def _meaningful(statement: Find, holds_below: bool) -> None:
    if holds_below != (statement.direction == "greatest"):
        other = "every smaller" if holds_below else "every larger"
        wrong = f"there is no {statement.direction} number: {other} one holds too"
        right = "greatest" if holds_below else "least"
        raise Slip(statement.variable_at, wrong, f"write '{right} {statement.variable}'")


@dataclass(eq=False)
class Boundary:
    """Searches for the boundary of a claim, from the near end of a range to the far end."""

    state: Callable[[float], State]  # from a number to its `State`
    parameter: Parameter  # its range, with a least number, and whether its numbers are whole
    near: float | None = field(default=None, init=False)
    far: float | None = field(default=None, init=False)
    _other: list[float] = field(default_factory=list, init=False)

    @property
    def width(self) -> float:
        """How close tried numbers may be."""
        parameter = self.parameter
        if parameter.whole or parameter.least is None or parameter.most is None:
            return 1.0
        return (parameter.most - parameter.least) * _CLOSE

    def search(self) -> None:
        """Narrow the boundary from both sides."""
        assert self.parameter.least is not None
        start = float(self.parameter.least)
        self._try(start)
        if self.far == start:
            return
        self._reach(start)
        self._narrow(("near",))
        self._narrow(("near", "unknown"))

    def _reach(self, start: float) -> None:
        """Try ever farther numbers until one has the far end's state."""
        most = self.parameter.most
        limit = start + _WHOLE_MOST if most is None else float(most)
        step = 1.0 if self.parameter.whole else limit - start
        value = start
        while self.far is None and value < limit:
            value = min(start + step, limit)
            self._try(value)
            step *= 2

    def _narrow(self, before: tuple[State, ...]) -> None:
        """Bisect between the last state in ``before`` and the next that is not."""
        low, high = self.near, self.far
        for each in self._other:
            if "unknown" in before:
                low = each if low is None else max(low, each)
            elif low is None or each > low:
                high = each if high is None else min(high, each)
        if low is None or high is None:
            return
        for _ in range(_HALVINGS):
            if high - low <= self.width:
                return
            middle = (low + high) / 2
            middle = float(math.floor(middle)) if self.parameter.whole else middle
            if self._try(middle) in before:
                low = middle
            else:
                high = middle

    def _try(self, value: float) -> State:
        found = self.state(value)
        if found == "near":
            self.near = value if self.near is None else max(self.near, value)
        elif found == "far":
            self.far = value if self.far is None else min(self.far, value)
        else:
            self._other.append(value)
        return found


def state_of(claim: Decided, near: str) -> State:
    """Return the state of a claim whose verdict at the near end is ``near``."""
    if claim.verdict == "unknown":
        return "unknown"
    return "near" if claim.verdict == near else "far"
