"""From the labels of a statement about leaks to its results, for any model."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from leaveout.bab import EngineResult, Progress, ProgressCallback, SearchResult, Witness, agree
from leaveout.encoders import Box
from leaveout.errors import LeaveoutError
from leaveout.models.train.encoding import Encoding, NumberColumn
from leaveout.specs import Find
from leaveout.verifier.points.leak_statements import (
    LUCID,
    Decides,
    IdpStatement,
    names_model,
    recognise,
)
from leaveout.verifier.points.row_bounds import Kept, RowBounds, label_record, rows_of
from leaveout.verifier.points.sentences import box_record
from leaveout.verifier.records import (
    ByRowRecord,
    ColumnRecord,
    GroupsRecord,
    ModelRecord,
    TraceRecord,
    WitnessRecord,
)
from leaveout.verifier.report import Result
from leaveout.verifier.tasks import Context, Engine, Outline, Statement, count_searches, kind_of
from leaveout.verifier.time_sharing import Clock, in_turn

NO_LEAK = -1e-9  # what is claimed where there is no leak at all: no confidence is below 0
_UNCONDITIONAL = -1e-9  # floor of a statement without a premise: even a confidence of 0 counts


@dataclass(frozen=True, eq=False)
class Compared(ABC):
    """A model, what its answers are held against, and the inputs; statements share it."""

    model: ClassVar[Literal["network", "forest", "linear"]]
    files: tuple[Path, Path]  # of the model, and of what it is held against
    box: Box
    pair: bool  # whether it is held against one other model, rather than a family

    @property
    @abstractmethod
    def labels(self) -> int:
        """The number of labels."""

    @property
    @abstractmethod
    def known_labels(self) -> str:
        """The labels it has, in words."""

    @property
    @abstractmethod
    def members(self) -> int:
        """The number of models it is held against."""

    @abstractmethod
    def label_name(self, label: int | None) -> str:
        """Return a label's name in the training data; empty if it has none."""

    @abstractmethod
    def witness_record(self, witness: Witness) -> WitnessRecord:
        """Return a witness as stored in the report."""

    @abstractmethod
    def model_record(self, statement: str) -> ModelRecord:
        """Return the record of the model and its family."""

    @abstractmethod
    def row_record(self, statements: tuple[str, ...], kept: Mapping[int, Kept]) -> ByRowRecord:
        """Return what is known of the family's rows."""

    @abstractmethod
    def replay(self, x: NDArray[Any], member: int, label: int) -> Witness | None:
        """Return a leak as the models compute it; None if it is not one."""

    @abstractmethod
    def outline(self) -> dict[str, str]:
        """Return how large it is, in words."""

    def _row_record(
        self,
        statements: tuple[str, ...],
        kept: Mapping[int, Kept],
        removed: NDArray[np.int64],
        trained: int,
        row_id: Callable[[int], str],
        digests: tuple[str, str],
        label_names: tuple[str, ...],
        group: str = "",
    ) -> ByRowRecord:
        fields = rows_of(removed, trained, row_id)
        return ByRowRecord(
            model=self.model,
            network=str(self.files[0]),
            family=str(self.files[1]),
            network_sha256=digests[0],
            family_sha256=digests[1],
            statements=statements,
            box=box_record(self.box),
            labels=tuple(
                label_record(label, self.label_name(label), each, removed, fields["rows"])
                for label, each in kept.items()
            ),
            label_names=label_names,
            group=group,
            **fields,
        )


C = TypeVar("C", bound=Compared)


@dataclass(frozen=True, eq=False)
class LeakJob(Generic[C]):
    """A loaded statement about leaks."""

    statement: IdpStatement
    compared: C
    labels: tuple[int, ...]  # the labels it is about
    without: tuple[int, ...] | None = None  # of a sample the members that do not count
    certified: bool = True  # whether what proves it is of any use

    @property
    def name(self) -> str:
        """The statement's name."""
        return self.statement.statement.name


