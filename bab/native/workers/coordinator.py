"""Coordination of workers: who has which nodes, and recovery when a worker dies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from leaveout.arrays import Floats
from leaveout.bab.native.explorer import Group
from leaveout.bab.native.files.checkpoint import Checkpoint
from leaveout.bab.native.files.records import Record, Table
from leaveout.bab.native.question import Hint
from leaveout.bab.native.workers.pool import WorkerLostError, WorkerPool, gather
from leaveout.bab.native.workers.worker import Report, Saved, WorkerState
from leaveout.deadline import Deadline

_LIVES = 3  # deaths after which dead workers are not replaced any more
_NAMED = 2**40  # more than the number of nodes that any worker names
_SHARED = 4096  # most nodes handed over at once

Deed = Callable[[int], None]


class Coordinator:
    """The pool of one search.

    Each open node always belongs to a worker, which still counts nodes it hands over until the
    other one has them. If a worker dies, its replacement receives its nodes.
    """

    def __init__(
        self,
        pool: WorkerPool,
        members: int,
        checkpoint: Checkpoint | None,
        records: bool,
        deadline: Deadline,
    ) -> None:
        self.pool, self.checkpoint, self.deadline = pool, checkpoint, deadline
        self.reports: list[Report] = []
        self._lives = 0 if records else _LIVES
        self._in_hand: list[list[Deed]] = [[] for _ in range(pool.size)]
        self._settled = np.full(members, -math.inf)
        self._least = -math.inf
        self._heard: dict[tuple[int, int], list[Record]] = {}
        self._free = 0

    @property
    def value(self) -> float:
        """Largest value of an open or an unresolved node."""
        stands = (report.stand.value for report in self.reports)
        return max(self._least, *stands) if self.reports else math.inf

    @property
    def open_nodes(self) -> int:
        """The number of open nodes."""
        return sum(report.stand.open_nodes for report in self.reports)

    @property
    def bounded_nodes(self) -> int:
        """The number of nodes bounded so far."""
        return sum(report.stand.bounded for report in self.reports)

    @property
    def worth_going_on(self) -> bool:
        """Whether any worker has a node that could lower its value."""
        return any(report.stand.worth_going_on for report in self.reports)

    @property
    def hints(self) -> list[Hint]:
        """Hints from the last reports on where counter-examples may be."""
        return [hint for report in self.reports for hint in report.hints]

    @property
    def records(self) -> list[Record]:
        """The records of all reports."""
        return [record for records in self._heard.values() for record in records]

    def start(self, target: float) -> None:
        """Bound the roots, and distribute the nodes below them."""

        def begin(worker: int) -> None:
            self._hear(worker, self._ask_once(worker, "start", target))

        self._in_hand[0] = [begin]
        self._do(0, begin)
        self._report(target)

    def resume(self, saved: Saved, target: float) -> None:
        """Resume a search from its saved state."""
        self._free = max(state.names for state in saved.states)
        for worker in range(self.pool.size):
            sources = range(worker, len(saved.states), self.pool.size)
            self._in_hand[worker] = [partial(self._load, sources)]
            self._do(worker, self._in_hand[worker][0])
        self._report(target)

    def step(self, target: float, seconds: float, meanwhile: Callable[[], None]) -> None:
        """Let all workers explore for some seconds; run ``meanwhile`` in the meantime."""
        futures = [
            self.pool.call(worker, "step", target, seconds) for worker in range(self.pool.size)
        ]
        meanwhile()
        reports = []
        for worker, future in enumerate(futures):
            try:
                reports += gather([future], self.deadline)
            except WorkerLostError as lost:
                self._replace(lost)
                reports.append(self._ask(worker, "step", target, 0.0))
            self._hear(worker, reports[-1])
        self.reports = reports

    def share(self, target: float) -> None:
        """Give idle workers nodes from the one with the most."""
        for worker, report in enumerate(self.reports):
            if report.stand.open_nodes:
                continue
            if self._in_hand[worker]:
                self._release(worker)
            richest = max(range(self.pool.size), key=lambda w: self.reports[w].stand.open_nodes)
            count = min(self.reports[richest].stand.open_nodes // 2, _SHARED)
            if not count:
                continue
            table = self._ask(richest, "give", count)
            if len(table):
                take = partial(self._add, table)
                self._in_hand[worker].append(take)
                self._do(worker, take)
            self._ask(richest, "forget")
            self._report(target)

    def values(self) -> Floats:
        """Return each member's upper bound on leaks; minus infinity for none."""
        known = [self._ask(worker, "member_values") for worker in range(self.pool.size)]
        for worker in range(self.pool.size):
            # A step interrupted by Ctrl-C before its answer was read.
            self._hear(worker, self._ask(worker, "last"))
        return np.asarray(np.maximum.reduce([self._settled, *known]))

    def groups(self, known: Floats, enough: float, late: bool) -> list[Group]:
        """Group members by similarity; see `Worker.groups`."""
        found: list[Group] = self._ask(0, "groups", known, enough, late)
        return found

    def save(self, make: Callable[[list[WorkerState], list[Record]], Saved]) -> None:
        """Save all states, with the rest made by ``make``; skip this if a worker dies."""
        if self.checkpoint is None:
            return
        try:
            states = [self._ask_once(w, "save") for w in range(self.pool.size)]
            # Values settled by workers that have since dropped the nodes are saved with the first
            # state.
            closed = np.maximum(states[0].closed, self._settled)
            unresolved = max(states[0].unresolved, self._least)
            states[0] = replace(states[0], closed=closed, unresolved=unresolved)

            def tables(worker: int, number: int) -> Table:
                return self._ask_once(worker, "block", number)  # type: ignore[no-any-return]

            self.checkpoint.save(make(states, self.records), tables)
            for worker in range(self.pool.size):
                # From now on, a replacement loads its nodes from the file.
                self._in_hand[worker] = [partial(self._load, range(worker, worker + 1))]
                self._ask_once(worker, "end_save")
        except WorkerLostError:
            # The next call of this worker notices it again and replaces it.
            return

    def close(self) -> None:
        """Release the workers."""
        self.pool.close()

    def _report(self, target: float) -> None:
        """Collect a report from every worker."""
        reports = []
        for worker in range(self.pool.size):
            reports.append(self._ask(worker, "step", target, 0.0))
            self._hear(worker, reports[-1])
        self.reports = reports

    def _hear(self, worker: int, report: Report | None) -> None:
        if report is not None and report.records:
            self._heard[worker, report.number] = report.records

    def _release(self, worker: int) -> None:
        """Keep the values settled by an idle worker, and clear its list of nodes to restore."""
        closed = self._ask(worker, "settled_values")
        self._settled = np.maximum(self._settled, closed)
        self._least = max(self._least, self.reports[worker].stand.value)
        self._in_hand[worker] = []

    def _add(self, table: Table, worker: int) -> None:
        self._ask_once(worker, "add", table)

    def _load(self, sources: range, worker: int) -> None:
        """Give a worker some of the checkpoint's states, possibly none."""
        assert self.checkpoint is not None
        states, tables = self.checkpoint.states(), self.checkpoint.table
        self._ask_once(worker, "rename", self._free)
        for source in sources:
            if source >= len(states):
                break
            state = states[source]
            self._ask_once(worker, "load", state)
            for number in range(state.blocks):
                self._ask_once(worker, "add", tables(source, number))

    def _ask_once(self, worker: int, method: str, *arguments: Any) -> Any:
        return gather([self.pool.call(worker, method, *arguments)], self.deadline)[0]

    def _ask(self, worker: int, method: str, *arguments: Any) -> Any:
        """Call a worker's method; replace the worker if it died."""
        while True:
            try:
                return self._ask_once(worker, method, *arguments)
            except WorkerLostError as lost:
                self._replace(lost)

    def _do(self, worker: int, deed: Deed) -> None:
        """Give a worker nodes just recorded as its own; a replacement already has them."""
        try:
            deed(worker)
        except WorkerLostError as lost:
            self._replace(lost)

    def _replace(self, lost: WorkerLostError) -> None:
        """Replace a dead worker by a new one with the same nodes."""
        while True:
            if not self._lives:
                raise lost
            self._lives -= 1
            try:
                self.pool.revive(lost.worker)
                # Others still have nodes named by the dead worker.
                self._free += _NAMED
                self._ask_once(lost.worker, "rename", self._free)
                for deed in self._in_hand[lost.worker]:
                    deed(lost.worker)
                return
            except WorkerLostError as again:
                lost = again
