"""LUCID's Algorithm 1: branch and bound over sets of members, one MILP per set."""

from __future__ import annotations

import heapq
import itertools
import math
import queue
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from types import TracebackType
from typing import Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from leaveout.arrays import Floats
from leaveout.bab.attack.leak_attack import find_leak, improve
from leaveout.bab.attack.multistart import better
from leaveout.bab.instance import Instance
from leaveout.bab.lucid.options import LucidOptions
from leaveout.bab.result import EngineResult, Progress, ProgressCallback, Reason, agree
from leaveout.bab.witness import Replayer, Witness
from leaveout.deadline import Deadline
from leaveout.encoders import Encoding, IdpProblem, encode_idp, hyper_network, pair_bounds
from leaveout.encoders.bounds import hyper_bounds
from leaveout.encoders.idp import ScaledPair, scale_pair
from leaveout.errors import SolverError
from leaveout.models import Members as Networks
from leaveout.models import confidence
from leaveout.solvers import Outcome, Settings, SolverProcess, Status

State = Literal["fresh", "exact", "relaxed", "stopped", "numerical", "failed"]

_ABOUT = 0.01  # share of a bound within which its optimum is sought a second time
_LARGEST = 1e6  # with larger scaled weights, rounding exceeds the tolerance, so no MILP is trusted


@dataclass(frozen=True, eq=False)
class MemberSet:
    """Members that share one hyper-network."""

    members: NDArray[np.int64]
    upper: float  # no leak of these members has higher confidence
    encoding: Encoding  # encoding of its next problem
    limit: float  # time limit of its next problem, in seconds
    state: State = "fresh"
    detail: str = ""


@dataclass(frozen=True, eq=False)
class Bounded:
    """A bounded set, and the solver's best point, if any."""

    result: MemberSet
    point: Floats | None
    solved: int


def bound_set(
    instance: Instance, task: MemberSet, label: int, floor: float, worker: SolverProcess
) -> Bounded:
    """Bound the leaks of a set: by propagation if that suffices, else by a MILP."""
    deadline = Deadline.after(task.limit)
    network, box = instance.network.stack, instance.box
    hyper = hyper_network(instance.members, task.members)
    pair = pair_bounds(network, hyper, instance.bounds, box)
    if task.encoding.matching:
        task = replace(task, upper=min(task.upper, instance.difference_upper(pair, label)))
        if task.upper <= floor:
            return Bounded(replace(task, upper=max(task.upper, floor), state="exact"), None, 0)
    else:
        # Without matching dependencies the two networks are bounded separately, as in the paper.
        pair = replace(pair, hyper=hyper_bounds(hyper, box))
    both = scale_pair(network, hyper, pair, box)
    if not both.largest <= _LARGEST:
        detail = (
            f"sums of weights cancel almost completely (scaled weights up to {both.largest:.0e})"
        )
        return Bounded(replace(task, state="numerical", detail=detail), None, 0)
    return _Attempt(instance, task, label, floor, worker, both, deadline).run()


