"""The greatest confidence at which a forest and another or a member disagree."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.forests.exploring import DONE, FOUND, FULL, ascend_near, explore
from leaveout.bab.forests.layout import Frontier, Scratch, frontier, scratch
from leaveout.bab.forests.question import Question
from leaveout.bab.forests.witness import ForestWitness
from leaveout.bab.result import Progress, ProgressCallback, SearchResult, agree
from leaveout.deadline import Deadline

if TYPE_CHECKING:
    from leaveout.encoders.box import Box
    from leaveout.models.forest.family import ForestFamily
    from leaveout.models.forest.scored import ScoredForest


Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Codes = NDArray[np.int32]
Result = SearchResult[ForestWitness]

_SLOTS = 256
_BUDGETS = ((1, 0), (64, 2), (512, 2), (4096, 4))
"""Boxes for each member, and how many open splits a tree's bound follows, round by round."""
_GROWTH = 8
"""From then on each round has so many times the boxes of the one before."""
_ASCENTS = 64
"""Members near whose changes leaks are looked for first."""
_ROUNDS = 20
"""Passes over the thresholds that an input is near to."""
_MIXTURES = 128
"""Mixtures of inputs from which any leak is looked for."""
_STARTS = 16
"""Inputs from which leaks of a single other forest are looked for."""
_PART = 64
"""Members that a thread takes at a time."""
_LOOK = 0.05
"""Seconds between two looks at the clock."""
_TELL = 0.5
"""Seconds between two reports of progress."""


def search_forests(
    whole: ScoredForest,
    others: ForestFamily | ScoredForest,
    box: Box,
    label: int,
    *,
    floor: float = 0.0,
    decide: bool = False,
    seconds: float | None = None,
    gap: float = 1e-3,
    threads: int = 1,
    tries: Floats | None = None,  # shape (points, features)
    known: ForestWitness | None = None,
    progress: ProgressCallback | None = None,
    question: Question | None = None,
) -> Result:
    """Bound the greatest confidence of a leak of one label over other forests.

    A leak is an input and a member whose answer is not the forest's label, by
    `ScoredForest.probabilities` float for float.
    """
    start = time.perf_counter()
    question = question or Question.of(whole, others, box)
    deadline = Deadline.after(seconds, start)
    search = _Search(question, label, floor if decide else None, gap, deadline)
    if known is not None:
        search.add(known.x, known.member)
    return search.run(start, threads, search.ask(tries), progress)


