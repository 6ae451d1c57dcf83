"""The greatest confidence at which a forest and a member, or another forest, disagree."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab.forests.search_kernels import DONE, FOUND, FULL, ascend_near, explore, ranges
from leaveout.bab.forests.tree_answers import (
    FRONTIER,
    LAMBDAS,
    Frontier,
    Listed,
    Trees,
    Work,
    frontier,
    work_on,
)
from leaveout.bab.result import EngineResult, Progress, ProgressCallback, agree
from leaveout.bab.witness import Witness
from leaveout.deadline import Deadline
from leaveout.encoders.box import Box
from leaveout.encoders.forests.cells import Overlay, overlay_family, overlay_two
from leaveout.errors import ForestError
from leaveout.models.forest.family import ForestFamily
from leaveout.models.forest.scored import ScoredForest


@dataclass(frozen=True, eq=False)
class Question:
    """Forests cut into cells; one object is used for all labels."""

    whole: ScoredForest
    others: ForestFamily | ScoredForest  # a single forest counts as a family of one member
    overlay: Overlay
    labels: tuple[
        list[Any], list[Any]
    ]  # labels of the whole forest and of the others, as Python objects

    @classmethod
    def of(cls, whole: ScoredForest, others: ForestFamily | ScoredForest, box: Box) -> Self:
        """Cut an input set at the thresholds of forests."""
        if isinstance(others, ForestFamily):
            known = whole.classes.tolist()
            return cls(whole, others, overlay_family(others, box), (known, known))
        if (whole.classes.dtype.kind in "biuf") != (others.classes.dtype.kind in "biuf"):
            raise ForestError("the labels of one forest are numbers, those of the other strings")
        # As Python objects, so that large integer labels are not rounded to float64.
        one, two = whole.classes.tolist(), others.classes.tolist()
        place = {label: i for i, label in enumerate(sorted({*one, *two}))}
        columns = tuple(np.array([place[label] for label in each], np.int64) for each in (one, two))
        overlay = overlay_two(whole, others, box, (columns[0], columns[1]), len(place))
        return cls(whole, others, overlay, (one, two))

    @property
    def members(self) -> int:
        """The number of members."""
        return len(self.overlay.start) - 1

    @property
    def features(self) -> int:
        """The number of features."""
        return len(self.overlay.cells.most)

    @cached_property
    def listed_rows(self) -> Listed:
        """Listed rows for kernels; a single feature can take any code and needs none."""
        groups = self.overlay.cells.groups
        wide = np.diff(groups.column_start) > 1
        of = groups.of.copy()
        of[of >= 0] = np.where(wide[of[of >= 0]], of[of >= 0], -1)
        return Listed(of, groups.column_start, groups.columns, groups.row_start, groups.rows)

    @cached_property
    def _nodes(self) -> NDArray[np.int32]:
        nodes = self.overlay.nodes
        return np.stack([nodes.feature, nodes.cut, nodes.left, nodes.right], 1).astype(np.int32)

    @cached_property
    def _end(self) -> NDArray[np.int32]:
        """Return the end of each node's subtree in the whole forest."""
        nodes, size = self.overlay.nodes, int(self.overlay.roots[-1])
        # In preorder, the last node below a node is found by always going right.
        last = np.where(nodes.feature[:size] >= 0, nodes.right[:size], np.arange(size))
        while (last != last[last]).any():
            last = last[last]
        return (last + 1).astype(np.int32)

    def trees(self, label: int) -> Trees:
        """Return the trees for kernels, with margins of one label of the forest."""
        overlay = self.overlay
        column = self.column(label)
        shape = len(self._nodes), overlay.labels
        low, high = np.zeros(shape), np.zeros(shape)
        first = np.concatenate((overlay.roots[:-1], overlay.instead))
        ranges(
            self._nodes, overlay.nodes.shares, first, column, low, high,
            np.zeros(shape[0], np.bool_),
        )  # fmt: skip
        one, other = overlay.divisors
        return Trees(
            self._nodes, overlay.nodes.shares, overlay.roots, self._end, low, high, overlay.start,
            overlay.tree, overlay.node, overlay.instead, np.array([1 / one, 1 / other]),
            np.array([column, one, other, one == other], np.int64),
        )  # fmt: skip

    def column(self, label: int) -> int:
        """Return the index of a forest's label among both sides' labels."""
        if isinstance(self.others, ForestFamily):
            return label
        return sorted({*self.labels[0], *self.labels[1]}).index(self.labels[0][label])

    def padding(self) -> float:
        """Return the rounding error that is added to computed bounds.

        u = 2^-53, N trees, shares <= s, multiplier l: forests err by 2 (N + 1) (1 + l) u s, the
        bound by (N + 5) (1 + l) u s; 8 (N + 8) also covers products.
        """
        count = max(self.overlay.divisors)
        most = float(self.overlay.nodes.shares.max())
        return 8.0 * (count + 8) * (1.0 + max(LAMBDAS)) * most * 2.0**-53

    def most(self, trees: Trees) -> float:
        """Return a bound on the label's confidence; -inf if it is never answered."""
        sums = trees.weights[0] * trees.high[trees.roots[:-1]].sum(axis=0)
        rest = np.delete(sums, trees.numbers[0]) + self.padding()
        return float(rest.min()) if len(rest) and rest.min() >= 0.0 else -np.inf

    def replay(self, x: Floats, member: int, label: int) -> Witness | None:
        """Return a witness if an input is a leak, as computed by the forests."""
        removed, other = -1, self.others
        if isinstance(other, ForestFamily):
            removed, other = int(other.removed[member]), other.member(member)
        if not self.overlay.cells.box.contains(x[None])[0]:
            return None
        scores, others = self.whole.probabilities(x[None])[0], other.probabilities(x[None])[0]
        answers = self.labels[0][int(scores.argmax())], self.labels[1][int(others.argmax())]
        if int(scores.argmax()) != label or answers[0] == answers[1]:
            return None
        rest = np.delete(scores, label)
        confidence = float(scores[label] - (rest.max() if len(rest) else 0.0))
        return Witness(x, member, removed, label, confidence, scores, others)

    def starts(self, X: Floats, label: int, count: int) -> NDArray[np.int64]:
        """Return starting points against one other forest: leaks, then where it is narrow."""
        if isinstance(self.others, ForestFamily) or not len(X):
            return np.zeros(0, np.int64)
        scores, others = self.whole.probabilities(X), self.others.probabilities(X)
        answers = scores.argmax(axis=1)
        names = [np.array(each, dtype=object) for each in self.labels]
        same = names[0][answers] == names[1][others.argmax(axis=1)]
        asked = np.flatnonzero((answers == label) & (scores.max(axis=1) > 0))
        confidence = _margin(scores[asked])
        # If both answer the label, inputs where the other is least confident come first; where it
        # is as confident as the whole forest, the two may be equal there.
        value = np.where(same[asked], -_margin(others[asked]) - 1.0, confidence)
        moved = ~same[asked] | (_margin(others[asked]) < confidence)
        value = np.where(moved, value, value - 2.0)
        return asked[np.argsort(-value, kind="stable")[:count]]


