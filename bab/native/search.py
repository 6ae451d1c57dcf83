"""Search for the answer of a question: explorers bound it above, attacks below."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

import numpy as np

from leaveout.arrays import Floats
from leaveout.bab.native.explorer import Group
from leaveout.bab.native.files.checkpoint import Checkpoint
from leaveout.bab.native.files.records import Record
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.question import NOTHING, Finding, Hint, Question
from leaveout.bab.native.workers.coordinator import Coordinator
from leaveout.bab.native.workers.pool import Executor, WorkerLostError, make_executor
from leaveout.bab.native.workers.worker import FailedError, Saved, WorkerState
from leaveout.bab.result import Progress, ProgressCallback, Reason, SearchResult
from leaveout.deadline import NEVER, Deadline, OverdueError

_ROUNDED = 0.01
"""Largest relative gap that is attributed to float32 evaluation and counts as closed."""


@dataclass(frozen=True, eq=False)
class Criterion:
    """The condition under which the bounds of a question suffice."""

    question: Question[Any]
    floor: float  # counter-examples up to this value do not matter
    decide: bool  # whether one above the floor suffices
    gap: float  # relative gap at which bounds agree
    room: float = 0.0

    @property
    def cut(self) -> float:
        """Bound below which no node needs tightening, whatever else is found."""
        return max(self.floor - (self.room if self.decide else 0.0), NOTHING)

    @property
    def least(self) -> float:
        """Lower bound known without a counter-example.

        If, for example, values of 0 matter, a lower bound of 0 is not known without one.
        """
        return min(self.question.least, self.cut) if self.decide else self.question.least

    def target(self, lower: float) -> float:
        """Return the float32 value below which bounds need not be tightened."""
        if self.decide:
            return self.cut
        # Slightly lower, so that a bound at the target agrees with the lower one.
        enough = self.question.enough(lower, self.gap)
        return max(self.cut, enough - 1e-12 * abs(enough))

    def is_met(
        self, found: Finding | None, upper: float, rounding: Callable[[], float], *, at: float
    ) -> bool:
        """Return whether there is no more to find, or the bounds agree."""
        if upper <= max(at, self.least, NOTHING):
            return True
        if found is None:
            return False
        if self.decide:
            return found.value > self.floor
        if math.isinf(upper):
            return False
        enough = self.question.enough(found.value, self.gap)
        gap = upper - found.value
        return upper <= enough or (gap <= _ROUNDED * abs(upper) and gap <= rounding())


def displayed_upper(upper: float) -> float:
    """Return an upper bound; minus infinity if there is no counter-example at all."""
    return upper if upper > NOTHING else -math.inf


W = TypeVar("W", bound=Finding)

_CLOSED, _ENOUGH = 4.0, 2.0
"""Multiples of the float32 rounding error at which a gap counts as closed, and ends a search."""


class Enclosure(Generic[W]):
    """The best counter-example found, and the bounds proved for all."""

    def __init__(self, criterion: Criterion, *, reported: bool) -> None:
        self.criterion, self._question, self._reported = criterion, criterion.question, reported
        self.witness: W | None = None
        self.contradicted = False
        self.proved, self.cut = math.inf, -math.inf
        self._most = self._question.most
        self.before = np.full(self._question.members, self._most)
        self._near: float | None = None

    @property
    def lower(self) -> float:
        """Value of the best counter-example, or the lower bound known without one."""
        return self.witness.value if self.witness else self.criterion.least

    @property
    def upper(self) -> float:
        """Upper bound of all counter-examples, as computed in float32."""
        before = math.inf if self._reported else float(self.before.max())
        return max(self.lower, min(self.proved, before))

    @property
    def rounding(self) -> float:
        """Largest effect of float32 evaluation on a bound, near the best counter-example."""
        if self.witness is None:
            return self._question.rounding
        if self._near is None:
            # Only here, since it takes long for large networks, and not at all for a decision.
            near = self._question.rounding_near(self.witness)
            # What is not known in time closes no gap.
            self._near = near if math.isfinite(near) else 0.0
        return self._near

    @property
    def target(self) -> float:
        """The float32 value below which bounds need not be tightened."""
        return self.criterion.target(self.lower)

    @property
    def is_settled(self) -> bool:
        """Whether there is no more to find."""
        return self._is_met(self.upper, _ENOUGH, self.criterion.cut)

    @property
    def is_exactly_settled(self) -> bool:
        """Whether there is no more to find, without allowance for rounding."""
        return self._is_met(self.upper, 0.0, self.criterion.cut)

    def is_closed_by(self, upper: float) -> bool:
        """Return whether an upper bound answers the question."""
        return self._is_met(upper, _CLOSED, self.criterion.floor)

    def _is_met(self, upper: float, times: float, at: float) -> bool:
        return self.criterion.is_met(self.witness, upper, lambda: times * self.rounding, at=at)

    def verdict(
        self, upper: float, stopped: tuple[Reason, str] | None
    ) -> tuple[bool, Reason | None, str]:
        """Return whether the question is settled; otherwise a reason and a sentence."""
        if self.contradicted:
            return (
                False,
                "numerical",
                "a replayed counter-example exceeds a bound; please report this",
            )
        if self.is_closed_by(upper):
            return True, None, ""
        if stopped is not None:
            return False, *stopped
        return (
            False,
            "numerical",
            (f"float32 rounding may change the requested value by {self.rounding:.2g}"),
        )

    def assume(self, before: Floats) -> None:
        """Adopt the bounds proved earlier for each member."""
        self.before = np.minimum(self.before, before)

    def recall(self, saved: Saved) -> None:
        """Adopt the bounds proved by a resumed search."""
        self.assume(saved.before)
        self.proved, self.cut = saved.proved, saved.cut

    def keep(self, found: W | None) -> None:
        """Record a counter-example."""
        if found is None:
            return
        if found.value > self.before[found.member]:
            # An earlier bound is wrong; none of the earlier bounds is used any more.
            self.contradicted = True
            self.before[:] = self._most
            self.proved = math.inf
        if self.witness is None or found.value > self.witness.value:
            self.witness, self._near = found, None

    def prove(self, value: float) -> None:
        """Record a bound that workers proved for all members; it stays valid."""
        self.cut = max(self.cut, self.target)
        self.proved = min(self.proved, max(value, self.cut))

    def bounds(self, values: Floats) -> tuple[float, Floats]:
        """Return the upper bounds: of all members, and of each."""
        members = np.minimum(np.minimum(self.before, values), self.proved)
        members = np.maximum(members, self.criterion.least)
        if self.witness is not None and self.witness.value > members[self.witness.member]:
            self.contradicted = True
        if self.contradicted:
            members[:] = max(self._most, self.criterion.least)
        upper = max(self.lower, float(members.max()))
        if self._reported:
            # Workers may know more than what they have reported.
            upper = max(upper, min(self.proved, float(self.before.max())))
        return upper, members


class Stop(StrEnum):
    """Why a search ended; the first reason that applies counts."""

    INTERRUPTED = "interrupted"
    FAILED = "failed"
    LATE = "late"
    NODES = "nodes"

    def why(self, options: NativeOptions, failure: str) -> tuple[Reason, str]:
        """Return the reason for the result, and a sentence about it."""
        match self:
            case Stop.INTERRUPTED:
                return "time", "interrupted"
            case Stop.FAILED:
                return "solver", failure
            case Stop.LATE:
                return "time", f"stopped after its share of {options.seconds:.4g} s"
            case Stop.NODES:
                return "time", f"stopped after {options.nodes} nodes"


_FIRST = 0.2  # share of a search's time for an attack before bounding
_FOLLOWING = 0.25  # share of the time so far for following hints
_START = 0.1  # seconds of bounding before the first attack, if bounding comes first
_SHARE = 0.5  # share of the bounding time so far that each later attack may take
_AGAIN = 3.0  # factor by which bounding time must grow before the next attack


class Seeking(Generic[W]):
    """Division of a search's time between bounding and attacks, with the results."""

    def __init__(
        self, question: Question[W], options: NativeOptions, known: Enclosure[W], deadline: Deadline
    ) -> None:
        self._question, self._options, self._known = question, options, known
        self._deadline, self._started = deadline, time.perf_counter()
        self.done = question.seeks_first
        self.explored = self._spent = 0.0
        self._next = _START

    @property
    def first_share(self) -> Deadline:
        """Deadline of an attack before bounding."""
        if self._options.seconds is None:
            return self._deadline
        return Deadline.after(_FIRST * self._options.seconds, self._started)

    def sample(self) -> None:
        """Evaluate only samples, which takes almost no time."""
        self._known.keep(self._question.first(self._options, Deadline.after(0.0)))

    def attack(self, limit: Deadline) -> None:
        """Attack once, anywhere, until a deadline."""
        self.done = True
        if not self._known.is_settled:
            self._anywhere(limit)

    def backing_off(self) -> bool:
        """Attack anywhere if it is time, each time longer than before."""
        if self.done or self.explored < self._next:
            return False
        begun = time.perf_counter()
        limit = Deadline.after(min(_SHARE * self.explored, self._deadline.seconds_left))
        self._anywhere(limit)
        self.done = not limit.over
        self._next = _AGAIN * self.explored
        self._spent += time.perf_counter() - begun
        return True

    def follow(self, hints: list[Hint]) -> None:
        """Ascend from the explorers' highest bounds, as long as this has taken little time."""
        if self._spent <= _FOLLOWING * (self.explored + self._spent):
            self._ascend(hints, self._known.target)

    def follow_all(self, hints: list[Hint]) -> None:
        """Ascend from all hints without a limit, since only rounding keeps bounds open."""
        self._ascend(hints, self._known.lower)

    def _ascend(self, hints: list[Hint], above: float) -> None:
        begun = time.perf_counter()
        hints = [hint for hint in hints if hint.value > above]
        if hints:
            self._known.keep(self._question.follow(hints, self._known.lower, self._deadline))
        self._spent += time.perf_counter() - begun

    def _anywhere(self, limit: Deadline) -> None:
        asked = self._known.criterion
        # For a decision, any counter-example above the floor suffices.
        enough = asked.floor if asked.decide else math.inf
        self._known.keep(self._question.first(self._options, limit, enough))


