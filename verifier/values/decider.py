"""Decision of claims about values: accuracies, deletions, audits, plug-ins' functions."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from leaveout.bab import Progress
from leaveout.deadline import Deadline
from leaveout.specs import (
    Call,
    CheckedSpec,
    Compare,
    Confident,
    Expression,
    Find,
    ForAll,
    Guarantee,
    Number,
)
from leaveout.specs.deciders import Accuracy, Curve, Facts, discard_message
from leaveout.specs.table.functions import is_built_in
from leaveout.specs.text.errors import Slip
from leaveout.specs.types import BOOLEAN, FAMILY, INPUTS, NETWORK, NUMBER, POINT, TEXT
from leaveout.verifier.checker.expressions.parts import ValuesPart
from leaveout.verifier.points.leak_decider import StatementProgress
from leaveout.verifier.points.proofs import CertificateTarget
from leaveout.verifier.records import BoxRecord, ExampleRecord, FactsRecord
from leaveout.verifier.report import Result, Verdict
from leaveout.verifier.resolve_names import Resolver
from leaveout.verifier.values.certified import Uncertified, ValueBook
from leaveout.verifier.values.evaluate import Valuation
from leaveout.verifier.values.find_number import Boundary, Sought, State, read_find, state_of
from leaveout.verifier.values.ranges import Range
from leaveout.verifier.values.reachable import lets_named, reachable
from leaveout.verifier.values.verdicts import StoppedError, with_reason

ENGINE = "values"
"""What the results of these claims name as their engine."""

_MANY = 50
"""Nodes beyond which lets are evaluated in order: a long chain needs no deep recursion."""
_AGREE = 1e-3


def is_value_claim(statement: Guarantee | Find, spec: CheckedSpec) -> bool:
    """Return whether a statement is about values only, with no input point anywhere."""
    for node in reachable(statement.claim, spec):
        if isinstance(node, ForAll):
            if any(spec.type_of(binder.domain).each == POINT for binder in node.binders):
                return False
        elif isinstance(node, Call) and spec.type_of(node) == POINT:
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


class ValueDecider:
    """Decides statements about values, one after another."""

    def __init__(
        self,
        spec: CheckedSpec,
        resolver: Resolver,
        folder: Path,
        seed: int = 0,
        solver: str = "highs",
        certificate: CertificateTarget | None = None,
        progress: StatementProgress | None = None,
    ) -> None:
        self._spec, self._resolver, self._progress = spec, resolver, progress
        proving = certificate is not None
        self._valuation = Valuation(spec, resolver, folder, seed, solver, proving=proving)
        self._certificate = certificate
        self._book = ValueBook(spec, self._valuation)
        self._sought: dict[str, Sought] = {}
        self._levels: list[str] = []
        self.interrupted = False

    @property
    def notes(self) -> list[str]:
        """Notes for readers of the results."""
        return [*self._levels, *self._valuation.notes]

    def _say(self, name: str, started: float, deadline: Deadline, words: str) -> None:
        if self._progress is not None:
            spent = time.perf_counter() - started
            none = math.nan
            self._progress(name, Progress(0, none, none, 0, 0, spent, deadline.limit, words))

    def load(self, statement: Guarantee | Find) -> None:
        """Refuse what cannot be decided, and load the networks it names.

        Raises
        ------
        LeaveoutError
            If a function has no decider yet, a network cannot be used, or a find cannot be
            answered.
        """
        for node in reachable(statement.claim, self._spec):
            if isinstance(node, Call):
                self._valuation.load(node)
            elif isinstance(node, ForAll) and isinstance(statement.claim, Confident):
                wrong = "'with confidence' over many values is not supported"
                raise self._resolver.fail(node, wrong, "state it of one value")
        if isinstance(statement, Find):
            try:
                self._sought[statement.name] = read_find(
                    statement, lambda call: self._spec.functions[call.function]
                )
            except Slip as slip:
                raise self._resolver.slip_error(slip) from None

    def decide(self, statement: Guarantee | Find, seconds: float | None = None) -> Result:
        """Decide one loaded statement.

        Parameters
        ----------
        statement : Guarantee or Find
        seconds : float or None
            None for no limit. Deciders are told how long they have; they are not cut short.

        Raises
        ------
        LeaveoutError
            If a decider fails, or a file cannot be used.
        """
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
            wrong = "this is nested too deep to be evaluated"
            cure = "give a part of it a name with 'let'"
            raise self._resolver.fail(statement.claim, wrong, cure) from None
        finally:
            self._valuation.say = discard_message
            self.interrupted = self.interrupted or self._valuation.calls.interrupted
        surely = None
        if isinstance(statement.claim, Confident):
            level = statement.claim.level
            surely = level.value
            self._levels.append(f"{statement.name}: what was sampled holds with confidence {level}")
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
        if self._certificate is not None:
            self._certify(statement, result, self._certificate)
        return result

    def _certify(
        self, statement: Guarantee | Find, result: Result, certificate: CertificateTarget
    ) -> None:
        """Add a proof to the certificate, or note why it is missing."""
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
        return msgspec.convert(book.part(folder, {}), ValuesPart)

    def closes(self, statement: Find, lower: float, upper: float) -> bool:
        """Return whether bounds are close enough to count as found."""
        parameter = self._sought[statement.name].parameter
        if parameter is not None and parameter.whole:
            return lower == upper
        return upper - lower <= _AGREE * max(abs(lower), abs(upper))

    def _curves(self, statement: Guarantee | Find) -> tuple[Curve, ...]:
        """Return the curves of a statement's calls, each once."""
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
        """Return the bounds of the compared value or difference."""
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
