"""From the labels of a statement about leaks to its results, for any model."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from msgspec import structs

from leaveout.bab import EngineResult, Instance, NativeOptions, Progress, SearchResult, agree
from leaveout.bab.native.leaks import Leaks
from leaveout.deadline import Deadline
from leaveout.specs import Find
from leaveout.verifier.points.leak_statements import IdpStatement
from leaveout.verifier.points.row_bounds import Leak, RowBounds
from leaveout.verifier.records import TraceRecord
from leaveout.verifier.report import Result
from leaveout.verifier.resolve_names import Resolver
from leaveout.verifier.time_sharing import Clock, in_turn

StatementProgress = Callable[[str, Progress], None]

W = TypeVar("W", bound=Leak)

_UNCONDITIONAL = -1e-9
"""Floor of a statement without a premise: even a confidence of 0 counts."""


class LeakJob(Protocol):
    """A loaded statement about leaks."""

    @property
    def statement(self) -> IdpStatement:
        """The statement as recognised."""
        ...

    @property
    def labels(self) -> tuple[int, ...]:
        """The labels it is about."""
        ...

    @property
    def question(self) -> Hashable:
        """The key that statements on the same model, members and inputs share."""
        ...


J = TypeVar("J", bound=LeakJob)


@dataclass(frozen=True, eq=False)
class Merged(Generic[W]):
    """What is known of some labels together."""

    lower: float  # from 0 on
    upper: float  # from 0 on
    closed: bool
    reason: str | None  # why not
    label: int | None  # the label, where it is one
    witness: W | None  # of the lower bound
    seconds: float


def merge_results(found: Sequence[SearchResult[W]], gap: float) -> Merged[W]:
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


def asked_labels(
    statement: IdpStatement, resolver: Resolver, labels: int, known: str
) -> tuple[int, ...]:
    """Return the labels that a statement is about."""
    label = statement.label
    if label is None:
        return tuple(range(labels))
    if label >= labels:
        at = statement.label_at or statement.network
        raise resolver.fail(at, f"label {label} is out of range", known)
    return (label,)


def floor_of(statement: IdpStatement) -> float:
    """Return the confidence up to which leaks are ignored; negative if none is."""
    if isinstance(statement.statement, Find):
        return 0.0
    threshold = statement.threshold
    return _UNCONDITIONAL if threshold is None else max(threshold, _UNCONDITIONAL)


class LeakDecider(ABC, Generic[J, W]):
    """Decides label by label and turns bounds into verdicts."""

    def __init__(self) -> None:
        self.rows = RowBounds[W]()

    def decide(self, job: J, clock: Clock) -> list[Result]:
        """Return the results of one statement."""
        statement = job.statement.statement
        if isinstance(statement, Find):
            # Of several labels only the worst leak counts, unless each is asked about.
            asked = [job.labels]
            if statement.per_label:
                asked = [(label,) for label in job.labels]
            floor = floor_of(job.statement)
            every = [self.in_turn(job, labels, clock, floor, decide=False) for labels in asked]
            return [self.result(job, found) for found in every]
        floor = floor_of(job.statement)
        found = self.in_turn(job, job.labels, clock, floor, decide=True)
        return [self._guarantee(job, found, floor)]

    @abstractmethod
    def search(
        self, job: J, label: int, clock: Clock, floor: float, *, decide: bool
    ) -> SearchResult[W]:
        """Search the leaks of one label within the clock's share."""

    @abstractmethod
    def unsearched_result(self, job: J, label: int, detail: str) -> SearchResult[W]:
        """Return what is known of a label without a search."""

    @abstractmethod
    def result(self, job: J, found: Sequence[SearchResult[W]]) -> Result:
        """Return the joint result of some labels."""

    def in_turn(
        self, job: J, labels: tuple[int, ...], clock: Clock, floor: float, *, decide: bool
    ) -> list[SearchResult[W]]:
        """Search the leaks of some labels in turn and store each member's bounds."""
        found = in_turn(
            labels,
            lambda label, floor: self.search(job, label, clock, floor, decide=decide),
            lambda label: self.unsearched_result(job, label, "interrupted"),
            clock,
            floor=floor,
            decide=decide,
        )
        self.rows.take(job.question, found)
        return found

    def _guarantee(self, job: J, found: list[SearchResult[W]], floor: float) -> Result:
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


def finite(value: float) -> float | None:
    """Return a number as stored in a result: None if infinite."""
    return value if math.isfinite(value) else None


def _reason(result: SearchResult[W]) -> str:
    return f"{result.reason}: {result.detail}" if result.detail else str(result.reason)


_MOST_POINTS = 60
"""Moments that are kept."""

_SOONEST = 1e-3
"""Seconds: sooner moments are one to the eye."""

Moment = tuple[float, float, float]


class Trace:
    """The improving bounds of one search."""

    def __init__(self) -> None:
        self._moments: list[Moment] = []

    def add(self, progress: Progress) -> None:
        """Add a report, unless it says nothing new."""
        self._add(progress.seconds, progress.lower, progress.upper)

    def record(self, result: SearchResult[Any]) -> TraceRecord | None:
        """Return the stored bounds up to the result; None if there are too few.

        If an earlier bound turned out to be wrong, none is returned.
        """
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


_SHARE = 0.04
"""Share of the time left that a look may take ..."""

_MOST_SECONDS = 10.0
"""... and seconds."""


def quick_bounds(
    instance: Instance, label: int, options: NativeOptions, left: float | None
) -> EngineResult | None:
    """Bound a label's leaks by propagation, and attack it for a few seconds."""
    question = Leaks(instance, label)
    if not question.opens_slowly:
        return None
    begun = time.perf_counter()
    deadline = Deadline.after(_MOST_SECONDS if left is None else min(_MOST_SECONDS, _SHARE * left))
    witness = question.first(options, deadline)
    known = propagation_result(instance, label, "it was only looked at")
    return replace(
        known,
        lower=0.0 if witness is None else witness.confidence,
        witness=witness,
        closed=known.closed and witness is None,
        seconds=time.perf_counter() - begun,
        leaks=question.leaks,
    )


def propagation_result(instance: Instance, label: int, detail: str) -> EngineResult:
    """Return what propagation proves, with the reason it is not closed."""
    most = max(0.0, instance.most(label))
    everyone = np.full(len(instance.family), most)
    return EngineResult(label, 0.0, most, None, most == 0, "time", detail, everyone, 0, 0.0)
