"""The engines and what they accept; the first that accepts a statement decides it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from leaveout.bab.native.files.checkpoint import Checkpoint, Checkpoints
from leaveout.errors import LeaveoutError
from leaveout.specs import Call, CheckedSpec, Guarantee
from leaveout.specs.types import FOREST, FORESTS
from leaveout.verifier.points.decide import decide_formula, make_claims
from leaveout.verifier.points.job import Asked, FormulaJob, load_formula, why_no_formula
from leaveout.verifier.points.leak_statements import FORESTS as FOREST_LEAKS
from leaveout.verifier.points.leak_statements import IdpStatement, recognise
from leaveout.verifier.points.network_leaks import Decider, Job
from leaveout.verifier.points.sampled_leaks import SampledJob, SampledLeaks, share_of
from leaveout.verifier.report import Result
from leaveout.verifier.tasks import Context, Engine, Kind, Statement
from leaveout.verifier.time_sharing import Clock
from leaveout.verifier.values.decider import ValueDecider, is_solved, is_value_claim
from leaveout.verifier.values.reachable import reachable
from leaveout.verifier.warm_up import kernels_of_values

if TYPE_CHECKING:
    from leaveout.verifier.points.forest_leaks import ForestDecider, ForestJob


@dataclass(frozen=True, eq=False)
class LeakTask:
    """A statement about leaks."""

    job: Job
    kind: Kind
    decider: Decider

    @property
    def statement(self) -> Statement:
        """See `Task.statement`."""
        return self.job.statement.statement

    @property
    def searches(self) -> int:
        """See `Task.searches`."""
        return len(self.job.labels)

    @property
    def kernels(self) -> Sequence[str]:
        """See `Task.kernels`."""
        return ("points",) if self.decider.explores(self.job) else ()

    def resume(self, store: Checkpoints) -> list[Checkpoint]:
        """See `Task.resume`."""
        return self.decider.resume(self.job, store)

    def decide(self, clock: Clock) -> list[Result]:
        """See `Task.decide`."""
        return self.decider.decide(self.job, clock)


@dataclass(frozen=True, eq=False)
class ForestTask:
    """A statement about leaks of a forest."""

    job: ForestJob
    decider: ForestDecider
    kind: Kind = "leaks, forests"
    kernels: Sequence[str] = ("forest_leaks",)

    @property
    def statement(self) -> Statement:
        """See `Task.statement`."""
        return self.job.statement.statement

    @property
    def searches(self) -> int:
        """See `Task.searches`."""
        return len(self.job.labels)

    def resume(self, store: Checkpoints) -> list[Checkpoint]:
        """See `Task.resume`: no search is saved."""
        return []

    def decide(self, clock: Clock) -> list[Result]:
        """See `Task.decide`."""
        return self.decider.decide(self.job, clock)


class ForestLeaks:
    """Leaks of forests, by branch and bound over the cells of their trees."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._made: ForestDecider | None = None

    @property
    def notes(self) -> list[str]:
        """See `Engine.notes`."""
        return [] if self._made is None else self._made.notes

    @property
    def _decider(self) -> ForestDecider:
        """The decider, whose libraries are loaded with the first forest."""
        if self._made is None:
            from leaveout.verifier.points.forest_leaks import ForestDecider

            context = self._context
            self._made = ForestDecider(
                context.resolver, context.options, context.progress, context.certificate
            )
        return self._made

    def accepts(self, statement: Statement) -> LeaveoutError | None:
        """See `Engine.accepts`; no other engine decides claims on forests."""
        if not _names_forest(statement, self._context.checked):
            return self._context.resolver.fail(statement.claim, "this claim is about no forest")
        leak = recognise(statement, self._context.resolver, FOREST_LEAKS)
        if not isinstance(leak, IdpStatement):
            raise leak
        return None

    def load(self, statement: Statement) -> ForestTask:
        """See `Engine.load`."""
        leak = recognise(statement, self._context.resolver, FOREST_LEAKS)
        assert isinstance(leak, IdpStatement)
        return ForestTask(self._decider.load(leak), self._decider)


