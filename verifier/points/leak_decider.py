"""From the labels of a statement about leaks to its results, for any model."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from msgspec import structs

from leaveout.bab import Progress, SearchResult, agree
from leaveout.specs import Find
from leaveout.verifier.points.leak_statements import IdpStatement
from leaveout.verifier.points.row_bounds import Leak, RowBounds
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