_ROUND = 1.0  # seconds that explorers work before they report

_LEAST_GRACE = 0.5
_GRACE = 0.02
"""Seconds, and share of the time, that workers may be late before their work is abandoned."""


def search_question(
    question: Question[W],
    options: NativeOptions,
    *,
    floor: float,
    decide: bool = False,
    known: SearchResult[W] | None = None,
    progress: ProgressCallback | None = None,
    checkpoint: Checkpoint | None = None,
    proofs: Callable[[list[Record]], None] | None = None,
    groups: Callable[[list[Group]], None] | None = None,
    executor: Executor | None = None,
) -> SearchResult[W]:
    """Bound the largest value of a counter-example, from both sides."""
    with _executor_context(executor, options) as lent:
        made = NativeSearch(
            question, options, lent, floor=floor, decide=decide, known=known, progress=progress,
            checkpoint=checkpoint, grouping=groups is not None,
        )  # fmt: skip
        result = made.run()
    if groups is not None:
        groups(made.groups)
    if proofs is not None:
        proofs(made.records)
    return result


def _executor_context(
    executor: Executor | None, options: NativeOptions
) -> AbstractContextManager[Executor]:
    """Return a context of the given executor, or of a new one that is closed at the end."""
    return closing(make_executor(options)) if executor is None else nullcontext(executor)


