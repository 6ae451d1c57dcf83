"""Calls of deciders, with checks of what they return."""

from __future__ import annotations

import math
import operator
from typing import cast

from leaveout.errors import LeaveoutError, cause
from leaveout.references import find_reference
from leaveout.specs import Call, Function
from leaveout.specs.deciders import Accuracy, Arguments, Bounds, Curve, Decided, Decider, Facts
from leaveout.specs.table.functions import is_built_in
from leaveout.specs.types import BOOLEAN, NUMBER
from leaveout.verifier.records import Fact, FactsRecord
from leaveout.verifier.resolve_names import Resolver
from leaveout.verifier.values.ranges import Range
from leaveout.verifier.values.verdicts import StoppedError, with_reason

_MOST = 1000
"""Records of facts that one call leaves, evaluated again and again."""


class DeciderCalls:
    """Calls deciders and checks what they return."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self.notes: list[str] = []
        self.curves: dict[str, Curve] = {}
        self.facts: dict[str, list[FactsRecord]] = {}
        self.accuracies: dict[str, dict[int, Accuracy]] = {}
        self.interrupted = False

    def call(self, node: Call, function: Function, given: Arguments) -> object:
        """Return the value of a call: a `Range`, a `Decided` or another object."""
        who = _function_name(function)
        try:
            found = cast("Decider", find_reference(function.decider))(given)
        except LeaveoutError as error:
            raise self._resolver.fail(node, f"{function.name}: {error}") from None
        except TimeoutError:
            raise StoppedError(f"time: {function.name} ran out of time") from None
        except (Exception, SystemExit) as error:  # a plug-in may raise anything
            text = cause(error)
            raise self._resolver.fail(node, f"{who} failed: {text}") from error
        self.interrupted = self.interrupted or given.interrupted
        if isinstance(found, Bounds) and found.curve is not None:
            self.curves[str(node)] = found.curve
        if isinstance(found, Bounds) and found.accuracy is not None:
            self.accuracies.setdefault(str(node), {})[found.accuracy.count] = found.accuracy
        told = [*given.told, *([found.facts] if isinstance(found, Decided) else [])]
        try:
            checked = self._check_result(function, found)
            self._keep(str(node), function.name, told)
            return checked
        except ValueError as error:
            wrong = f"{who} gave no usable answer: {error}"
            raise self._resolver.fail(node, wrong) from None

    def _check_result(self, function: Function, found: object) -> object:
        """Return a decider's result; raise if it cannot be right."""
        if function.result == NUMBER:
            if not isinstance(found, Bounds):
                raise ValueError(f"expected Bounds, got {_kind(found)}")
            reason = with_reason(found.reason, f"the bounds of {function.name} differ")
            self._note(function, found.note)
            return Range.between(found.lower, found.upper, reason, found.evidence)
        if function.result == BOOLEAN:
            if not isinstance(found, Decided):
                raise ValueError(f"expected Decided, got {_kind(found)}")
            if found.verdict not in ("proved", "refuted", "unknown"):
                raise ValueError(f"there is no verdict {found.verdict!r}")
            if found.verdict == "refuted" and not found.witness:
                raise ValueError("'refuted' needs a witness")
            self._note(function, found.note)
            if found.verdict == "unknown":
                reason = with_reason(found.reason, f"{function.name} does not tell")
                return Decided("unknown", reason)
            return found
        if found is None:
            raise ValueError(f"expected {function.result.human}, got None")
        return found

    def _keep(self, text: str, name: str, told: list[Facts]) -> None:
        """Store the facts of a call, each once."""
        kept = self.facts.setdefault(text, [])
        for facts in told:
            record = FactsRecord(name=name, facts={str(key): _fact(facts[key]) for key in facts})
            if record.facts and record not in kept and len(kept) < _MOST:
                kept.append(record)

    def _note(self, function: Function, note: str) -> None:
        for line in note.splitlines():
            text = line if is_built_in(function.name) else f"{function.name}: {line}"
            if text not in self.notes:
                self.notes.append(text)


def _fact(value: object) -> Fact:
    """Return a fact in a form that result files can hold."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    try:
        if isinstance(value, list | tuple):
            return tuple(operator.index(each) for each in value)
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        wrong = f"a fact is a number, a text or whole numbers, not {_kind(value)}"
        raise ValueError(wrong) from None


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _function_name(function: Function) -> str:
    """Return a function's name, with its module if it is a plug-in's."""
    if is_built_in(function.name):
        return function.name
    decider = function.decider
    module = getattr(decider, "__module__", None) or type(decider).__module__
    where = decider.partition(":")[0] if isinstance(decider, str) else module
    return f"plug-in function '{function.name}' ({where})"