@dataclass(eq=False)
class _Attempt:
    """The problems solved to bound one set."""

    instance: Instance
    task: MemberSet
    label: int
    floor: float
    worker: SolverProcess
    pair: ScaledPair
    deadline: Deadline
    solved: int = 0

    def run(self) -> Bounded:
        encoded, outcome = self.solve(self.floor)
        if outcome.status is Status.INFEASIBLE:
            # One "infeasible" is not trusted: the amount of violation must be positive, too.
            elastic, missed = self.solve(self.floor, elastic=True)
            if elastic.confirms(missed):
                return self.finish("exact", min(self.task.upper, self.floor))
            # Too close to the cut-off to decide: a lower one allows for a bound.
            lower = self.floor - max(self.floor, self.task.upper) / 2
            encoded, outcome = self.solve(lower)
        if outcome.status is Status.INFEASIBLE:
            detail = "the solver reports a problem as infeasible but does not confirm it"
            return self.finish("numerical", self.task.upper, detail=detail)
        bound = encoded.upper(outcome) + self.instance.network_error
        point = encoded.point(outcome)
        if outcome.status is Status.OPTIMAL and bound < self.task.upper:
            # Nor is one optimum: HiGHS has lost leaks with presolve and without, but different
            # ones.
            encoded, outcome = self.solve(bound - _ABOUT * abs(bound), presolve=True)
            if outcome.status is not Status.INFEASIBLE:
                bound = max(bound, encoded.upper(outcome) + self.instance.network_error)
        upper = min(self.task.upper, max(bound, self.floor))
        if outcome.status in (Status.OPTIMAL, Status.INFEASIBLE):
            return self.finish("relaxed" if encoded.relaxed else "exact", upper, point)
        if outcome.status is Status.STOPPED:
            return self.finish("stopped", upper, point)
        return self.finish("failed", upper, detail=outcome.message or outcome.status.value)

    def solve(
        self, cut: float, *, elastic: bool = False, presolve: bool = False
    ) -> tuple[IdpProblem, Outcome]:
        instance = self.instance
        encoded = encode_idp(
            self.pair,
            instance.box,
            self.label,
            encoding=self.task.encoding,
            floor=cut - instance.network_error,
            tie=instance.member_error,
            elastic=elastic,
        )
        left = max(0.1, self.deadline.seconds_left)
        # For confirmation, a positive dual bound suffices.
        settings = Settings(
            time_limit=left,
            relative_gap=0.5 if elastic else 1e-5,
            feasibility_tolerance=self.task.encoding.tolerance,
            integrality_tolerance=self.task.encoding.tolerance,
            presolve=presolve,
        )
        self.solved += 1
        return encoded, self.worker.solve(encoded.problem, settings)

    def finish(
        self, state: State, upper: float, point: Floats | None = None, *, detail: str = ""
    ) -> Bounded:
        return Bounded(
            replace(self.task, upper=upper, state=state, detail=detail), point, self.solved
        )


T = TypeVar("T")


class SolverPool:
    """Runner of tasks that need a solver, at most ``workers`` at a time."""

    def __init__(self, solver: str, workers: int) -> None:
        self._processes = [SolverProcess(solver) for _ in range(workers)]
        self._free: queue.SimpleQueue[SolverProcess] = queue.SimpleQueue()
        for process in self._processes:
            self._free.put(process)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="solver")

    def __enter__(self) -> Self:
        for process in self._processes:
            process.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A task outside its solver may notice late, but its result is no longer needed.
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.retire()

    def submit(self, task: Callable[[SolverProcess], T]) -> Future[T]:
        """Run ``task`` in the next free process."""

        def run() -> T:
            process = self._free.get()
            try:
                return task(process)
            finally:
                self._free.put(process)

        return self._threads.submit(run)


Members = NDArray[np.int64]

_MOST = 8
_LARGEST_SAMPLE = 2**24
_DIRECTIONS = 128
_SEED = 0
_ROUNDS = 100


def features(networks: Networks, members: Members) -> Floats:
    """Return the features that clusters are based on, one row per member.

    All parameters, or 128 random sums of more than 2**24 (Achlioptas 2003). They steer the search;
    no bound rests on them.
    """
    if len(members) * networks.size <= _LARGEST_SAMPLE or networks.size <= _DIRECTIONS:
        return networks.take(members).flat()
    # A fixed seed, so that a set has the same features whenever it is split.
    rng, terms = np.random.default_rng(_SEED), _DIRECTIONS * math.isqrt(networks.size)
    signs, at = rng.choice([-1.0, 1.0], terms), rng.integers(networks.size, size=terms)
    places = (at, np.arange(terms) % _DIRECTIONS)
    sums = csr_array((signs, places), shape=(networks.size, _DIRECTIONS))
    return np.concatenate([stack.flat() @ sums for _, stack in networks.chunks(members)])


def partition(parameters: Floats, members: Members, seed: int = 0) -> list[Members]:
    """Split a set by k-means over all parameters, with k at the inertia's elbow."""
    rows, rng = parameters - parameters.mean(axis=0), np.random.default_rng(seed)
    fits = [
        min((_cluster(rows, k, rng) for _ in range(2)), key=itemgetter(0))
        for k in range(1, min(_MOST, len(members)) + 1)
    ]
    labels = fits[elbow([inertia for inertia, _ in fits])][1]
    groups = [members[labels == k] for k in np.unique(labels)]
    if len(groups) < 2:
        half = len(members) // 2
        groups = [members[:half], members[half:]]
    return groups