class _Search:
    """The search of one label, run by several threads."""

    def __init__(
        self, question: Question, label: int, floor: float | None, gap: float, deadline: Deadline
    ) -> None:
        self.question, self.label, self.floor, self.gap = question, label, floor, gap
        self.deadline = deadline
        self.trees = question.trees(label)
        self.padding = question.padding()
        self.upper = np.full(question.members, question.most(self.trees))
        # Below 0, as a leak may have the confidence 0.
        self.cutoff = np.full(1, -0.5 if floor is None else floor)
        self.stop = np.zeros(1, np.int64)
        self.best: ForestWitness | None = None
        self.worst: dict[int, ForestWitness] = {}
        self.solved = 0
        self.told = -np.inf
        self.lock = threading.Lock()

    def add(self, x: Floats, member: int) -> None:
        """Store a leak if it is one and better than the known one."""
        witness = self.question.replay(x, member, self.label)
        if witness is None:
            return
        with self.lock:
            before = self.worst.get(member)
            if before is None or witness.confidence > before.confidence:
                self.worst[member] = witness
            if self.best is None or witness.confidence > self.best.confidence:
                self.best = witness
                value = witness.confidence
                if self.floor is None:
                    self.cutoff[0] = max(self.cutoff[0], value / (1.0 - self.gap))
                elif value > self.floor:
                    self.stop[0] = 1

    def ask(self, tries: Floats | None) -> Codes:
        """Evaluate a single other forest at inputs; return their cells."""
        question = self.question
        box = question.overlay.cells.box
        inside = np.zeros((0, box.dimension)) if tries is None else tries[box.contains(tries)]
        if not len(question.overlay.tree):
            return question.overlay.cells.codes(inside[:0])
        order = question.starts(inside, self.label, _STARTS)
        room = self._room()
        for x in inside[order]:
            self.add(x, 0)
            if self.stop[0] or self.deadline.over:
                break
            self._near(0, question.overlay.cells.codes(x[None]), room)
        if self.floor is not None and len(order):
            self._wander(inside, order, room)
        return question.overlay.cells.codes(inside)

    def _wander(self, X: Floats, order: Longs, room: Scratch) -> None:
        """Attack from mixtures of starts and other inputs."""
        cells, rng = self.question.overlay.cells, np.random.default_rng(0)
        for turn in range(_MIXTURES):
            if self.stop[0] or self.deadline.over:
                return
            first, second = X[order[turn % len(order)]], X[rng.integers(len(X))]
            taken = rng.random(len(first)) < rng.choice((0.05, 0.1, 0.2))
            mixed = cells.box.nearest(np.where(taken, second, first))
            self._near(0, cells.codes(mixed[None]), room)

    def run(
        self, start: float, threads: int, tries: Codes, progress: ProgressCallback | None
    ) -> Result:
        """Search until the bounds meet, time is up, or Ctrl-C."""
        interrupted = False
        with ThreadPoolExecutor(threads) as pool:
            try:
                self._rounds(pool, threads, start, tries, progress)
            except KeyboardInterrupt:
                interrupted = True
            finally:
                self.stop[0] = 1
        return self._result(time.perf_counter() - start, interrupted)

    def _rounds(
        self,
        pool: ThreadPoolExecutor,
        threads: int,
        start: float,
        tries: Codes,
        tell: ProgressCallback | None,
    ) -> None:
        members = np.arange(self.question.members)
        for turn in itertools.count():
            open_ = members[self.upper > self.cutoff[0]]
            if self.stop[0] or not len(open_):
                return
            order = open_[np.argsort(-self.upper[open_], kind="stable")]
            if turn == 1:
                heads = list(order[:_ASCENTS])[::-1]
                work = [pool.submit(self._ascend, heads, tries) for _ in range(threads)]
                self._wait(work, start, tell)
            size = 1024 if turn == 0 else _PART
            queue = [order[i : i + size] for i in range(0, len(order), size)][::-1]
            budget, levels = _BUDGETS[min(turn, len(_BUDGETS) - 1)]
            budget *= _GROWTH ** max(0, min(turn - len(_BUDGETS) + 1, 12))
            work = [pool.submit(self._explore, queue, budget, levels) for _ in range(threads)]
            self._wait(work, start, tell)

    def _wait(self, work: list[Future[None]], start: float, tell: ProgressCallback | None) -> None:
        """Wait for threads, watch the clock, and report."""
        left: set[Future[None]] = set(work)
        while left:
            if self.deadline.over:
                self.stop[0] = 1
            pause = min(_LOOK, max(self.deadline.seconds_left, 1e-3))
            finished, left = wait(left, timeout=pause, return_when=FIRST_COMPLETED)
            for each in finished:
                each.result()
            if tell is not None and time.perf_counter() - self.told >= _TELL:
                self.told = time.perf_counter()
                tell(self._moment(start))

    def _moment(self, start: float) -> Progress:
        upper = self._upper()
        return Progress(
            self.label, self._lower(), upper, int(np.count_nonzero(self.upper > self.cutoff[0])),
            self.solved, time.perf_counter() - start, self.deadline.limit,
        )  # fmt: skip

    def _ascend(self, members: list[np.int64], tries: Codes) -> None:
        """Attack near the changes of members while that may matter."""
        room = self._room()
        while not self.stop[0]:
            with self.lock:
                if not members:
                    return
                member = int(members.pop())
            if self.upper[member] > self.cutoff[0]:
                self._near(member, tries, room)

    def _near(self, member: int, cells: Codes, room: Scratch) -> None:
        question = self.question
        found = np.zeros(question.features, np.int32)
        value = ascend_near(
            self.trees, question.listed_rows, question.overlay.cells.most, member, _ROUNDS,
            1.0 if self.floor is None or self.floor > 0 else 0.0, cells, room, found,
        )  # fmt: skip
        if value >= 0:
            self.add(question.overlay.cells.input(found), member)

    def _room(self) -> Scratch:
        question = self.question
        return scratch(question.features, len(self.trees.roots) - 1, question.overlay.labels)

    def _explore(self, queue: list[Longs], budget: int, levels: int) -> None:
        """Search queued members until none is left that may matter."""
        front = frontier(_SLOTS, self.question.features, len(self.trees.roots) - 1)
        room = self._room()
        front.values[2] = self.padding
        while not self.stop[0]:
            with self.lock:
                if not queue:
                    break
                members = queue.pop()
            front = self._part(members, budget, levels, front, room)
        with self.lock:
            self.solved += int(front.state[3])

    def _part(
        self, members: Longs, budget: int, levels: int, front: Frontier, room: Scratch
    ) -> Frontier:
        cells = self.question.overlay.cells
        front.state[5] = 0
        while True:
            said = explore(
                self.trees, self.question.listed_rows, cells.most, members, budget, levels,
                self.cutoff, self.stop, self.upper, front, room,
            )  # fmt: skip
            if said == FOUND:
                member = int(front.state[2])
                self.add(cells.input(front.found), member)
                self._near(member, front.found[None], room)
            elif said == FULL:
                front = frontier(2 * len(front.upper), self.question.features,
                                 len(self.trees.roots) - 1, front)  # fmt: skip
            else:
                assert said == DONE or self.stop[0]
                return front

    def _lower(self) -> float:
        return 0.0 if self.best is None else self.best.confidence

    def _upper(self) -> float:
        upper = float(self.upper.max(initial=-np.inf))
        return upper if self.best is None else max(upper, self.best.confidence)

    def _result(self, seconds: float, interrupted: bool) -> Result:
        lower, upper = self._lower(), self._upper()
        if self.floor is None:
            closed = agree(lower, upper, self.gap) and (self.best is not None or upper < 0)
        else:
            closed = (self.best is not None and lower > self.floor) or upper <= self.floor
        return SearchResult(
            label=self.label, lower=lower, upper=upper, witness=self.best, closed=closed,
            reason=None if closed else "time", detail="" if closed else "it was not long enough",
            member_upper=self.upper, solved=self.solved, seconds=seconds, interrupted=interrupted,
            leaks=tuple(self.worst.values()),
        )  # fmt: skip
