"""Which decider each statement belongs to; all are loaded before any is decided."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from leaveout.bab.native.checkpoint import Checkpoint, Checkpoints
from leaveout.errors import LeaveoutError
from leaveout.specs import CheckedSpec, Find, Guarantee
from leaveout.verifier.formula import IdpStatement, recognise
from leaveout.verifier.formulas import Asked, FormulaJob, claimed, decide_formula, load_formula
from leaveout.verifier.idp import Decider, Job, StatementProgress
from leaveout.verifier.options import VerifyOptions
from leaveout.verifier.report import Result
from leaveout.verifier.resolve import Resolver
from leaveout.verifier.sharing import Clock
from leaveout.verifier.unused import Kind, in_vain
from leaveout.verifier.values import ValueDecider, is_solved, is_value_claim
from leaveout.verifier.warming import kernels_of_values

__all__ = ["Loaded", "Statements", "ValueJob"]


@dataclass(frozen=True)
class ValueJob:
    """A statement about values of functions, loaded by its decider."""

    statement: Guarantee | Find


Loaded = Job | FormulaJob | ValueJob


class Statements:
    """The statements of a specification, loaded.

    Parameters
    ----------
    checked : CheckedSpec
    resolver : Resolver
    folder : Path
        What relative paths are relative to.
    options : VerifyOptions
    decider : Decider
        Of statements about leaks.
    progress : callable, optional

    Raises
    ------
    LeaveoutError
        If a statement cannot be decided, or a file it names cannot be used.
    """

    def __init__(
        self,
        checked: CheckedSpec,
        resolver: Resolver,
        folder: Path,
        options: VerifyOptions,
        decider: Decider,
        progress: StatementProgress | None = None,
    ) -> None:
        self._resolver, self._options, self._progress = resolver, options, progress
        self._decider, self._checked = decider, checked
        self._values = ValueDecider(
            checked, resolver, folder, seed=options.seed, solver=options.solver
        )
        self._own_notes: list[str] = []
        self._checkpoints: dict[Asked, Checkpoint] = {}
        self._found: list[list[Result]] = []
        self.jobs: list[Loaded] = [self._loaded(each, checked) for each in checked.statements]

    @property
    def leaks(self) -> list[Job]:
        """The statements about leaks."""
        return [job for job in self.jobs if isinstance(job, Job)]

    @property
    def results(self) -> int:
        """How many searches there are to share the time."""
        return sum(len(job.labels) if not isinstance(job, ValueJob) else 1 for job in self.jobs)

    @property
    def kernels(self) -> list[str]:
        """Names of what is compiled that deciding them takes."""
        found = []
        for job in self.jobs:
            if isinstance(job, ValueJob):
                found += kernels_of_values(job.statement, self._checked)
            elif isinstance(job, FormulaJob) or self._decider.explores(job):
                found.append("points")
        return found

    @property
    def notes(self) -> list[str]:
        """What a reader of the results should know."""
        claims = [(_name(job), self._kind(job)) for job in self.jobs]
        options = self._options
        if not self.leaks:
            # That none is written is said where it would be.
            options = replace(options, certificate=False)
        return [*self._own_notes, *self._values.notes, *in_vain(options, claims)]

    def _kind(self, job: Loaded) -> Kind:
        if isinstance(job, Job):
            return f"leaks, {self._options.engine}"
        if isinstance(job, FormulaJob):
            return "formula"
        solves = is_solved(job.statement, self._checked)
        return "value, by a solver" if solves else "value"

    def _loaded(self, statement: Guarantee | Find, checked: CheckedSpec) -> Loaded:
        if is_value_claim(statement, checked):
            self._values.load(statement)
            return ValueJob(statement)
        try:
            leak = recognise(statement, self._resolver)
        except LeaveoutError:
            if self._options.engine == "lucid":
                # Only claims about leaks are decided by that engine.
                raise
            return self._formula(statement)
        if self._options.engine != "lucid" and self._differs(leak):
            return self._formula(statement)
        return self._decider.load(leak)

    def _differs(self, leak: IdpStatement) -> bool:
        """Whether two networks of different architectures are compared."""
        if not self._resolver.is_network(leak.family):
            return False
        other = self._resolver.network(leak.family)
        return other.architecture != self._resolver.network(leak.network).architecture

    def _formula(self, statement: Guarantee | Find) -> FormulaJob:
        job = load_formula(statement, self._resolver)
        self._own_notes += [note for note in job.notes if note not in self._own_notes]
        return job

    def resume(self, store: Checkpoints) -> list[Checkpoint]:
        """Go on from checkpoints of claims about points that are no leaks; returns these.

        Raises
        ------
        CheckpointError
            If the file is damaged, or of other statements.
        """
        options = self._options.native(None)
        for job in self.jobs:
            if not isinstance(job, FormulaJob):
                continue
            for number, asked in enumerate(job.questions):
                quest = claimed(asked, self._options.seed)
                place = asked.label or 0
                # Several questions of one statement, each with a search of its own.
                name = job.statement.name + (f" {number}" if len(job.questions) > 1 else "")
                self._checkpoints[asked] = store.of(
                    quest.digests(), place, options, name, str(job.statement)
                )
        return list(self._checkpoints.values())

    def decide(self, clock: Clock) -> list[Result]:
        """Decide every statement, in order."""
        self._found = [self._decided(job, clock) for job in self.jobs]
        return [result for found in self._found for result in found]

    def distrusted(self) -> list[Result]:
        """Return the results with nothing proved of leaks: a solver they rest on erred."""
        ended = Clock(0.0, time.perf_counter(), 1)
        return [
            result
            for job, found in zip(self.jobs, self._found, strict=True)
            for result in (self._decider.decide(job, ended) if isinstance(job, Job) else found)
        ]

    def _decided(self, job: Loaded, clock: Clock) -> list[Result]:
        if isinstance(job, Job):
            return self._decider.decide(job, clock)
        stopped = self._decider.interrupted or self._values.interrupted
        if isinstance(job, ValueJob):
            seconds = clock.next()
            return [self._values.decide(job.statement, 0.0 if stopped else seconds)]
        results = []
        for label in job.labels:
            seconds = clock.next()
            result, interrupted = decide_formula(
                job, label, 0.0 if stopped else seconds, self._options,
                checkpoints=self._checkpoints.get, progress=self._progress,
            )  # fmt: skip
            stopped = stopped or interrupted
            results.append(result)
        self._decider.interrupted = stopped
        return results


def _name(job: Loaded) -> str:
    return job.statement.statement.name if isinstance(job, Job) else job.statement.name