@dataclass(frozen=True, eq=False)
class SampledTask:
    """A statement about leaks of all rows, decided on a sample of members."""

    job: SampledJob
    kind: Kind
    decider: SampledLeaks

    @property
    def statement(self) -> Statement:
        """See `Task.statement`."""
        return self.job.statement

    @property
    def searches(self) -> int:
        """See `Task.searches`: all members, and those without the worst."""
        return 2 * len(self.job.job.labels)

    @property
    def kernels(self) -> Sequence[str]:
        """See `Task.kernels`."""
        return ("points",) if self.decider.decider.explores(self.job.job) else ()

    def resume(self, store: Checkpoints) -> list[Checkpoint]:
        """See `Task.resume`: no search is saved."""
        return []

    def decide(self, clock: Clock) -> list[Result]:
        """See `Task.decide`."""
        return self.decider.decide(self.job, clock)


class Samples:
    """Leaks of all rows, decided on a sample of members."""

    def __init__(self, context: Context) -> None:
        self._resolver = context.resolver
        self._kind = f"leaks of samples, {context.options.engine}"
        decider = Decider(
            context.resolver,
            context.options,
            context.progress,
            context.certificate,
            context.executor,
        )
        self._sampled = SampledLeaks(
            decider,
            context.resolver,
            context.options.gap,
            context.certificate,
            is_asked=context.is_asked,
        )

    @property
    def notes(self) -> list[str]:
        """See `Engine.notes`."""
        return self._sampled.notes

    def accepts(self, statement: Statement) -> LeaveoutError | None:
        """See `Engine.accepts`."""
        if share_of(statement) is not None:
            return None
        return self._resolver.fail(statement.claim, "this claim leaves out no share of the rows")

    def load(self, statement: Statement) -> SampledTask:
        """See `Engine.load`."""
        return SampledTask(self._sampled.load(statement), self._kind, self._sampled)


class LucidLeaks:
    """Leaks, by Algorithm 1 of LUCID."""

    def __init__(self, context: Context) -> None:
        self._resolver, self._decider = context.resolver, context.decider
        self._kind = f"leaks, {context.options.engine}"
        self.notes: list[str] = []

    def accepts(self, statement: Statement) -> LeaveoutError | None:
        """See `Engine.accepts`."""
        leak = recognise(statement, self._resolver)
        return None if isinstance(leak, IdpStatement) else leak

    def load(self, statement: Statement) -> LeakTask:
        """See `Engine.load`."""
        leak = recognise(statement, self._resolver)
        assert isinstance(leak, IdpStatement)
        return LeakTask(self._decider.load(leak), self._kind, self._decider)


class NativeLeaks(LucidLeaks):
    """Leaks, by branch and bound over pairs of neurons."""

    def accepts(self, statement: Statement) -> LeaveoutError | None:
        """See `Engine.accepts`."""
        leak = recognise(statement, self._resolver)
        if not isinstance(leak, IdpStatement):
            return leak
        if self._resolver.is_network(leak.family):
            other = self._resolver.network(leak.family)
            own, copied = map(self._resolver.first_alike, (leak.network, leak.family))
            if isinstance(statement, Guarantee) and own is copied:
                wrong = "a network and its copy are one network, which disagrees with nothing"
                return self._resolver.fail(leak.family, wrong)
            if other.architecture != self._resolver.network(leak.network).architecture:
                wrong = "neurons of networks of different architectures make no pairs"
                return self._resolver.fail(leak.family, wrong)
        return None


