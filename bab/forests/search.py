"""The greatest confidence at which a forest and another, or a member of a family, answer apart."""

from __future__ import annotations

import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.forests.exploring import DONE, FOUND, FULL, explore, measure
from leaveout.bab.forests.layout import Frontier, frontier, scratch
from leaveout.bab.forests.question import Question
from leaveout.bab.forests.witness import ForestWitness
from leaveout.bab.result import Progress, ProgressCallback, SearchResult, agree
from leaveout.deadline import Deadline

if TYPE_CHECKING:
    from leaveout.encoders.box import Box
    from leaveout.models.forest.family import ForestFamily
    from leaveout.models.forest.scored import ScoredForest

__all__ = ["search_forests"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Result = SearchResult[ForestWitness]

_LEVELS = 7
_SLOTS = 256
_BUDGET = 64
_GROWTH = 8
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
    tries: Floats | None = None,
    known: ForestWitness | None = None,
    progress: ProgressCallback | None = None,
    question: Question | None = None,
) -> Result:
    """Bound the greatest confidence of a leak of one label: where the others answer another.

    A leak is an input of the set, and a member, such that the whole forest answers the label and
    the member does not. Answers, confidences and ties are those of `ScoredForest.probabilities`,
    float for float.

    Parameters
    ----------
    whole : ScoredForest
    others : ForestFamily or ScoredForest
        Its leave-one-out family, or one other forest.
    box : Box
        The set of inputs.
    label : int
        Which of the whole forest's labels.
    floor : float
        With ``decide``, what a leak is to exceed; -1e-9 if any leak counts, also at a tie.
    decide : bool
        Only tell whether there is a leak above the floor.
    seconds : float, optional
    gap : float
        Relative gap at which to stop.
    threads : int
    tries : ndarray of float64, shape (points, features), optional
        Inputs to ask first; those outside the set are left out.
    known : ForestWitness, optional
        A leak that is known already.
    progress : callable, optional
        Called in this thread.
    question : Question, optional
        `Question.of` the same forests and box, where several labels are asked about.

    Returns
    -------
    SearchResult of ForestWitness
        Ctrl-C ends the search, with the bounds reached.

    Raises
    ------
    ForestError
        If the labels of one forest are numbers and those of the other texts.
    """
    start = time.perf_counter()
    question = question or Question.of(whole, others, box)
    search = _Search(question, label, floor if decide else None, gap, Deadline.after(seconds, start))
    if known is not None:
        search.add(known.x, known.member)
    return search.run(start, threads, tries, progress)


class _Search:
    """The search of one label, which threads take part in."""

    def __init__(
        self, question: Question, label: int, floor: float | None, gap: float, deadline: Deadline
    ) -> None:
        self.question, self.label, self.floor, self.gap = question, label, floor, gap
        self.deadline = deadline
        self.trees = question.trees(label)
        self.padding = question.padding()
        self.upper = np.full(question.members, np.inf)
        # Below 0, as a leak may have the confidence 0.
        self.cutoff = np.full(1, -0.5 if floor is None else floor)
        self.stop = np.zeros(1, np.int64)
        self.best: ForestWitness | None = None
        self.solved = 0
        self.lock = threading.Lock()

    def add(self, x: Floats, member: int) -> None:
        """Take in a leak, if it is one and none better is known."""
        witness = self.question.replay(x, member, self.label)
        if witness is None:
            return
        with self.lock:
            if self.best is None or witness.confidence > self.best.confidence:
                self.best = witness
                value = witness.confidence
                if self.floor is None:
                    self.cutoff[0] = max(self.cutoff[0], value / (1.0 - self.gap))
                elif value > self.floor:
                    self.stop[0] = 1

    def run(
        self, start: float, threads: int, tries: Floats | None, progress: ProgressCallback | None
    ) -> Result:
        """Search until the bounds meet, time is up, or Ctrl-C."""
        interrupted = False
        with ThreadPoolExecutor(threads) as pool:
            try:
                self._rounds(pool, threads, start, progress)
            except KeyboardInterrupt:
                interrupted = True
            finally:
                self.stop[0] = 1
        return self._result(time.perf_counter() - start, interrupted)

    def _rounds(
        self, pool: ThreadPoolExecutor, threads: int, start: float, tell: ProgressCallback | None
    ) -> None:
        members = np.arange(self.question.members)
        parts = np.array_split(members, min(len(members), threads))
        self._wait([pool.submit(self._measure, part) for part in parts], start, tell)
        budget = _BUDGET if len(members) > 1 else np.iinfo(np.int64).max
        while not self.stop[0]:
            open_ = members[self.upper > self.cutoff[0]]
            if not len(open_):
                return
            order = open_[np.argsort(-self.upper[open_], kind="stable")]
            queue = [order[i : i + _PART] for i in range(0, len(order), _PART)][::-1]
            work = [pool.submit(self._explore, queue, budget) for _ in range(threads)]
            self._wait(work, start, tell)
            budget = min(budget, np.iinfo(np.int64).max // _GROWTH) * _GROWTH

    def _wait(
        self, work: list[Future[None]], start: float, tell: ProgressCallback | None
    ) -> None:
        """Wait for threads, watch the clock, and report."""
        told = time.perf_counter()
        left: set[Future[None]] = set(work)
        while left:
            if self.deadline.over:
                self.stop[0] = 1
            pause = min(_LOOK, max(self.deadline.left, 1e-3))
            finished, left = wait(left, timeout=pause, return_when=FIRST_COMPLETED)
            for each in finished:
                each.result()
            if tell is not None and time.perf_counter() - told >= _TELL:
                told = time.perf_counter()
                tell(self._moment(start))

    def _moment(self, start: float) -> Progress:
        upper = self._upper()
        return Progress(
            self.label, self._lower(), upper, int(np.count_nonzero(self.upper > self.cutoff[0])),
            self.solved, time.perf_counter() - start, self.deadline.limit,
        )  # fmt: skip

    def _measure(self, members: Longs) -> None:
        question = self.question
        cells = question.overlay.cells
        room = scratch(question.features, len(self.trees.roots) - 1, question.overlay.labels)
        for at in range(0, len(members), 1024):
            part = members[at : at + 1024]
            measure(
                self.trees, cells.most, part, 0, self.padding, room, self.upper, self.stop
            )  # fmt: skip
            if self.stop[0]:
                return

    def _explore(self, queue: list[Longs], budget: int) -> None:
        """Search members from the queue until it is empty, or all that is left cannot matter."""
        question = self.question
        cells, sizes = question.overlay.cells, (question.features, len(self.trees.roots) - 1)
        room = scratch(*sizes, question.overlay.labels)
        front = frontier(_SLOTS, *sizes)
        front.values[2] = self.padding
        while not self.stop[0]:
            with self.lock:
                if not queue:
                    break
                members = queue.pop()
            front = self._part(members, budget, front, room)
        with self.lock:
            self.solved += int(front.state[3])

    def _part(self, members: Longs, budget: int, front: Frontier, room: object) -> Frontier:
        cells = self.question.overlay.cells
        front.state[5] = 0
        while True:
            said = explore(
                self.trees, self.question.listed, cells.most, members, budget, _LEVELS,
                self.cutoff, self.stop, self.upper, front, room,
            )  # fmt: skip
            if said == FOUND:
                self.add(cells.input(front.found), int(front.state[2]))
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
        )  # fmt: skip