def _cluster(rows: Floats, k: int, rng: np.random.Generator) -> tuple[float, NDArray[np.integer]]:
    """Return the inertia and labels of k clusters, begun as k-means++ does (Arthur 2007)."""
    centres = rows[[int(rng.integers(len(rows)))]]
    distance = np.full(len(rows), np.inf)
    for _ in range(1, k):
        distance = np.minimum(distance, ((rows - centres[-1]) ** 2).sum(axis=1))
        total = distance.sum()
        chosen = rng.choice(len(rows), p=distance / total) if total > 0 else 0
        centres = np.concatenate([centres, rows[[chosen]]])
    labels = np.full(len(rows), -1)
    for _ in range(_ROUNDS):
        before, apart = labels, (centres**2).sum(axis=1) - 2.0 * rows @ centres.T
        labels = apart.argmin(axis=1)
        if np.array_equal(labels, before):
            break
        inside = (labels[:, None] == np.arange(k)).astype(np.float64)
        # An empty cluster, of fewer distinct networks than clusters, goes to the mean.
        centres = inside.T @ rows / np.maximum(inside.sum(axis=0), 1.0)[:, None]
    return float(((rows - centres[labels]) ** 2).sum()), labels


def elbow(inertia: list[float]) -> int:
    """Return the position, at least 1, farthest below the chord of a decreasing curve."""
    curve = np.asarray(inertia)
    chord = np.linspace(curve[0], curve[-1], len(curve))
    below = chord - curve
    return max(1, int(np.argmax(below))) if np.any(below > 0) else 1


_TICK = 0.25
_USED = 0.95
_ROUNDED = 0.01
"""Largest relative gap that is attributed to float32 evaluation and counts as closed."""


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
    if instance.network.stack.is_smooth:
        raise SolverError(
            f"{instance.network.source}: lucid encodes ReLUs, and no smooth activations; use "
            "--engine native"
        )
    return _Search(instance, label, options, floor, decide, known, progress).run()


class _Search:
    """The state of one search; every member is in exactly one set.

    The upper bound depends only on ``member_upper``, which is only lowered to proved values, so it
    is valid at any interrupt.
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
        """The confidence up to which leaks do not matter."""
        known = self.witness is not None and self.options.witnesses
        return max(self.asked, self.lower) if known else self.asked

    @property
    def threshold(self) -> float:
        """The bound up to which sets need no work: a leak's or a completed set's.

        Using the latter, Algorithm 1 bounds every set by that of a single member.
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
        over = self.contradicted or self.deadline.over
        return over or self._is_refuted() or self._is_closed()

    def _is_refuted(self) -> bool:
        """Return whether a leak answers the question."""
        return self.decide and self.witness is not None and self.lower > self.asked

    def _is_closed(self) -> bool:
        """Return whether the question is answered.

        The allowed gap grows with float32 rounding, up to `_ROUNDED`.
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
        """Give each free solver the set with the largest bound, branching where needed."""
        while len(self.running) < self.options.workers:
            if not self.waiting and not self._branch():
                return
            task = max(self.waiting, key=lambda entry: entry.upper)
            self.waiting.remove(task)
            if task.upper <= self.threshold:
                self.final.append(task)
                continue
            # Slightly less than the remaining time, so that the dual bound still arrives.
            timed = replace(
                task, limit=max(0.1, min(task.limit, _USED * self.deadline.seconds_left))
            )
            call = partial(bound_set, self.instance, timed, self.label, self.floor)
            self.running[pool.submit(call)] = task

    def _branch(self) -> bool:
        """Queue the next set, or its parts, for solving; return False if impossible."""
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
        """Return a set's new bound, or its old one if a leak contradicts the new."""
        # Later calls of an unlimited set keep the original limit, not the remaining time.
        entry = replace(found, limit=task.limit)
        if self.leaks[found.members].max() <= found.upper:
            return entry
        self._contradict()
        return replace(entry, upper=task.upper, state="numerical")

    def _contradict(self) -> None:
        """Discard all bounds, since a source of a wrong bound is not trusted."""
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
            return "numerical", (
                f"a replayed leak exceeds a bound reported by {self.options.solver}"
            )
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
        return "solver", f"variant {self.options.variant.name} cannot refine any further"