@dataclass(frozen=True, eq=False)
class FormulaTask:
    """A statement about points that is not about leaks."""

    job: FormulaJob
    context: Context
    checkpoints: dict[Asked, Checkpoint]
    kind: Kind = "formula"
    kernels: Sequence[str] = ("points",)

    @property
    def statement(self) -> Statement:
        """See `Task.statement`."""
        return self.job.statement

    @property
    def searches(self) -> int:
        """See `Task.searches`."""
        return len(self.job.labels)

    def resume(self, store: Checkpoints) -> list[Checkpoint]:
        """See `Task.resume`."""
        questions, options = self.job.questions, self.context.options
        for number, asked in enumerate(questions):
            # Several questions of one statement, each with a search of its own.
            name = self.statement.name + (f" {number}" if len(questions) > 1 else "")
            self.checkpoints[asked] = store.of(
                make_claims(asked, options.seed).digests(), asked.label or 0,
                options.native(None), name, str(self.statement),
            )  # fmt: skip
        return list(self.checkpoints.values())

    def decide(self, clock: Clock) -> list[Result]:
        """See `Task.decide`."""
        context = self.context
        return [
            decide_formula(
                self.job,
                label,
                clock,
                context.options,
                checkpoints=self.checkpoints.get,
                progress=context.progress,
                certificate=context.certificate,
                executor=context.executor,
            )
            for label in self.job.labels
        ]


class Formulas:
    """Claims over points and networks, as questions in linear forms."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.notes: list[str] = []

    def accepts(self, statement: Statement) -> LeaveoutError | None:
        """See `Engine.accepts`."""
        return why_no_formula(statement, self._context.resolver)

    def load(self, statement: Statement) -> FormulaTask:
        """See `Engine.load`."""
        job = load_formula(statement, self._context.resolver)
        self.notes += [note for note in job.notes if note not in self.notes]
        return FormulaTask(job, self._context, {})


@dataclass(frozen=True, eq=False)
class ValueTask:
    """A statement about values of functions."""

    statement: Statement
    kind: Kind
    kernels: Sequence[str]
    decider: ValueDecider
    searches: int = 1

    def resume(self, store: Checkpoints) -> list[Checkpoint]:
        """See `Task.resume`: no search is saved."""
        return []

    def decide(self, clock: Clock) -> list[Result]:
        """See `Task.decide`."""
        result = self.decider.decide(self.statement, clock.next())
        clock.interrupted = clock.interrupted or self.decider.interrupted
        return [result]


class Values:
    """Claims about values of functions, each decided by the functions' deciders."""

    def __init__(self, context: Context) -> None:
        self._checked, self._resolver = context.checked, context.resolver
        self._decider = ValueDecider(
            context.checked,
            context.resolver,
            context.folder,
            seed=context.options.seed,
            solver=context.options.solver,
            certificate=context.certificate,
            progress=context.progress,
        )

    @property
    def notes(self) -> list[str]:
        """See `Engine.notes`."""
        return self._decider.notes

    def accepts(self, statement: Statement) -> LeaveoutError | None:
        """See `Engine.accepts`."""
        if is_value_claim(statement, self._checked):
            return None
        return self._resolver.fail(statement.claim, "this claim is about points of a set of inputs")

    def load(self, statement: Statement) -> ValueTask:
        """See `Engine.load`."""
        self._decider.load(statement)
        solved = is_solved(statement, self._checked)
        return ValueTask(
            statement,
            "value, by a solver" if solved else "value",
            kernels_of_values(statement, self._checked),
            self._decider,
        )


def _names_forest(statement: Statement, spec: CheckedSpec) -> bool:
    return any(
        isinstance(node, Call) and spec.type_of(node) in (FOREST, FORESTS)
        for node in reachable(statement.claim, spec)
    )


class _Maker(Protocol):
    def __call__(self, context: Context) -> Engine: ...


_ENGINES: Mapping[str, tuple[_Maker, ...]] = {
    "native": (Samples, Values, ForestLeaks, NativeLeaks, Formulas),
    "lucid": (Samples, Values, ForestLeaks, LucidLeaks),
}
"""By the option ``engine``; where none accepts a statement the last one says why."""


def engines(context: Context) -> tuple[Engine, ...]:
    """Return the engines a run may use, in the order they are asked."""
    return tuple(make(context) for make in _ENGINES[context.options.engine])
