"""The statements of a specification, all loaded before any is decided."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from leaveout.bab.native.files.checkpoint import Checkpoint, Checkpoints
from leaveout.errors import SpecError
from leaveout.verifier.engines import engines
from leaveout.verifier.points.advice import advice
from leaveout.verifier.records import ByRowRecord, ModelRecord
from leaveout.verifier.report import Result
from leaveout.verifier.tasks import Context, Subject, Task, task_of, unused_option_notes
from leaveout.verifier.time_sharing import Clock


class Statements:
    """The loaded statements of a specification."""

    def __init__(self, context: Context) -> None:
        self._context, self._engines = context, engines(context)
        self._found: list[list[Result]] = []
        self.tasks: list[Task[Any]] = [
            task_of(each, self._engines) for each in context.checked.statements
        ]

    def about(self, subject: Subject) -> list[Task[Any]]:
        """Return the statements of one engine."""
        return [task for task in self.tasks if task.engine.subject == subject]

    def refuse_without_networks(self, option: str) -> None:
        """Raise on an option for networks if there are only forests or linear models."""
        if self.about("networks"):
            return
        if self.about("linear"):
            raise SpecError(
                f"{option}: applies to networks only; of a linear model, leaveout rows RESULT.json "
                "--data FILE says which answers change, and leaveout guard FOLDER --epsilon 0.2 "
                "ROWS.csv needs no bounds"
            )
        if self.about("forests"):
            raise SpecError(
                f"{option}: applies to networks only; for a forest, the guard itself finds "
                "exactly which answers a row's deletion changes: leaveout guard FOLDER "
                "--epsilon 0.2 ROWS.csv"
            )

    @property
    def searches(self) -> int:
        """The number of searches that share the time."""
        return sum(task.engine.searches(task.job) for task in self.tasks)

    @property
    def kernels(self) -> list[str]:
        """The names of the compiled kernels needed."""
        return [name for task in self.tasks for name in task.engine.kernels(task.job)]

    @property
    def has_contradiction(self) -> bool:
        """Whether a bound was refuted."""
        return any(engine.contradicted for engine in self._engines)

    @property
    def notes(self) -> list[str]:
        """Notes for readers of the results."""
        # What is said of values comes last.
        said = [note for engine in reversed(self._engines) for note in engine.notes]
        kinds = [(task.statement.name, task.engine.kind(task.job)) for task in self.tasks]
        options = self._context.options
        return [*self._context.notes, *said, *unused_option_notes(options, kinds)]

    @property
    def models(self) -> tuple[ModelRecord, ...]:
        """The models whose leaks statements ask about, each once, with all these statements."""
        kept: dict[ModelRecord, list[str]] = {}
        for task in self.tasks:
            for each in task.engine.models(task.job):
                kept.setdefault(structs.replace(each, statements=()), []).extend(each.statements)
        return tuple(structs.replace(each, statements=tuple(own)) for each, own in kept.items())

    def resume(self, store: Checkpoints) -> list[Checkpoint]:
        """Resume from checkpoints; return those of these statements."""
        return [each for task in self.tasks for each in task.engine.resume(task.job, store)]

    def decide(self, clock: Clock) -> list[Result]:
        """Decide every statement, in order; what some leave of their time is the others'."""
        self._found = [task.engine.decide(task.job, clock) for task in self.tasks]
        try:
            while clock.go_on(sum(task.engine.open_searches(task.job) for task in self.tasks)):
                for at, task in enumerate(self.tasks):
                    if task.engine.open_searches(task.job):
                        self._found[at] = task.engine.decide(task.job, clock)
        except KeyboardInterrupt:
            clock.interrupted = True
        return [result for found in self._found for result in found]

    def with_advice(self, results: list[Result]) -> list[Result]:
        """Return results with advice where one is unknown."""
        cases = {task.statement.name: task.engine.explain(task.job) for task in self.tasks}
        return [
            each if case is None else structs.replace(each, advice=advice(each, case))
            for each in results
            for case in (cases[each.name],)
        ]

    def by_row(self, clock: Clock) -> tuple[ByRowRecord, ...]:
        """Return what is proved of each row, per question about a family."""
        found: list[ByRowRecord] = []
        for engine in reversed(self._engines):
            found += engine.by_row([t.job for t in self.tasks if t.engine is engine], clock)
        return tuple(found)

    def without_solver_proofs(self) -> list[Result]:
        """Return the results without any proof of an engine that erred."""
        ended = Clock.without_time()
        return [
            result
            for task, found in zip(self.tasks, self._found, strict=True)
            for result in (
                task.engine.decide(task.job, ended) if task.engine.contradicted else found
            )
        ]