class NativeSearch(Generic[W]):
    """The state of one search.

    The bound depends on open nodes and cuts. Bounds proved between rounds are kept, so they survive
    interrupts, errors and lost workers.
    """

    def __init__(
        self,
        question: Question[W],
        options: NativeOptions,
        executor: Executor,
        *,
        floor: float = 0.0,
        decide: bool = False,
        known: SearchResult[W] | None = None,
        progress: ProgressCallback | None = None,
        checkpoint: Checkpoint | None = None,
        grouping: bool = False,
    ) -> None:
        self.question, self.options, self.executor = question, options, executor
        self.started = time.perf_counter()
        self.deadline = Deadline.after(options.seconds, self.started)
        room = question.room.below(floor) if decide and options.certificate else 0.0
        self.known: Enclosure[W] = Enclosure(
            Criterion(question, floor=floor, decide=decide, gap=options.gap, room=room),
            reported=options.certificate,
        )
        self.progress, self.checkpoint, self.grouping = progress, checkpoint, grouping
        self.stop: Stop | None = None
        self.failure = ""
        self.groups: list[Group] = []
        self.earlier: list[Record] = []
        self.earlier_seconds = 0.0
        self.coordinator: Coordinator | None = None
        self.values = np.full(question.members, math.inf)
        self.seeking = Seeking(question, options, self.known, self.deadline)
        if known is not None:
            self.known.assume(known.member_upper)
            self.known.keep(known.witness)

    @property
    def records(self) -> list[Record]:
        """Records for a certificate, if one is requested."""
        return self.earlier + (self.coordinator.records if self.coordinator else [])

    def run(self) -> SearchResult[W]:
        """Search until the question is settled, time is up, or Ctrl-C."""
        if self.checkpoint is not None:
            finished = self.checkpoint.load_result(self.question)
            if finished is not None:
                result, self.earlier = finished
                return result
        try:
            try:
                self._search()
            except KeyboardInterrupt:
                self.stop = Stop.INTERRUPTED
            except OverdueError:
                self.stop = Stop.LATE
            except (WorkerLostError, MemoryError) as error:
                self._fail(error)
            answering = self._collect()
            result = self._result()
            self._conclude(result, answering)
            if answering:
                self._group(result)
        except KeyboardInterrupt:
            self.stop = Stop.INTERRUPTED
            result = self._result()
        finally:
            if self.coordinator is not None:
                self.coordinator.close()
        return result

    def _search(self) -> None:
        saved = self.checkpoint.load() if self.checkpoint is not None else None
        if saved is not None:
            self._recall(saved)
        self._tell()
        if saved is None and self.question.seeks_first:
            if self.question.opens_slowly and self.options.workers > 1:
                # Meanwhile, workers read the members.
                self.coordinator = self._make_coordinator()
            self._attack(self.seeking.first_share)
        elif saved is None and not self.known.is_settled:
            # Some lower bound is better than none.
            self._leave_if_late()
            self.seeking.sample()
        if self.known.is_settled:
            return
        if self.coordinator is None:
            self._leave_if_late()
            self.coordinator = self._make_coordinator()
        if saved is not None:
            self.coordinator.resume(saved, self.known.target)
            self.known.prove(self.coordinator.value)
        else:
            self.coordinator.start(self.known.target)
            self.known.prove(self.coordinator.value)
            self._tell()
            if not self.seeking.done and self.options.nodes is not None:
                # With a node limit, results must not depend on time.
                self._attack(self.seeking.first_share)
        self._explore(self.coordinator)

    def _leave_if_late(self) -> None:
        """Stop where bounding a wide network took all time; without any, roots are looked at."""
        if self.options.seconds:
            self.deadline.check()

    def _make_coordinator(self) -> Coordinator:
        return Coordinator(
            pool=self.executor.pool(self.question, self.options),
            members=self.question.members,
            checkpoint=self.checkpoint,
            records=self.options.certificate,
            deadline=self.deadline.later(max(_LEAST_GRACE, _GRACE * (self.options.seconds or 0.0))),
        )

    def _recall(self, saved: Saved) -> None:
        assert self.checkpoint is not None
        self.known.recall(saved)
        self.earlier, self.earlier_seconds = saved.records, saved.seconds
        self.known.keep(self.checkpoint.replay(saved.point, saved.member, self.question))

    def _attack(self, limit: Deadline) -> None:
        self.seeking.attack(limit)
        self._tell()

    def _explore(self, coordinator: Coordinator) -> None:
        rounds = 0
        while not self._over(coordinator):
            begun = time.perf_counter()
            seconds = min(_FIRST * (1 + rounds), _ROUND, self.deadline.seconds_left)
            together = coordinator.pool.size > 1 and rounds > 0
            coordinator.step(self.known.target, seconds, self._inform if together else _nothing)
            self.known.prove(coordinator.value)
            self.seeking.explored += time.perf_counter() - begun
            if coordinator.pool.size > 1:
                coordinator.share(self.known.target)
                self.known.prove(coordinator.value)
            if not together:
                self._follow(coordinator)
            if not self._over(coordinator) and self.seeking.backing_off():
                self._tell()
            self._save(coordinator)
            self._tell()
            rounds += 1
        if not self.seeking.done and self.stop is None and not self.known.contradicted:
            # All nodes are bounded, but the question is still open.
            self._attack(self.deadline)
            self._explore(coordinator)
        elif self.stop is None and not self.known.is_exactly_settled:
            # A gap within rounding error may have another cause.
            self.seeking.follow_all(coordinator.hints)

    def _inform(self) -> None:
        """Ascend from the latest hints while workers explore; send them any better target."""
        assert self.coordinator is not None
        self._follow(self.coordinator)
        self.coordinator.pool.tell(self.known.target)

    def _save(self, coordinator: Coordinator, *, at_once: bool = False) -> None:
        if (
            self.checkpoint is None
            or self.known.contradicted
            or not (at_once or self.checkpoint.due())
        ):
            return
        witness = self.known.witness

        def make(states: list[WorkerState], records: list[Record]) -> Saved:
            return Saved(
                point=self.question.witness_point(witness) if witness else None,
                member=witness.member if witness else -1,
                before=self.known.before,
                proved=self.known.proved,
                cut=self.known.cut,
                seconds=self._seconds,
                states=states,
                records=self.earlier + records,
            )

        coordinator.save(make)

    @property
    def _seconds(self) -> float:
        return self.earlier_seconds + time.perf_counter() - self.started

    def _follow(self, coordinator: Coordinator) -> None:
        if not self._over(coordinator):
            self.seeking.follow(coordinator.hints)

    def _over(self, coordinator: Coordinator) -> bool:
        saving = self.checkpoint.cost if self.checkpoint is not None else 0.0
        self.stop = None
        if self.deadline.seconds_left <= saving:
            self.stop = Stop.LATE
        elif self.options.nodes is not None and coordinator.bounded_nodes >= self.options.nodes:
            self.stop = Stop.NODES
        given_up = self.stop is not None or self.known.contradicted
        return given_up or self.known.is_settled or not coordinator.worth_going_on

    def _fail(self, error: Exception) -> None:
        if self.stop is not Stop.INTERRUPTED:
            self.stop, self.failure = Stop.FAILED, str(error) or "out of memory"

    def _collect(self) -> bool:
        """Collect each member's bounds from the workers; return whether they respond."""
        # Before the first reports, some workers may not have their nodes yet.
        if self.coordinator is None or not self.coordinator.reports or self.stop is Stop.FAILED:
            return False
        try:
            self.values = self.coordinator.values()
        except FailedError:
            # They respond, but without these bounds.
            return True
        except OverdueError:
            return False
        except (WorkerLostError, MemoryError) as error:
            self._fail(error)
            return False
        return True

    def _conclude(self, result: SearchResult[W], answering: bool) -> None:
        """Save the result, or the current state."""
        if self.checkpoint is None:
            return
        if self.known.contradicted:
            self.checkpoint.discard()
        elif result.closed or result.reason == "numerical":
            self.checkpoint.finish(self.question, result, self.records)
        elif self.coordinator is not None and answering:
            self.coordinator.deadline = NEVER
            with suppress(FailedError):
                self._save(self.coordinator, at_once=True)

    def _group(self, result: SearchResult[W]) -> None:
        """Group the members that the bound depends on, if possible."""
        coordinator = self.coordinator
        if not self.grouping or coordinator is None or self.question.members < 2:
            return
        if self.known.contradicted or self.stop is Stop.INTERRUPTED:
            return
        late = self.stop is Stop.LATE
        with suppress(FailedError, OverdueError, WorkerLostError, MemoryError):
            self.groups = coordinator.groups(result.member_upper, self.known.lower, late)

    def _tell(self) -> None:
        if self.progress is None:
            return
        coordinator = self.coordinator
        self.progress(
            Progress(
                label=self.question.label,
                lower=max(self.known.lower, self.question.least),
                upper=max(displayed_upper(self.known.upper), self.question.least),
                open_sets=coordinator.open_nodes if coordinator else 0,
                solved=coordinator.bounded_nodes if coordinator else 0,
                seconds=self._seconds,
                remaining=self.deadline.limit,
            )
        )

    def _result(self) -> SearchResult[W]:
        upper, member_upper = self.known.bounds(self.values)
        stopped = self.stop.why(self.options, self.failure) if self.stop is not None else None
        closed, reason, detail = self.known.verdict(upper, stopped)
        return SearchResult(
            label=self.question.label,
            lower=self.known.lower,
            upper=displayed_upper(upper),
            witness=self.known.witness,
            closed=closed,
            reason=reason,
            detail=detail,
            member_upper=member_upper,
            solved=self.coordinator.bounded_nodes if self.coordinator else 0,
            seconds=self._seconds,
            interrupted=self.stop is Stop.INTERRUPTED,
            contradicted=self.known.contradicted,
        )


def _nothing() -> None:
    """Do nothing between rounds of one worker, which uses all cores."""
