"""Decision of claims about values: accuracies, deletions, audits, plug-ins' functions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

from leaveout.bab import Progress
from leaveout.deadline import Deadline
from leaveout.errors import LeaveoutError
from leaveout.kernel.claims.parts import ValuesPart
from leaveout.kernel.records import convert
from leaveout.specs import (
    Call,
    CheckedSpec,
    Compare,
    Confident,
    Expression,
    Find,
    ForAll,
    Function,
    Guarantee,
    Name,
    Number,
    Parameter,
)
from leaveout.specs.deciders import Accuracy, Curve, Decided, Facts, discard_message
from leaveout.specs.table import is_built_in
from leaveout.specs.table.signatures import bind
from leaveout.specs.text.errors import Slip
from leaveout.specs.types import (
    BOOLEAN,
    FAMILY,
    INPUTS,
    NETWORK,
    NUMBER,
    POINT,
    TEXT,
    TREE_FAMILY,
    TREES,
)
from leaveout.verifier.points.leak_statements import MIRROR
from leaveout.verifier.reachable import lets_named, mentions, reachable
from leaveout.verifier.records import BoxRecord, ExampleRecord, FactsRecord
from leaveout.verifier.report import Result, Verdict
from leaveout.verifier.tasks import (
    Context,
    Engine,
    Kind,
    Outline,
    Statement,
    Subject,
)
from leaveout.verifier.time_sharing import Clock
from leaveout.verifier.values.certified import Uncertified, ValueBook
from leaveout.verifier.values.evaluate import Valuation
from leaveout.verifier.values.ranges import Range, StoppedError, with_reason

State: TypeAlias = Literal["near", "far", "unknown"]
"""Whether a claim holds as at the near end of the range, as at its far end, or is not known."""

_SHAPE = (
    "a find of a value, for example:\n    find a: greatest r such that "
    "certified_accuracy(dpa(V), edits = r) >= 0.5\n    find b: greatest b such that "
    "certified_accuracy(dpa(V), edits = 8) >= b"
)
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
        wrong = "'per label' applies to the labels of a network, but this is about one value"
        raise Slip(statement.name_at, wrong, "remove 'per label'")
    claim, variable = statement.claim, statement.variable
    inner = claim.claim if isinstance(claim, Confident) else claim
    if not isinstance(inner, Compare) or inner.operator not in MIRROR:
        raise Slip(inner.at, "this cannot be searched", _SHAPE)
    left, operator, right = inner.left, str(inner.operator), inner.right
    if not mentions(left, {variable}):
        left, operator, right = right, MIRROR[operator], left
    if mentions(right, {variable}):
        raise Slip(inner.at, f"'{variable}' appears on both sides", _SHAPE)
    if isinstance(left, Name):
        return _comparison_find(statement, inner, operator, right)
    given = bind(left, function(left)) if isinstance(left, Call) else {}
    holders = [name for name, node in given.items() if mentions(node, {variable})]
    if not isinstance(left, Call) or len(holders) != 1 or not isinstance(given[holders[0]], Name):
        raise Slip(left.at, f"'{variable}' must itself be an argument of a single call", _SHAPE)
    if isinstance(claim, Confident):
        wrong = "a search evaluates many values, so 'with confidence' would not hold for its answer"
        raise Slip(claim.level.at, wrong, "find a bound of one value instead, or remove it")
    owner, parameter = function(left), function(left).parameter(holders[0])
    if not parameter.trend:
        wrong = f"{owner.name} does not state how it changes with '{parameter.name}'"
        raise Slip(
            left.at, wrong, "so it cannot be searched: state it as a guarantee about one value"
        )
    if parameter.least is None or (parameter.most is None and not parameter.whole):
        wrong = f"{owner.name} does not state the range of '{parameter.name}'"
        raise Slip(
            left.at, wrong, "so it cannot be searched: state it as a guarantee about one value"
        )
    _meaningful(statement, (operator in (">", ">=")) == (parameter.trend == "falling"))
    return Sought(left, parameter)


def _comparison_find(statement: Find, inner: Compare, operator: str, value: Expression) -> Sought:
    """Return a find of a number compared with one value."""
    _meaningful(statement, operator in ("<", "<="))
    if operator in ("<", ">"):
        wrong = f"there is no {statement.direction} number strictly beyond a value"
        raise Slip(inner.at, wrong, f"write '{inner.operator}='")
    return Sought(value, None)


def _meaningful(statement: Find, holds_below: bool) -> None:
    if holds_below != (statement.direction == "greatest"):
        other = "every smaller" if holds_below else "every larger"
        wrong = f"there is no {statement.direction} number: {other} one also holds"
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


ENGINE = "values"  # what the results of these claims name as their engine

_MANY = 50  # nodes beyond which lets are evaluated in order: a long chain needs no deep recursion
_AGREE = 1e-3


def is_value_claim(statement: Guarantee | Find, spec: CheckedSpec) -> bool:
    """Return whether a statement is about values only, with no point or trees anywhere."""
    for node in reachable(statement.claim, spec):
        if isinstance(node, ForAll):
            if any(spec.type_of(binder.domain).each == POINT for binder in node.binders):
                return False
        elif isinstance(node, Call) and spec.type_of(node) in (POINT, TREES, TREE_FAMILY):
            return False
    return True


def is_solved(statement: Guarantee | Find, spec: CheckedSpec) -> bool:
    """Return whether a statement may need a solver."""
    calls = (node for node in reachable(statement.claim, spec) if isinstance(node, Call))
    return any(
        spec.functions[call.function].solver or not is_built_in(call.function) for call in calls
    )


@dataclass(frozen=True)
class _Found:
    """The answer to a statement, before it becomes a result."""

    verdict: Verdict
    bounds: tuple[float | None, float | None] = (None, None)
    reason: str = ""
    words: str = ""
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ValueJob:
    """A loaded statement about values."""

    statement: Statement
    decider: Values


class Values(Engine[ValueJob]):
    """Claims about values of functions, each decided by the functions' deciders."""

    subject: ClassVar[Subject] = "values"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._spec, self._resolver = context.checked, context.resolver
        self._valuation = Valuation(
            context.checked, context.resolver, context.folder, context.options.seed,
            context.options.solver, proving=context.certificate is not None,
        )  # fmt: skip
        self._book = ValueBook(self._spec, self._valuation)
        self._sought: dict[str, Sought] = {}
        self._levels: list[str] = []
        self.interrupted = False

    @property
    def notes(self) -> list[str]:
        return [*self._levels, *self._valuation.notes]

    def accepts(self, statement: Statement) -> LeaveoutError | None:
        if is_value_claim(statement, self.context.checked):
            return None
        wrong = "this claim is about points of a set of inputs"
        return self.context.resolver.fail(statement.claim, wrong)

    def load(self, statement: Statement) -> ValueJob:
        """See `Engine.load`: refuses what cannot be decided, and loads the networks it names."""
        for node in reachable(statement.claim, self._spec):
            if isinstance(node, Call):
                self._valuation.load(node)
            elif isinstance(node, ForAll) and isinstance(statement.claim, Confident):
                wrong = "'with confidence' over many values is not supported"
                raise self._resolver.fail(node, wrong, "state it about one value")
        if isinstance(statement, Find):
            try:
                self._sought[statement.name] = read_find(
                    statement, lambda call: self._spec.functions[call.function]
                )
            except Slip as slip:
                raise self._resolver.slip_error(slip) from None
        return ValueJob(statement, self)

    def kind(self, job: ValueJob) -> Kind:
        return "value, by a solver" if is_solved(job.statement, self.context.checked) else "value"

    def kernels(self, job: ValueJob) -> Sequence[str]:
        spec = self.context.checked
        calls = (node for node in reachable(job.statement.claim, spec) if isinstance(node, Call))
        names = (name for call in calls for name in spec.functions[call.function].kernels)
        return list(dict.fromkeys(names))

    def outline(self, job: ValueJob) -> Outline:
        return Outline.of(job.statement, 0, {"values": "decided by the functions it names"})

    def _say(self, name: str, started: float, deadline: Deadline, words: str) -> None:
        if self.context.progress is not None:
            spent = time.perf_counter() - started
            none = math.nan
            self.context.progress(name, Progress(0, none, none, 0, 0, spent, deadline.limit, words))

    def decide(self, job: ValueJob, clock: Clock) -> list[Result]:
        statement, seconds = job.statement, clock.next()
        started = time.perf_counter()
        self._valuation.deadline = Deadline.after(seconds, started)
        self._valuation.confidence = self._confidence(statement.claim)
        self._valuation.say = partial(self._say, statement.name, started, self._valuation.deadline)
        known = {text: len(facts) for text, facts in self._valuation.calls.facts.items()}
        try:
            self._in_order(statement)
            if isinstance(statement, Find):
                found = self._find(statement)
            else:
                found = self._guarantee(statement)
        except StoppedError as stopped:
            found = _Found("unknown", reason=str(stopped))
        except KeyboardInterrupt:
            self.interrupted = True
            found = _Found("unknown", reason="time: interrupted")
        except RecursionError:
            wrong = "this is nested too deeply to evaluate"
            cure = "name a part of it with 'let'"
            raise self._resolver.fail(statement.claim, wrong, cure) from None
        finally:
            self._valuation.say = discard_message
            self.interrupted = self.interrupted or self._valuation.calls.interrupted
        surely = None
        if isinstance(statement.claim, Confident):
            level = statement.claim.level
            surely = level.value
            self._levels.append(f"{statement.name}: the sampled part holds with confidence {level}")
        result = Result(
            name=statement.name,
            kind="find" if isinstance(statement, Find) else "guarantee",
            verdict=found.verdict,
            lower=found.bounds[0],
            upper=found.bounds[1],
            label=None,
            witness=None,
            seconds=round(time.perf_counter() - started, 3),
            engine=ENGINE,
            solver=None,
            reason=found.reason or None,
            box=BoxRecord(lower=(), upper=()),
            members=0,
            example=_example(found) if found.verdict == "refuted" else None,
            curves=self._curves(statement),
            confidence=surely,
            facts=self._facts(statement, known),
            accuracies=self._accuracies(statement, found),
        )
        self._certify(statement, result)
        clock.interrupted = clock.interrupted or self.interrupted
        return [result]

    def _certify(self, statement: Statement, result: Result) -> None:
        """Add a proof to the certificate, or note why it is missing."""
        certificate = self.context.certificate
        if certificate is None:
            return
        try:
            self._book.add(statement, result, self._valuation.confidence)
        except Uncertified as error:
            certificate.without(statement.name, str(error))
        certificate.values(self._book)

    def certificate_part(
        self, statement: Guarantee | Find, result: Result, folder: Path
    ) -> ValuesPart:
        """Return how a certificate must state a statement and result."""
        book = ValueBook(self._spec, self._valuation)
        book.add(statement, result, self._confidence(statement.claim))
        return convert(book.part(folder, {}), ValuesPart)

    def closes(self, name: str, lower: float, upper: float) -> bool:
        """Return whether bounds of a find are close enough to count as found."""
        parameter = self._sought[name].parameter
        if parameter is not None and parameter.whole:
            return lower == upper
        return upper - lower <= _AGREE * max(abs(lower), abs(upper))

    def _curves(self, statement: Guarantee | Find) -> tuple[Curve, ...]:
        kept = self._valuation.calls.curves
        calls = (str(node) for node in reachable(statement.claim, self._spec))
        curves = {call: kept[call] for call in calls if call in kept}
        return tuple(dict.fromkeys(curves.values()))

    def _accuracies(self, statement: Guarantee | Find, found: _Found) -> tuple[Accuracy, ...]:
        """Return the accuracies of a statement's votes; a find's at its value."""
        kept = self._valuation.calls.accuracies
        records: list[Accuracy] = []
        for text in dict.fromkeys(str(node) for node in reachable(statement.claim, self._spec)):
            by_count = kept.get(text, {})
            counts = list(by_count)
            if statement.name in self._sought and len(counts) > 1:
                # What was tried on the way is no part of the answer.
                counts = [each for each in counts if each == found.bounds[0]]
            records += [by_count[count] for count in counts]
        return tuple(dict.fromkeys(records))

    def _facts(self, statement: Guarantee | Find, known: dict[str, int]) -> tuple[FactsRecord, ...]:
        """Return what a statement's calls computed.

        ``known`` counts the earlier records of each call; a call evaluated again keeps only the new
        ones.
        """
        kept = self._valuation.calls.facts
        texts = dict.fromkeys(str(node) for node in reachable(statement.claim, self._spec))
        found: list[FactsRecord] = []
        for text in texts:
            if text in kept:
                before = known.get(text, 0)
                found += kept[text][before:] if len(kept[text]) > before else kept[text]
        return tuple(found)

    def _confidence(self, claim: Expression) -> float | None:
        """Return the confidence each estimate needs for the joint one asked."""
        if not isinstance(claim, Confident):
            return None
        kinds = (NUMBER, BOOLEAN)
        calls = {
            str(node)
            for node in reachable(claim, self._spec)
            if isinstance(node, Call) and self._spec.type_of(node) in kinds
        }
        level = claim.level.value
        return level if len(calls) <= 1 else 1 - (1 - level) / len(calls)

    def _in_order(self, statement: Guarantee | Find) -> None:
        names = lets_named(statement.claim, self._spec)
        if sum(1 for _ in reachable(statement.claim, self._spec)) <= _MANY:
            return
        for name in names:
            value = self._spec.lets[name].value
            if self._spec.type_of(value) not in (FAMILY, INPUTS, NETWORK, TEXT):
                self._valuation.let(name)

    def _guarantee(self, statement: Guarantee) -> _Found:
        claim = statement.claim
        inner = claim.claim if isinstance(claim, Confident) else claim
        decided = self._valuation.claim(inner, {})
        bounds = self._bounds(inner)
        reason = decided.reason if decided.verdict == "unknown" else ""
        refuted = decided.verdict == "refuted"
        words, facts = (decided.witness, decided.facts) if refuted else ("", {})
        return _Found(decided.verdict, bounds, reason, words, facts)

    def _bounds(self, claim: Expression) -> tuple[float | None, float | None]:
        if not isinstance(claim, Compare) or self._spec.type_of(claim.left) != NUMBER:
            return None, None
        if self._spec.type_of(claim.right) != NUMBER:
            return None, None
        left = self._valuation.number(claim.left, {})
        if isinstance(claim.right, Number):
            return left.floats
        right = self._valuation.number(claim.right, {})
        return right.floats if isinstance(claim.left, Number) else (left - right).floats

    def _find(self, statement: Find) -> _Found:
        asked = self._sought[statement.name]
        if asked.parameter is None:
            value = self._valuation.number(asked.value, {})
            reason = "" if _agree(value) else with_reason(value.reason)
            return _Found("unknown" if reason else "proved", value.floats, reason)
        near = "proved" if statement.direction == "greatest" else "refuted"
        reasons: list[str] = []

        def state(number: float) -> State:
            bound = {statement.variable: Range.exactly(number)}
            claim = self._valuation.claim(statement.claim, bound)
            if claim.verdict == "unknown":
                reasons.append(claim.reason)
            return state_of(claim, near)

        boundary = Boundary(state, asked.parameter)
        try:
            boundary.search()
        except StoppedError as error:
            reasons.append(str(error))
        except KeyboardInterrupt:
            self.interrupted = True
            reasons.append("time: interrupted")
        return _answer(statement, boundary, reasons[-1] if reasons else "")


