"""LUCID's Algorithm 1: branch and bound over sets of members, one MILP per set."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.attack.leak_attack import find_leak, improve
from leaveout.bab.attack.refine import better
from leaveout.bab.instance import Instance
from leaveout.bab.lucid.clustering import features, partition
from leaveout.bab.lucid.options import LucidOptions
from leaveout.bab.lucid.sets import Bounded, MemberSet, bound_set
from leaveout.bab.lucid.solver_pool import SolverPool
from leaveout.bab.result import EngineResult, Progress, ProgressCallback, Reason, agree
from leaveout.bab.witness import Replayer, Witness
from leaveout.deadline import Deadline
from leaveout.models import confidence

_TICK = 0.25
_USED = 0.95
_ROUNDED = 0.01
"""Largest relative gap that is put down to float32 evaluation and still called closed."""


def search(
    instance: Instance,
    label: int,
    options: LucidOptions,
    *,
    floor: float = 0.0,
    decide: bool = False,
    known: EngineResult | None = None,
    progress: ProgressCallback | None = None,
) -> EngineResult:
    """Bound the largest confidence of a leak with one label, from both sides."""
    return _Search(instance, label, options, floor, decide, known, progress).run()


class _Search:
    """The state of one search; every member is in exactly one set.

    The upper bound rests only on ``member_upper``, which falls only to proved values, so it holds
    at any interrupt.
    """

    def __init__(
        self,
        instance: Instance,
        label: int,
        options: LucidOptions,
        floor: float,
        decide: bool,
        known: EngineResult | None,
        progress: ProgressCallback | None,
    ) -> None:
        self.instance, self.label, self.options = instance, label, options
        self.asked, self.decide, self.progress = floor, decide, progress
        self.started = time.perf_counter()
        self.deadline = Deadline.after(options.seconds, self.started)
        self.replayer = Replayer(instance)
        self.witness: Witness | None = None
        self.solved = 0
        self.interrupted = self.contradicted = False
        self.settled = -math.inf
        self.order = itertools.count()
        self.leaks = np.full(len(instance.family), -math.inf)
        self.most = instance.most(label, matching=options.variant.encoding.matching)
        self.member_upper = np.full(len(instance.family), self.most)
        if known is not None:
            self.member_upper = np.minimum(self.member_upper, known.member_upper)
            self._keep(known.witness)
        self.waiting: list[MemberSet] = self._roots()
        self.running: dict[Future[Bounded], MemberSet] = {}
        self.queue: list[tuple[float, int, MemberSet]] = []
        self.final: list[MemberSet] = []

    def _roots(self) -> list[MemberSet]:
        variant = self.options.variant
        everyone = np.arange(len(self.instance.family), dtype=np.int64)
        groups = [everyone] if variant.hyper else [everyone[i : i + 1] for i in everyone]
        encoding = replace(variant.encoding, tolerance=self.options.tolerance)
        limit = self.options.limit
        return [
            MemberSet(group, float(self.member_upper[group].max()), encoding, limit)
            for group in groups
        ]

    @property
    def lower(self) -> float:
        return self.witness.confidence if self.witness else 0.0

    @property
    def floor(self) -> float:
        """The confidence up to which leaks no longer matter."""
        known = self.witness is not None and self.options.witnesses
        return max(self.asked, self.lower) if known else self.asked

    @property
    def threshold(self) -> float:
        """The bound up to which sets need no work: a leak's or a final set's.

        The second is how Algorithm 1 bounds every set by that of a single member.
        """
        return max(self.floor, self.settled)

    def sets(self) -> Iterator[MemberSet]:
        yield from self.waiting
        yield from self.running.values()
        yield from (entry for _, _, entry in self.queue)
        yield from self.final

    @property
    def upper(self) -> float:
        return max(self.floor, float(self.member_upper.max()))

    def run(self) -> EngineResult:
        try:
            self._tell()
            if self.options.witnesses:
                limit = self.deadline
                if self.options.seconds is not None:
                    limit = Deadline.after(0.2 * self.options.seconds, self.started)
                self._keep(
                    find_leak(
                        self.instance,
                        self.label,
                        self.replayer,
                        seed=self.options.seed,
                        deadline=limit,
                    )
                )
            with SolverPool(self.options.solver, self.options.workers) as pool:
                while not self._is_done():
                    self._feed(pool)
                    if not self.running:
                        break
                    self._collect()
        except KeyboardInterrupt:
            self.interrupted = True
        return self._result()

    def _is_done(self) -> bool:
        """Return whether the search is over."""
        over = self.contradicted or self.deadline.over
        return over or self._is_refuted() or self._is_closed()

    def _is_refuted(self) -> bool:
        """Return whether a leak decides the question."""
        return self.decide and self.witness is not None and self.lower > self.asked

    def _is_closed(self) -> bool:
        """Return whether the question is answered.

        The gap is widened by float32 rounding, but to at most `_ROUNDED`.
        """
        upper = self.upper
        if upper <= self.asked:
            return True
        if self.decide or self.witness is None:
            return False
        rounding = min(_ROUNDED, 4 * self._rounding / upper)
        return agree(self.lower, upper, max(self.options.gap, rounding))

    @property
    def _rounding(self) -> float:
        return self.instance.network_error + self.instance.member_error

    def _feed(self, pool: SolverPool) -> None:
        """Give each free solver the set with the largest bound, branching if needed."""
        while len(self.running) < self.options.workers:
            if not self.waiting and not self._branch():
                return
            task = max(self.waiting, key=lambda entry: entry.upper)
            self.waiting.remove(task)
            if task.upper <= self.threshold:
                self.final.append(task)
                continue
            # A little less than what is left, so that the dual bound still arrives.
            timed = replace(
                task, limit=max(0.1, min(task.limit, _USED * self.deadline.seconds_left))
            )
            call = partial(bound_set, self.instance, timed, self.label, self.floor)
            self.running[pool.submit(call)] = task

    def _branch(self) -> bool:
        """Move the queue's first set or its parts to the waiting; False if none can."""
        while self.queue:
            _, _, entry = heapq.heappop(self.queue)
            refined = self._refine(entry) if entry.upper > self.threshold else []
            if refined:
                self.waiting += refined
                return True
            if entry.upper > self.threshold:
                self.settled = entry.upper
            self.final.append(entry)
        return False

    def _refine(self, entry: MemberSet) -> list[MemberSet]:
        options = self.options
        if len(entry.members) > 1:
            if not options.variant.branch:
                return []
            rows = features(self.instance.members, entry.members)
            groups = partition(rows, entry.members, options.seed)
            fresh = replace(entry, state="fresh", limit=options.limit)
            return [replace(fresh, members=group) for group in groups]
        if not options.tighten or not options.variant.branch:
            return []
        if entry.state == "relaxed":
            exact = replace(entry.encoding, relax_if_similar=None)
            return [replace(entry, state="fresh", encoding=exact)]
        if entry.state == "stopped" and options.seconds is not None:
            return [replace(entry, state="fresh", limit=2 * entry.limit)]
        return []

    def _collect(self) -> None:
        tick = min(_TICK, self.deadline.seconds_left)
        finished, _ = wait(self.running, timeout=tick, return_when=FIRST_COMPLETED)
        for future in finished:
            task = self.running.pop(future)
            bounded = future.result()
            self.solved += bounded.solved
            if bounded.point is not None and self.options.witnesses:
                self._try(bounded.point, task)
            entry = self._trusted_set(bounded.result, task)
            if not self.contradicted:
                known = self.member_upper[entry.members]
                self.member_upper[entry.members] = np.minimum(known, entry.upper)
            heapq.heappush(self.queue, (-entry.upper, next(self.order), entry))
        self._tell()

    def _trusted_set(self, found: MemberSet, task: MemberSet) -> MemberSet:
        """Return a bound as found, or the old one if a leak contradicts it."""
        # Later calls of an unlimited set keep the limit they were given, not what was left.
        entry = replace(found, limit=task.limit)
        if self.leaks[found.members].max() <= found.upper:
            return entry
        self._contradict()
        return replace(entry, upper=task.upper, state="numerical")

    def _contradict(self) -> None:
        """Forget every bound, as the source of one wrong bound is distrusted."""
        self.contradicted = True
        self.member_upper[:] = self.most

    def _try(self, point: NDArray[np.float64], task: MemberSet) -> None:
        """Attack near a MILP's best point, with the member that leaks most there."""
        own = self.instance.network.stack.scores(point[None])[0, 0]
        if confidence(own, self.label) <= self.lower:
            return
        chunks = self.instance.members.chunks(task.members)
        scores = np.concatenate([stack.scores(point[None])[:, 0] for _, stack in chunks])
        weakest = int(np.argmin(confidence(scores, self.label)))
        member = int(task.members[weakest])
        self._keep(improve(self.instance, self.label, self.replayer, point, member))

    def _keep(self, found: Witness | None) -> None:
        if found is not None:
            self.leaks[found.member] = max(self.leaks[found.member], found.confidence)
            if found.confidence > self.member_upper[found.member]:
                self._contradict()
        self.witness = better(self.witness, found)

    def _tell(self) -> None:
        if self.progress is not None:
            self.progress(self._moment())

    def _moment(self) -> Progress:
        open_sets = sum(entry.upper > self.threshold for entry in self.sets())
        seconds = time.perf_counter() - self.started
        return Progress(
            self.label, self.lower, self.upper, open_sets, self.solved, seconds, self.deadline.limit
        )

    def _result(self) -> EngineResult:
        closed = self._is_refuted() or (self._is_closed() and not self.contradicted)
        reason, detail = (None, "") if closed else self._why()
        return EngineResult(
            self.label,
            self.lower,
            self.upper,
            self.witness,
            closed,
            reason,
            detail,
            np.maximum(self.member_upper, 0.0),
            self.solved,
            time.perf_counter() - self.started,
            self.interrupted,
            self.contradicted,
            self.replayer.worst(self.label),
        )

    def _why(self) -> tuple[Reason, str]:
        if self.contradicted:
            return "numerical", f"a replayed leak exceeds a bound that {self.options.solver} gave"
        if self.interrupted:
            return "time", "interrupted"
        if self.deadline.over:
            return "time", f"stopped after its share of {self.options.seconds:.4g} s"
        worst = max(self.sets(), key=lambda entry: entry.upper)
        if worst.state == "numerical":
            return "numerical", worst.detail
        if worst.state == "failed":
            return "solver", worst.detail
        if not self.decide and self.upper - self.lower <= 4 * self._rounding:
            return "numerical", f"float32 rounding may move confidences by {self._rounding:.2g}"
        if worst.state == "stopped":
            return "time", f"a problem was stopped after {worst.limit:g} s"
        if worst.state == "exact" and len(worst.members) == 1:
            return "numerical", "tolerances and rounding leave the rest of the gap open"
        return "solver", f"variant {self.options.variant.name} does not refine any further"