@dataclass(frozen=True, eq=False)
class Merged:
    """What is known of some labels together."""

    lower: float  # from 0 on
    upper: float  # from 0 on
    closed: bool
    reason: str | None  # why not
    label: int | None  # the label, where it is one
    witness: Witness | None  # of the lower bound
    seconds: float


def merge_results(found: Sequence[EngineResult], gap: float) -> Merged:
    """Merge the results of some labels."""
    best = max(found, key=lambda each: each.lower)
    upper = max(0.0, *(each.upper for each in found))
    closed = all(each.closed for each in found) or agree(best.lower, upper, gap)
    reasons = [] if closed else [_reason(each) for each in found if not each.closed]
    return Merged(
        lower=max(0.0, best.lower),
        upper=upper,
        closed=closed,
        reason=reasons[0] if reasons else None,
        label=found[0].label if len(found) == 1 else None,
        witness=best.witness,
        seconds=round(sum(each.seconds for each in found), 3),
    )


def floor_of(statement: IdpStatement) -> float:
    """Return the confidence up to which leaks are ignored; negative if none is."""
    if isinstance(statement.statement, Find):
        return 0.0
    threshold = statement.threshold
    return _UNCONDITIONAL if threshold is None else max(threshold, _UNCONDITIONAL)


def claimed_bound(job: LeakJob[Any], result: Result, upper: float) -> float:
    """Return the bound to certify: beyond what is asked nothing needs to be proved."""
    if result.kind != "guarantee" or result.verdict != "proved":
        return upper
    asked = job.statement.threshold
    return NO_LEAK if asked is None else max(asked, NO_LEAK)