def _margin(scores: Floats) -> Floats:
    """Return the greatest score minus the second greatest, or minus 0."""
    if scores.shape[1] == 1:
        return np.asarray(scores[:, 0])
    two = np.partition(scores, -2, axis=1)[:, -2:]
    return np.asarray(two[:, 1] - two[:, 0])


Longs = NDArray[np.int64]
Codes = NDArray[np.int32]
Result = EngineResult

_SLOTS = 256
_BUDGETS = ((1, 0), (64, 2), (512, 2), (4096, 4))
"""Boxes per member, and open splits of a tree that the bound follows, round by round."""
_GROWTH = 8  # factor by which the boxes grow in each later round
_ASCENTS = 64  # members near whose changes leaks are sought first
_ROUNDS = 20  # passes over the thresholds near an input
_MIXTURES = 128  # mixtures of inputs from which leaks are sought
_STARTS = 16  # inputs from which leaks of a single other forest are sought
_PART = 64  # members per work item of a thread
_LOOK = 0.05  # seconds between checks of the clock
_TELL = 0.5  # seconds between progress reports


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
    known: Witness | None = None,
    progress: ProgressCallback | None = None,
    question: Question | None = None,
) -> Result:
    """Bound the greatest confidence of a leak of one label over other forests.

    A leak is an input and a member whose answer is not the forest's label, both exactly as computed
    by `ScoredForest.probabilities`.
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
        # Below 0, since a leak may have confidence 0.
        self.cutoff = np.full(1, -0.5 if floor is None else floor)
        self.stop = np.zeros(1, np.int64)
        self.best: Witness | None = None
        self.worst: dict[int, Witness] = {}
        self.solved = 0
        self.told = -np.inf
        self.lock = threading.Lock()

    def add(self, x: Floats, member: int) -> None:
        """Record a leak if it is one and better than the known one."""
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
        work = self._work()
        for x in inside[order]:
            self.add(x, 0)
            if self.stop[0] or self.deadline.over:
                break
            self._near(0, question.overlay.cells.codes(x[None]), work)
        if self.floor is not None and len(order):
            self._wander(inside, order, work)
        return question.overlay.cells.codes(inside)

    def _wander(self, X: Floats, order: Longs, work: Work) -> None:
        """Attack from mixtures of starting points and other inputs."""
        cells, rng = self.question.overlay.cells, np.random.default_rng(0)
        for turn in range(_MIXTURES):
            if self.stop[0] or self.deadline.over:
                return
            first, second = X[order[turn % len(order)]], X[rng.integers(len(X))]
            taken = rng.random(len(first)) < rng.choice((0.05, 0.1, 0.2))
            mixed = cells.box.nearest(np.where(taken, second, first))
            self._near(0, cells.codes(mixed[None]), work)

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
        """Attack near the changes of members while they can affect the result."""
        work = self._work()
        while not self.stop[0]:
            with self.lock:
                if not members:
                    return
                member = int(members.pop())
            if self.upper[member] > self.cutoff[0]:
                self._near(member, tries, work)

    def _near(self, member: int, cells: Codes, work: Work) -> None:
        question = self.question
        found = np.zeros(question.features, np.int32)
        value = ascend_near(
            work.words, question.overlay.cells.most, member, _ROUNDS,
            1.0 if self.floor is None or self.floor > 0 else 0.0, cells, found,
        )  # fmt: skip
        if value >= 0:
            self.add(question.overlay.cells.input(found), member)

    def _work(self) -> Work:
        return work_on(self.trees, self.question.listed_rows)

    def _explore(self, queue: list[Longs], budget: int, levels: int) -> None:
        """Explore queued members until none is left that can affect the result."""
        front = frontier(_SLOTS, self.question.features, len(self.trees.roots) - 1)
        work = self._work()
        front.values[2] = self.padding
        while not self.stop[0]:
            with self.lock:
                if not queue:
                    break
                members = queue.pop()
            front = self._part(members, budget, levels, front, work)
        with self.lock:
            self.solved += int(front.state[3])

    def _part(
        self, members: Longs, budget: int, levels: int, front: Frontier, work: Work
    ) -> Frontier:
        cells = self.question.overlay.cells
        front.state[5] = 0
        while True:
            said = explore(
                work.words, FRONTIER.words(front), cells.most, members, budget, levels,
                self.cutoff, self.stop, self.upper,
            )  # fmt: skip
            if said == FOUND:
                member = int(front.state[2])
                self.add(cells.input(front.found), member)
                self._near(member, front.found[None], work)
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
        return EngineResult(
            label=self.label, lower=lower, upper=upper, witness=self.best, closed=closed,
            reason=None if closed else "time", detail="" if closed else ("it did not run long "
"enough"),
            member_upper=self.upper, solved=self.solved, seconds=seconds, interrupted=interrupted,
            leaks=tuple(self.worst.values()),
        )  # fmt: skip
