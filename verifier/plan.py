"""What a run would solve and how large it is, without solving anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leaveout.specs import Find, Spec
from leaveout.specs.typing.params import Value
from leaveout.verifier.engines import ForestTask, FormulaTask, LeakTask
from leaveout.verifier.options import VerifyOptions
from leaveout.verifier.points.job import FormulaJob
from leaveout.verifier.points.network_leaks import Decider, Job
from leaveout.verifier.resolve_names import Resolver, read_spec
from leaveout.verifier.run import usable_features
from leaveout.verifier.statements import Statements
from leaveout.verifier.tasks import Context, Task

if TYPE_CHECKING:
    from leaveout.verifier.points.forest_leaks import ForestJob


@dataclass(frozen=True)
class Planned:
    """A statement about leaks."""

    name: str
    kind: str
    network: str  # files; the family is empty where members were not read from a file
    family: str  # files; the family is empty where members were not read from a file
    other: str  # the file of the one network that takes the place of a family; empty for a family
    layers: tuple[int, ...]  # neurons of each layer, the scores last
    inputs: int  # features the network reads
    listed: int  # of these, features that take listed values only
    labels: int  # labels the network has
    asked: tuple[int, ...]  # labels that each need a search of their own
    members: int

    @property
    def searches(self) -> int:
        """The number of searches."""
        return len(self.asked)

    @property
    def neurons(self) -> int:
        """The number of ReLU neurons."""
        return sum(self.layers[:-1])

    def __str__(self) -> str:
        searches = self.searches
        plural = "s" * (searches != 1)
        source = f"{self.family}: " if self.family else ""
        compared = f"members   {source}{_count_noun(self.members, 'member')}"
        if self.other:
            compared = f"against   {self.other}"
        return "\n".join(
            (
                f"{self.kind} {self.name}",
                f"    network   {self.network}: {self.inputs:,} inputs, layers of "
                f"{', '.join(f'{width:,}' for width in self.layers)} "
                f"({self.neurons:,} ReLUs), {self.labels} labels",
                f"    {compared}",
                f"    inputs    {self.inputs - self.listed:,} continuous, {self.listed:,} listed",
                f"    searches  {searches}, for label{plural} {_several(self.asked)}",
            )
        )


@dataclass(frozen=True)
class PlannedFormula:
    """A statement about points that is not about leaks."""

    name: str
    kind: str
    points: tuple[tuple[str, int], ...]  # names, and how many features each has
    applications: tuple[tuple[str, int], ...]  # networks at points, and neurons with a ReLU
    cases: int  # conjunctions of linear conditions, each searched on its own
    members: int

    @property
    def searches(self) -> int:
        """The number of searches."""
        return self.cases

    def __str__(self) -> str:
        points = ", ".join(f"{name} of {count:,} features" for name, count in self.points)
        applied = ", ".join(f"{name} ({count:,} ReLUs)" for name, count in self.applications)
        about = [f"    members   {self.members:,}"] if self.members else []
        return "\n".join(
            (
                f"{self.kind} {self.name}",
                f"    points    {points}",
                f"    networks  {applied}",
                *about,
                f"    searches  {self.cases:,}, one for each case that would refute it",
            )
        )


@dataclass(frozen=True)
class PlannedForests:
    """A statement about leaks of a forest."""

    name: str
    kind: str
    forest: str  # files; the other is empty where every row's deletion is asked about
    other: str  # files; the other is empty where every row's deletion is asked about
    trees: int  # of the forest
    rows: int  # of the forest
    inputs: int  # features it reads
    asked: tuple[int, ...]  # labels that each need a search of their own

    @property
    def searches(self) -> int:
        """The number of searches."""
        return len(self.asked)

    def __str__(self) -> str:
        compared = (
            f"against   {self.other}" if self.other else f"members   {self.rows:,}, one a row"
        )
        return "\n".join(
            (
                f"{self.kind} {self.name}",
                f"    forest    {self.forest}: {self.inputs:,} inputs, {self.trees:,} trees, "
                f"{self.rows:,} rows",
                f"    {compared}",
                f"    searches  {self.searches}, for label{'s' * (self.searches != 1)} "
                f"{_several(self.asked)}",
            )
        )


@dataclass(frozen=True)
class PlannedValue:
    """A statement about values of functions."""

    name: str
    kind: str

    @property
    def searches(self) -> int:
        """Zero: functions compute the value."""
        return 0

    def __str__(self) -> str:
        return f"{self.kind} {self.name}\n    values    decided by the functions it names"


_Statement = Planned | PlannedForests | PlannedFormula | PlannedValue


@dataclass(frozen=True)
class Plan:
    """What a run would do.

    Attributes
    ----------
    spec : str
    engine : str
    solver : str or None
        None where the engine needs none.
    statements : tuple of Planned, PlannedForests, PlannedFormula or PlannedValue
    notes : tuple of str
    """

    spec: str
    engine: str
    solver: str | None
    statements: tuple[_Statement, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        by = self.engine if self.solver is None else f"{self.engine} with {self.solver}"
        searches = sum(each.searches for each in self.statements)
        total = f"{_count_noun(searches, 'search', 'searches')} by the engine {by}"
        last = f"{total if searches else 'no search'}; nothing was solved"
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([*map(str, self.statements), "", last, *notes]) + "\n"


def plan(
    spec: Path | str | Spec,
    *,
    options: VerifyOptions | None = None,
    folder: Path | str | None = None,
    params: Mapping[str, Value] | None = None,
    allow_include: Sequence[Path | str] = (),
) -> Plan:
    """Read, check and load everything a run needs, without solving anything.

    Parameters
    ----------
    spec : path or Spec
    options : VerifyOptions, optional
    folder : path, optional
    params : mapping of str to float or str, optional
    allow_include : sequence of path
        As of `leaveout.verify`.

    Raises
    ------
    LeaveoutError
        Where a run would raise it before its first search.
    """
    options = options or VerifyOptions()
    usable_features(options)
    reading = read_spec(spec, folder, params, [Path(each) for each in allow_include])
    resolver = reading.resolver()
    decider = Decider(resolver, options)
    statements = Statements(Context(reading.checked, resolver, reading.folder, options, decider))
    return Plan(
        spec=reading.checked.source.name,
        engine=options.engine,
        solver=options.solver if options.engine == "lucid" else None,
        statements=tuple(_plan_task(task, resolver) for task in statements.tasks),
        notes=(*reading.notes, *resolver.notes, *decider.notes, *statements.notes),
    )


def _plan_task(
    task: Task, resolver: Resolver
) -> Planned | PlannedForests | PlannedFormula | PlannedValue:
    """Return the plan of one statement."""
    kind = "find" if isinstance(task.statement, Find) else "guarantee"
    match task:
        case FormulaTask(job=job):
            return _formula(job, kind)
        case LeakTask(job=leak):
            return _leaks(leak, kind, resolver)
        case ForestTask(job=forests):
            return _forests(forests, kind, resolver)
        case _:
            return PlannedValue(task.statement.name, kind)


def _leaks(job: Job, kind: str, resolver: Resolver) -> Planned:
    instance = job.instance
    network, box, family = instance.network, instance.box, job.statement.family
    return Planned(
        name=job.statement.statement.name,
        kind=kind,
        network=network.source,
        family=instance.family.source,
        other=str(resolver.file(family)) if resolver.is_network(family) else "",
        layers=tuple(layer.width for layer in network.stack.layers),
        inputs=network.inputs,
        listed=sum(len(each.columns) for each in box.choices),
        labels=instance.labels,
        asked=job.labels,
        members=len(instance.family),
    )


def _forests(job: ForestJob, kind: str, resolver: Resolver) -> PlannedForests:
    statement = job.statement
    return PlannedForests(
        name=statement.statement.name,
        kind=kind,
        forest=str(resolver.forest_file(statement.network)),
        other="" if job.other is None else str(resolver.forest_file(statement.family)),
        trees=len(job.whole.trees),
        rows=len(job.rows),
        inputs=job.box.dimension,
        asked=job.labels,
    )


def _formula(job: FormulaJob, kind: str) -> PlannedFormula:
    applications = {
        (each.name, sum(layer.width for layer in each.network.stack.layers[:-1]))
        for asked in job.questions
        for each in asked.query.applications
    }
    return PlannedFormula(
        name=job.statement.name,
        kind=kind,
        points=tuple(
            (name, box.dimension) for name, box in zip(job.points, job.boxes, strict=True)
        ),
        applications=tuple(sorted(applications)),
        cases=sum(len(asked.cases) for asked in job.questions),
        members=job.members,
    )


def _count_noun(number: int, one: str, many: str = "") -> str:
    """Return a number of things in words."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def _several(labels: tuple[int, ...]) -> str:
    if len(labels) > 2 and labels == tuple(range(labels[0], labels[-1] + 1)):
        return f"{labels[0]} to {labels[-1]}"
    return " and ".join(map(str, labels))