class LeakEngine(Engine[LeakJob[C]], Generic[C]):
    """Decides label by label and turns bounds into verdicts."""

    decides: ClassVar[Decides] = LUCID  # how it refuses other claims
    alone: ClassVar[str] = ""  # the kind of models of which no other engine decides claims
    solver: str | None = None  # what computes bounds, as results name it

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.rows = RowBounds()
        self._compared: dict[tuple[str, ...], C] = {}
        self._traces: dict[EngineResult, TraceRecord] = {}
        self._groups: dict[EngineResult, GroupsRecord] = {}

    @property
    @abstractmethod
    def engine(self) -> str:
        """What results name as their engine."""

    @abstractmethod
    def compare(self, leak: IdpStatement) -> C:
        """Load the models and the inputs of a statement."""

    @abstractmethod
    def search(
        self, job: LeakJob[C], label: int, clock: Clock, floor: float, *, decide: bool
    ) -> EngineResult:
        """Search the leaks of one label within the clock's share."""

    @abstractmethod
    def unsearched_result(self, job: LeakJob[C], label: int, detail: str) -> EngineResult:
        """Return what is known of a label without a search."""

    def settle(self, compared: C, kept: Mapping[int, Kept], clock: Clock) -> None:
        """Improve what is known of single members before it is told by row, where searches do not.

        Raises AssertionError where a bound is wrong, as then nothing is to be concluded.
        """
        if any(each.has_contradiction for each in kept.values()):
            raise AssertionError("a replayed leak exceeds the proved bound of its row")

    @abstractmethod
    def prepare(self, job: LeakJob[C], clock: Clock) -> None:
        """Get ready to decide a statement."""

    @abstractmethod
    def account(self, job: LeakJob[C], result: Result, clock: Clock) -> None:
        """Put what proves a result into the certificate, or note what it lacks."""

    def accepts(self, statement: Statement) -> LeaveoutError | None:
        resolver = self.context.resolver
        if self.alone and not names_model(statement, self.context.checked, self.alone):
            return resolver.fail(statement.claim, f"this claim is not about a {self.decides.model}")
        leak = recognise(statement, resolver, self.decides)
        if isinstance(leak, IdpStatement):
            return None
        if self.alone:
            raise leak
        return leak

    def load(self, statement: Statement) -> LeakJob[C]:
        leak = recognise(statement, self.context.resolver, self.decides)
        if not isinstance(leak, IdpStatement):
            raise leak
        return self.load_leak(leak)

    def load_leak(self, leak: IdpStatement) -> LeakJob[C]:
        """Load a recognised statement, whose models earlier ones may have loaded."""
        resolver = self.context.resolver
        key = tuple(str(resolver.value(part)) for part in (leak.network, leak.family, leak.box))
        if key not in self._compared:
            self._compared[key] = self.compare(leak)
        compared = self._compared[key]
        if leak.label is None:
            return LeakJob(leak, compared, tuple(range(compared.labels)))
        if leak.label >= compared.labels:
            at, wrong = leak.label_at or leak.network, f"label {leak.label} is out of range"
            raise resolver.fail(at, wrong, compared.known_labels)
        return LeakJob(leak, compared, (leak.label,))

    def searches(self, job: LeakJob[C]) -> int:
        return len(job.labels)

    def outline(self, job: LeakJob[C]) -> Outline:
        about = {**job.compared.outline(), "searches": count_searches(job.labels)}
        return Outline.of(job.statement.statement, len(job.labels), about)

    def models(self, job: LeakJob[C]) -> list[ModelRecord]:
        return [job.compared.model_record(job.name)]

    def by_row(self, jobs: Sequence[LeakJob[C]], clock: Clock) -> list[ByRowRecord]:
        asked: dict[C, list[str]] = {}
        for job in jobs:
            if not job.compared.pair:
                asked.setdefault(job.compared, []).append(job.name)
        found = []
        for compared, names in asked.items():
            kept = self.rows.of(compared)
            self.settle(compared, kept, clock)
            found.append(compared.row_record(tuple(dict.fromkeys(names)), kept))
        return found

    def decide(self, job: LeakJob[C], clock: Clock) -> list[Result]:
        self.prepare(job, clock)
        statement, floor = job.statement.statement, floor_of(job.statement)
        if isinstance(statement, Find):
            # Of several labels only the worst leak counts, unless each is asked about.
            asked = [(label,) for label in job.labels] if statement.per_label else [job.labels]
            every = [self.in_turn(job, labels, clock, floor, decide=False) for labels in asked]
            results = [self.result(job, found) for found in every]
        else:
            found = self.in_turn(job, job.labels, clock, floor, decide=True)
            results = [self._guarantee(job, found, floor)]
        for result in results:
            self.account(job, result, clock)
        return results

    def in_turn(
        self, job: LeakJob[C], labels: tuple[int, ...], clock: Clock, floor: float, *, decide: bool
    ) -> list[EngineResult]:
        """Search the leaks of some labels in turn and store each member's bounds."""
        found = in_turn(
            labels,
            lambda label, floor: self.search(job, label, clock, floor, decide=decide),
            lambda label: self.unsearched_result(job, label, "interrupted"),
            clock,
            floor=floor,
            decide=decide,
        )
        self.rows.take(job.compared, found)
        return found

    def _guarantee(self, job: LeakJob[C], found: list[EngineResult], floor: float) -> Result:
        leaking = [each for each in found if each.witness is not None and each.lower > floor]
        open_ones = [each for each in found if each.upper > floor]
        if leaking:
            result = self.result(job, leaking[:1])
            return structs.replace(result, verdict="refuted", reason=None)
        result = structs.replace(self.result(job, found), label=job.statement.label)
        if not open_ones:
            return structs.replace(result, verdict="proved", reason=None)
        reason = next((_reason(each) for each in open_ones if each.reason), "numerical")
        return structs.replace(result, verdict="unknown", reason=reason)

    def result(self, job: LeakJob[C], found: Sequence[EngineResult]) -> Result:
        """Return the joint result of some labels."""
        compared, known = job.compared, merge_results(found, self.context.options.gap)
        return Result(
            name=job.name,
            kind=kind_of(job.statement.statement),
            verdict="proved" if known.closed else "unknown",
            lower=finite(known.lower),
            upper=finite(known.upper),
            label=known.label,
            witness=None if known.witness is None else compared.witness_record(known.witness),
            seconds=known.seconds,
            engine=self.engine,
            solver=self.solver,
            reason=known.reason,
            box=box_record(compared.box),
            members=compared.members,
            label_name=compared.label_name(known.label),
            traces=tuple(self._traces[each] for each in found if each in self._traces),
            groups=tuple(self._groups[each] for each in found if each in self._groups),
        )

    def reporter(self, job: LeakJob[C], trace: Trace) -> ProgressCallback:
        """Return what keeps and tells how far a search is."""
        tell = self.context.progress

        def report(progress: Progress) -> None:
            trace.add(progress)
            if tell is not None:
                tell(job.name, progress)

        return report

    def keep(self, found: EngineResult, trace: Trace) -> None:
        """Keep the course of a search, if there was one."""
        course = trace.record(found)
        if course is not None:
            self._traces[found] = course