def _example(found: _Found) -> ExampleRecord:
    facts = dict(found.facts)
    return ExampleRecord(points={}, scores={}, labels={}, words=found.words, facts=facts)


def _answer(statement: Find, boundary: Boundary, reason: str) -> _Found:
    """Return the answer that the boundary of a claim gives to a find."""
    parameter, near, far = boundary.parameter, boundary.near, boundary.far
    step = 1.0 if parameter.whole else 0.0
    lower, upper = near, parameter.most if far is None else far - step
    if statement.direction == "least":
        lower, upper = parameter.least if near is None else near + step, far
        if near is not None and near == parameter.most:
            return _Found("refuted", words=f"it does not hold even for {near:.15g}, the largest")
        if near is None and far is not None and far == parameter.least:
            lower = far
    elif far is not None and far == parameter.least:
        return _Found("refuted", words=f"it does not hold even for {far:.15g}, the smallest")
    if lower is not None and upper is not None:
        if upper - lower <= (0 if parameter.whole else max(boundary.width, _AGREE * abs(upper))):
            return _Found("proved", (lower, upper))
    elif not reason and near is not None:
        reason = f"numerical: nothing changes up to {near:.15g}, where the search ends"
    return _Found("unknown", (lower, upper), with_reason(reason, "the search ended too early"))


def _agree(value: Range) -> bool:
    lower, upper = value.floats
    if lower is None or upper is None:
        return False
    return upper - lower <= _AGREE * max(abs(lower), abs(upper))
