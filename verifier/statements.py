"""The statements of a specification, all loaded before any is decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from leaveout.bab.native.files.checkpoint import Checkpoint, Checkpoints
from leaveout.errors import SpecError
from leaveout.models.train.encoding import Encoding, NumberColumn, encoding_of
from leaveout.specs import Find, Guarantee
from leaveout.verifier.engines import ForestTask, FormulaTask, LeakTask, SampledTask, engines
from leaveout.verifier.points.advice import Case, advice
from leaveout.verifier.points.network_leaks import Job
from leaveout.verifier.records import ByRowRecord, ColumnRecord, ModelRecord
from leaveout.verifier.report import Result
from leaveout.verifier.resolve_names import Resolver
from leaveout.verifier.tasks import Context, Engine, Task, unused_option_notes
from leaveout.verifier.time_sharing import Clock

if TYPE_CHECKING:
    from leaveout.verifier.points.forest_leaks import ForestJob


def network_record(job: Job) -> ModelRecord:
    """Return the record of a statement's network and its family."""
    network, family = job.instance.network, job.instance.family
    facts = None if job.pair else family.manifest.data
    members = 0 if job.pair else len(np.unique(family.removed))
    return ModelRecord(
        model="network",
        file=network.source,
        family=family.source,
        statements=(job.statement.statement.name,),
        members=members,
        rows=None if facts is None else max(facts.rows, members),
        labels=() if facts is None else facts.labels,
        columns=()
        if job.pair
        else _columns(encoding_of(family.manifest), {} if facts is None else facts.units),
    )


def forest_record(job: ForestJob, file: str) -> ModelRecord:
    """Return the record of a statement's forest, whose family has no file."""
    columns = job.names.columns
    members = 0 if job.other is not None else job.members
    return ModelRecord(
        model="forest",
        file=file,
        family="",
        statements=(job.statement.statement.name,),
        members=members,
        rows=len(job.rows) or None,
        labels=job.names.labels,
        columns=() if columns is None else _columns(columns.encoding, columns.units),
    )


def merge_models(found: Iterable[ModelRecord]) -> tuple[ModelRecord, ...]:
    """Return each model once, with all statements about it."""
    kept: dict[ModelRecord, list[str]] = {}
    for each in found:
        kept.setdefault(structs.replace(each, statements=()), []).extend(each.statements)
    return tuple(structs.replace(each, statements=tuple(own)) for each, own in kept.items())


def _columns(encoding: Encoding | None, units: Mapping[str, str]) -> tuple[ColumnRecord, ...]:
    found: list[ColumnRecord] = []
    first = 0
    for column in () if encoding is None else encoding.columns:
        at = tuple(range(first, first + len(column.features)))
        first += len(at)
        unit = units.get(column.name, "")
        if not isinstance(column, NumberColumn):
            words = tuple(map(str, column.categories))
            found.append(ColumnRecord(name=column.name, unit=unit, at=at, categories=words))
            continue
        zero, one = (column.minimum, column.maximum) if column.scaled else (0.0, 1.0)
        found.append(ColumnRecord(name=column.name, unit=unit, at=at, zero=zero, one=one))
    return tuple(found)


class Statements:
    """The loaded statements of a specification."""

    def __init__(self, context: Context) -> None:
        self._options, self._engines = context.options, engines(context)
        self._found: list[list[Result]] = []
        self.tasks: list[Task] = [
            task_of(each, self._engines) for each in context.checked.statements
        ]

    @property
    def leaks(self) -> list[Job]:
        """The statements about leaks."""
        return [task.job for task in self.tasks if isinstance(task, LeakTask)]

    def refuse_forests(self, option: str) -> None:
        """Raise on an option for networks if there are only forests."""
        if not self.leaks and any(isinstance(task, ForestTask) for task in self.tasks):
            raise SpecError(
                f"{option}: is of networks; of a forest the guard itself finds which answers some "
                "row's deletion changes, exactly: leaveout guard FOLDER --epsilon 0.2 ROWS.csv"
            )

    @property
    def searches(self) -> int:
        """The number of searches that share the time."""
        return sum(task.searches for task in self.tasks)

    @property
    def kernels(self) -> list[str]:
        """The names of the compiled kernels needed."""
        return [name for task in self.tasks for name in task.kernels]

    @property
    def notes(self) -> list[str]:
        """Notes for readers of the results."""
        # What is said of values comes last.
        said = [note for engine in reversed(self._engines) for note in engine.notes]
        kinds = [(task.statement.name, task.kind) for task in self.tasks]
        return [*said, *unused_option_notes(self._options, kinds)]

    def models(self, resolver: Resolver) -> tuple[ModelRecord, ...]:
        """Return the models whose leaks statements ask about, each once."""
        found = []
        for task in self.tasks:
            if isinstance(task, LeakTask):
                found.append(network_record(task.job))
            elif isinstance(task, SampledTask):
                found.append(network_record(task.job.job))
            elif isinstance(task, ForestTask):
                file = resolver.forest_file(task.job.statement.network)
                found.append(forest_record(task.job, str(file)))
        return merge_models(found)

    def resume(self, store: Checkpoints) -> list[Checkpoint]:
        """Resume from checkpoints; return those of these statements."""
        return [checkpoint for task in self.tasks for checkpoint in task.resume(store)]

    def decide(self, clock: Clock) -> list[Result]:
        """Decide every statement, in order."""
        self._found = [task.decide(clock) for task in self.tasks]
        return [result for found in self._found for result in found]

    def with_advice(self, results: list[Result]) -> list[Result]:
        """Return results with advice where one is unknown."""
        cases = {task.statement.name: case for task in self.tasks if (case := _case(task))}
        return [
            structs.replace(each, advice=advice(each, cases[each.name]))
            if each.name in cases
            else each
            for each in results
        ]

    def by_row(self, clock: Clock) -> tuple[ByRowRecord, ...]:
        """Return what is proved of each row, per question about a family."""
        found: list[ByRowRecord] = []
        networks = [task for task in self.tasks if isinstance(task, LeakTask)]
        if networks:
            found += networks[0].decider.by_row([task.job for task in networks], clock)
        forests = [task for task in self.tasks if isinstance(task, ForestTask)]
        if forests:
            found += forests[0].decider.by_row([task.job for task in forests])
        return tuple(found)

    def without_solver_proofs(self) -> list[Result]:
        """Return the results without any proof on leaks, as a solver erred."""
        ended = Clock.without_time()
        return [
            result
            for task, found in zip(self.tasks, self._found, strict=True)
            for result in (task.decide(ended) if isinstance(task, LeakTask) else found)
        ]


def task_of(statement: Guarantee | Find, engines: Sequence[Engine]) -> Task:
    """Load a statement with the first engine that accepts it."""
    refusals = []
    for engine in engines:
        refusal = engine.accepts(statement)
        if refusal is None:
            return engine.load(statement)
        refusals.append(refusal)
    raise refusals[-1]


def _case(task: Task) -> Case | None:
    """Return the context of a statement about points; None for others."""
    if isinstance(task, LeakTask):
        instance, pair = task.job.instance, task.job.pair
        return Case(instance.box, None if pair else instance.family.manifest, instance)
    if isinstance(task, FormulaTask):
        manifests = {id(each): each for asked in task.job.questions for _, each in asked.manifests}
        one = next(iter(manifests.values())) if len(manifests) == 1 else None
        return Case(task.job.boxes[0], one)
    return None