def finite(value: float) -> float | None:
    """Return a number as stored in a result: None if infinite."""
    return value if math.isfinite(value) else None


def _reason(result: EngineResult) -> str:
    return f"{result.reason}: {result.detail}" if result.detail else str(result.reason)


def column_records(encoding: Encoding | None, units: Mapping[str, str]) -> tuple[ColumnRecord, ...]:
    """Return how a model reads the columns of its training table."""
    found: list[ColumnRecord] = []
    for column, places in () if encoding is None else encoding.layout:
        at = tuple(range(places.start, places.stop))
        unit = units.get(column.name, "")
        if not isinstance(column, NumberColumn):
            words = tuple(map(str, column.categories))
            found.append(ColumnRecord(name=column.name, unit=unit, at=at, categories=words))
            continue
        zero, one = (column.minimum, column.maximum) if column.scaled else (0.0, 1.0)
        found.append(ColumnRecord(name=column.name, unit=unit, at=at, zero=zero, one=one))
    return tuple(found)


_MOST_POINTS = 60  # moments that are kept
_SOONEST = 1e-3  # seconds: sooner moments are one to the eye

Moment = tuple[float, float, float]


class Trace:
    """The improving bounds of one search."""

    def __init__(self) -> None:
        self._moments: list[Moment] = []

    def add(self, progress: Progress) -> None:
        """Add a report, unless it says nothing new."""
        self._add(progress.seconds, progress.lower, progress.upper)

    def record(self, result: SearchResult[Any]) -> TraceRecord | None:
        """Return the stored bounds; None if there are too few, or an earlier one was wrong."""
        if result.contradicted or not self._moments:
            return None
        self._add(result.seconds, result.lower, result.upper, last=True)
        kept = _thin_moments(self._moments)
        if len(kept) < 2:
            return None
        seconds, lower, upper = zip(*kept, strict=True)
        label = None if result.label < 0 else result.label
        return TraceRecord(label=label, seconds=seconds, lower=lower, upper=upper)

    def _add(self, seconds: float, lower: float, upper: float, last: bool = False) -> None:
        if not (math.isfinite(lower) and math.isfinite(upper)):
            return
        if self._moments:
            before = self._moments[-1]
            seconds = max(seconds, before[0])
            lower, upper = max(lower, before[1]), min(upper, before[2])
            if (lower, upper) == before[1:] and not last:
                return
        self._moments.append((round(seconds, 4), lower, upper))


def _thin_moments(moments: list[Moment]) -> list[Moment]:
    """Keep the first and last moments, and some at equal ratios of time."""
    if len(moments) <= _MOST_POINTS:
        return moments
    first, last = (math.log(max(each[0], _SOONEST)) for each in (moments[0], moments[-1]))
    kept: dict[int, Moment] = {}
    for moment in moments[1:-1]:
        share = (math.log(max(moment[0], _SOONEST)) - first) / (last - first or 1.0)
        # The last of those that share a place knows most.
        kept[int(share * (_MOST_POINTS - 2))] = moment
    chosen = [kept[place] for place in sorted(kept)][: _MOST_POINTS - 2]
    return [moments[0], *chosen, moments[-1]]
