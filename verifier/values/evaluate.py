"""Evaluation of expressions of functions with deciders."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, cast

import onnx

from leaveout.deadline import NEVER, Deadline
from leaveout.encoders import Box
from leaveout.errors import LeaveoutError, cause
from leaveout.models import Family, Network
from leaveout.models.replay import with_parameters
from leaveout.specs import (
    And,
    Arithmetic,
    Call,
    CheckedSpec,
    Compare,
    Confident,
    Expression,
    ForAll,
    Function,
    Implies,
    ListOf,
    Name,
    Negate,
    Not,
    Number,
    Or,
    Text,
)
from leaveout.specs.deciders import (
    Accuracy,
    Arguments,
    Bounds,
    Curve,
    Decided,
    Facts,
    Proof,
    Say,
    discard_message,
)
from leaveout.specs.table import is_built_in
from leaveout.specs.text.expressions import walk
from leaveout.specs.types import BOOLEAN, FAMILY, INPUTS, LABEL, NUMBER
from leaveout.specs.typing.infer import brief
from leaveout.verifier.points.inputs import InputReader
from leaveout.verifier.reachable import mentions, network_calls
from leaveout.verifier.records import Fact, FactsRecord
from leaveout.verifier.resolve_names import Resolver
from leaveout.verifier.values.ranges import (
    PROVED,
    Range,
    StoppedError,
    both,
    compare,
    either,
    negate,
    with_reason,
)
from leaveout.verifier.values.subjects import decider_of, has_decider

_MOST = 1000  # records of facts that one call leaves, evaluated again and again


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
            found = decider_of(function)(given)
        except LeaveoutError as error:
            raise self._resolver.fail(node, f"{function.name}: {error}") from None
        except TimeoutError:
            raise StoppedError(f"time: {function.name} timed out") from None
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
            wrong = f"{who} returned an invalid answer: {error}"
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
                raise ValueError(f"{found.verdict!r} is not a verdict")
            if found.verdict == "refuted" and not found.witness:
                raise ValueError("'refuted' needs a witness")
            self._note(function, found.note)
            if found.verdict == "unknown":
                reason = with_reason(found.reason, f"{function.name} is inconclusive")
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
        wrong = f"a fact must be a number, a text or whole numbers, not {_kind(value)}"
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


@dataclass(frozen=True)
class NamedFiles:
    """Finds the network that determines how a file is read, and reads the file."""

    spec: CheckedSpec
    resolver: Resolver

    def includes(self, node: Expression, bound: Mapping[str, object], *kinds: object) -> bool:
        """Return whether a node is a built-in family or input set, read by a network."""
        if isinstance(node, Name) and node.name in bound:
            return False
        call = self.resolver.value(node)
        built_in = isinstance(call, Call) and not has_decider(self.resolver.function(call))
        return built_in and self.spec.type_of(node) in kinds

    def network(self, node: Expression, beside: Iterable[object]) -> Network:
        """Return the network that determines how a family or input set is read."""
        for value in beside:
            if isinstance(value, Network):
                return value
        paths = {str(self.resolver.value(call)): call for call in network_calls(self.spec)}
        if len(paths) != 1:
            raise self.resolver.fail(
                node,
                f"cannot tell which network {brief(node)} belongs to",
                "this is clear if the network is another argument, or the only one in the file",
            )
        return self.resolver.network(next(iter(paths.values())))

    def reader(self, node: Expression, beside: Iterable[object]) -> InputReader:
        """Return the reader of an input set, for a forest beside it or a network."""
        values = list(beside)
        for value in values:
            features = getattr(value, "n_features_in_", None)
            if isinstance(features, int):
                return InputReader(self.resolver, features, "forest")
        return InputReader(self.resolver, self.network(node, values).inputs)


def members(network: Network, family: Family) -> Iterator[Network]:
    """Yield the members as separate networks."""
    for i in range(len(family)):
        parameters = {name: stack[0] for name, stack in family.take([i]).items()}
        model: onnx.ModelProto = with_parameters(network.model, parameters)
        yield Network(f"member {i} of {family.source or network.source}", model, network.graph)


Bindings: TypeAlias = Mapping[str, object]
"""What ``forall`` and ``find`` bind: a name and its value."""

Held: TypeAlias = tuple[tuple[str, object], ...]
"""What names stood for at a call: fractions for numbers, items of ``forall`` as they are."""

Proofs: TypeAlias = dict[tuple[str, float | None], dict[Held, Proof]]


@dataclass(eq=False)
class Valuation:
    """Evaluates expressions once: numbers are `Range`, claims `Decided`, networks `Network`."""

    spec: CheckedSpec
    resolver: Resolver
    folder: Path  # what relative paths are relative to
    seed: int = 0
    solver: str = "highs"  # name of the back end for what needs one
    deadline: Deadline = NEVER
    confidence: float | None = None  # what each estimate from samples must hold with
    proving: bool = False  # whether proofs are kept, for a certificate
    proofs: Proofs = field(default_factory=dict, init=False)
    unproved: dict[tuple[str, float | None], dict[Held, str]] = field(
        default_factory=dict, init=False
    )
    say: Say = field(
        default=discard_message, init=False
    )  # is told how far a decider that takes long is
    calls: DeciderCalls = field(init=False)
    _files: NamedFiles = field(init=False)
    _kept: dict[tuple[str, float | None], object] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.calls = DeciderCalls(self.resolver)
        self._files = NamedFiles(self.spec, self.resolver)

    @property
    def notes(self) -> list[str]:
        """Notes for readers of the results."""
        return self.calls.notes

    def claim(self, node: Expression, bound: Bindings) -> Decided:
        """Return the verdict of a claim."""
        value = self.value(node, bound)
        assert isinstance(value, Decided)
        return value

    def number(self, node: Expression, bound: Bindings) -> Range:
        """Return a number; a label counts as one."""
        value = self.value(node, bound)
        if isinstance(value, Range):
            return value
        try:
            return Range.between(value, value)
        except ValueError as error:
            raise self.resolver.fail(node, f"{brief(node)} is not a number: {error}") from None

    def value(self, node: Expression, bound: Bindings) -> object:
        """Return the value of an expression."""
        match node:
            case Number():
                return Range.exactly(node.value)
            case Text():
                return node.value
            case ListOf():
                return [
                    self.value(item, bound)
                    if isinstance(self.resolver.value(item), ListOf)
                    else self._exact_number(item, bound, "a number in a list")
                    for item in node.items
                ]
            case Name():
                return bound[node.name] if node.name in bound else self.let(node.name)
            case Call():
                return self._call(node, bound)
            case Negate():
                return -self.number(node.operand, bound)
            case Arithmetic():
                return self._arithmetic(node, bound)
            case _:
                return self._claim(node, bound)

    def _claim(self, node: Expression, bound: Bindings) -> Decided:
        match node:
            case Compare():
                return self._compare(node, bound)
            case Not():
                return negate(self.claim(node.claim, bound), brief(node.claim))
            case And():
                left = self.claim(node.left, bound)
                settled = left.verdict == "refuted"
                return left if settled else both(left, self.claim(node.right, bound))
            case Or() | Implies():
                left = self.claim(node.left, bound)
                if isinstance(node, Implies):
                    left = negate(left, brief(node.left))
                settled = left.verdict == "proved"
                return left if settled else either(left, self.claim(node.right, bound))
            case ForAll():
                return self._over(node, 0, bound)
            case Confident():
                return self.claim(node.claim, bound)
            case _:
                raise self.resolver.fail(node, "this cannot be decided yet")

    def let(self, name: str) -> object:
        """Return the value of a let."""
        key = (f"let {name}", self.confidence)
        if key not in self._kept:
            self._kept[key] = self.value(self.spec.lets[name].value, {})
        return self._kept[key]

    def _arithmetic(self, node: Arithmetic, bound: Bindings) -> Range:
        left, right = self.number(node.left, bound), self.number(node.right, bound)
        operators: dict[str, Callable[[Range, Range], Range]] = {
            "+": Range.__add__,
            "-": Range.__sub__,
            "*": Range.__mul__,
            "/": Range.__truediv__,
        }
        try:
            return operators[node.operator](left, right)
        except ZeroDivisionError:
            raise self.resolver.fail(node, "division by zero") from None

    def _compare(self, node: Compare, bound: Bindings) -> Decided:
        kinds = {self.spec.type_of(node.left), self.spec.type_of(node.right)}
        if not kinds <= {NUMBER, LABEL}:
            return self._equal(node, bound)
        left, right = self.number(node.left, bound), self.number(node.right, bound)
        holds = compare(left, node.operator, right)
        if holds:
            return PROVED
        facts = [
            f"{brief(side)} is {number}"
            for side, number in ((node.left, left), (node.right, right))
            if not isinstance(side, Number)
        ]
        words = " and ".join(facts) or f"{node} does not hold"
        if holds is None:
            kind, _, why = with_reason(left.reason or right.reason).partition(":")
            return Decided("unknown", f"{kind}: {words}{';' if why else ''}{why}")
        shown = [side.evidence() for side in (left, right) if side.evidence is not None]
        told = "; ".join(dict.fromkeys([words, *(each.words for each in shown if each.words)]))
        known = [each.facts for each in shown if each.facts]
        return Decided("refuted", witness=told, facts=known[0] if known else {})

    def _equal(self, node: Compare, bound: Bindings) -> Decided:
        left, right = self.value(node.left, bound), self.value(node.right, bound)
        try:
            equal = bool(left == right)
        except (Exception, SystemExit) as error:  # a plug-in's values may raise anything
            text = cause(error)
            raise self.resolver.fail(node, f"cannot compare these values: {text}") from error
        if equal == (node.operator == "=="):
            return PROVED
        words = "equals" if equal else "differs from"
        words = f"{brief(node.left)} {words} {brief(node.right)}"
        difference = None if equal else getattr(left, "difference", None)
        told = difference(right) if callable(difference) else None
        return Decided("refuted", witness=f"{words}: {told}" if told else words)

    def _over(self, node: ForAll, depth: int, bound: Bindings) -> Decided:
        if depth == len(node.binders):
            return self.claim(node.body, bound)
        binder = node.binders[depth]
        result = PROVED
        for i, item in enumerate(self._items(node, binder.domain, bound)):
            self._refuse_late(f"after {i:,} of {brief(binder.domain)}")
            each = self._over(node, depth + 1, {**bound, binder.name: item})
            if each.verdict == "refuted":
                where = f"{binder.name} = {brief(binder.domain)}, number {i} (counting from 0)"
                words = f"{each.witness}, where {where}"
                return Decided("refuted", witness=words, facts=each.facts)
            result = both(result, each)
        return result

    def _items(self, node: ForAll, domain: Expression, bound: Bindings) -> Iterable[object]:
        if self._files.includes(domain, bound, FAMILY):
            network = self._files.network(domain, ())
            return members(network, self.resolver.family(domain, network))
        value = self.value(domain, bound)
        if not isinstance(value, Iterable):
            wrong = f"'forall' cannot range over {brief(domain)}: a {type(value).__name__}"
            raise self.resolver.fail(domain, wrong)
        return value

    def _call(self, node: Call, bound: Bindings) -> object:
        function = self.resolver.function(node)
        if not has_decider(function):
            return self._without_decider(node, function, bound)
        fixed = not mentions(node, bound)
        key = (str(node), self.confidence)
        if fixed and key in self._kept:
            return self._kept[key]
        given = self._arguments(node, function, bound)
        self._refuse_late(f"before {brief(node)}")
        found = self.calls.call(node, function, given)
        if self.proving and (given.proof is not None or given.unproved):
            names = {each.name for each in walk(node) if isinstance(each, Name)}
            held = tuple((name, _plain(bound[name])) for name in sorted(names & bound.keys()))
            place = str(node), self.confidence
            if given.proof is not None:
                self.proofs.setdefault(place, {})[held] = given.proof
            if given.unproved:
                self.unproved.setdefault(place, {})[held] = given.unproved
        if fixed:
            self._kept[key] = found
        return found

    def load(self, node: Call) -> None:
        """Refuse calls nothing here computes, and read the files of calls that read."""
        function = self.resolver.function(node)
        if not has_decider(function):
            if function.name != "abs" and function.result not in (FAMILY, INPUTS):
                self._without_decider(node, function, {})
        elif function.reads:
            self.value(node, {})

    def _without_decider(self, node: Call, function: Function, bound: Bindings) -> object:
        if function.name == "abs":
            return abs(self.number(self.resolver.bound_arguments(node)["number"], bound))
        if self.resolver.is_network(node):
            return self.resolver.network(node)
        raise self.resolver.fail(node, f"this version cannot decide '{node.function}' yet")

    def _arguments(self, node: Call, function: Function, bound: Bindings) -> Arguments:
        values: dict[str, object] = {}
        later: dict[str, Expression] = {}
        for name, argument in self.resolver.bound_arguments(node).items():
            parameter = function.parameter(name)
            if isinstance(argument, Name) and argument.name in parameter.words:
                values[name] = argument.name
            elif self._files.includes(argument, bound, FAMILY, INPUTS):
                later[name] = argument
            elif self.spec.type_of(argument) == NUMBER:
                what = f"'{name}' of {function.name}"
                values[name] = number = self._exact_number(argument, bound, what)
                if not parameter.takes(number):
                    raise self.resolver.fail(
                        argument, f"{what} is {parameter.range}, not {number:g}"
                    )
            else:
                values[name] = self.value(argument, bound)
        for name, argument in later.items():
            if self.spec.type_of(argument) == FAMILY:
                network = self._files.network(argument, values.values())
                values[name] = self.resolver.family(argument, network)
            else:
                values[name] = self._files.reader(argument, values.values()).read(argument)
        seconds = self.deadline.limit
        return Arguments(
            values,
            self.folder,
            seconds,
            self.confidence,
            self.seed,
            self.solver,
            proving=self.proving,
            say=self.say,
        )

    def inputs(self, argument: Expression, call: Call) -> Box:
        """Return an input set that is an argument of a call."""
        given = self._arguments(call, self.resolver.function(call), {})
        for name, each in self.resolver.bound_arguments(call).items():
            if each is argument and isinstance(given[name], Box):
                return cast("Box", given[name])
        raise AssertionError(f"{argument} is not a set of inputs of {call}")

    def _exact_number(self, node: Expression, bound: Bindings, what: str) -> float:
        """Return an exactly known number; raise if it is not."""
        number = self.number(node, bound)
        if not number.exact:
            raise StoppedError(f"numerical: {what} must be known, {brief(node)} is {number}")
        try:
            return float(number.lower)
        except OverflowError:
            raise self.resolver.fail(node, f"{what} is too large") from None

    def _refuse_late(self, where: str) -> None:
        if self.calls.interrupted:
            raise StoppedError("time: interrupted")
        if self.deadline.over:
            raise StoppedError(f"time: timed out {where}")


def _plain(value: object) -> object:
    """Return a name's value in a form that can be looked up, or None."""
    if isinstance(value, Range):
        return value.lower
    return value if isinstance(value, int | str | tuple) else None
