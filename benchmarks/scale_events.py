"""A run of training on many workers, event by event: start-up, stragglers, lost workers, the head.

Blocks are given out in order, each to the first worker that is free. A worker that is lost takes
its block with it, which is given again before all others, and another worker takes its place after
some time. The head serves finished blocks one at a time: a worker has its next block when the head
comes to its last one, and the head then writes that one.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

__all__ = ["Noise", "Outcome", "Pool", "Run", "best_block", "expected_makespan", "simulate"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Noise:
    """By what factor a block takes longer than it should.

    Attributes
    ----------
    factors : ndarray of float64
        Measured ones, any of which is as likely as another; none: 1.
    straggler : float
        The probability that a block is a straggler's.
    tail : float
        Its factor is drawn by Pareto's law with this exponent, at least 1.
    """

    factors: Floats = field(default_factory=lambda: np.zeros(0))
    straggler: float = 0.0
    tail: float = 1.5

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Return factors, shape (count,)."""
        drawn = rng.choice(self.factors, count) if len(self.factors) else np.ones(count)
        slow = rng.random(count) < self.straggler
        return np.where(slow, drawn * (1 + rng.pareto(self.tail, count)), drawn)

    @property
    def mean(self) -> float:
        """The factor to be expected; infinite for an exponent of at most 1."""
        own = float(self.factors.mean()) if len(self.factors) else 1.0
        if not self.straggler:
            return own
        longer = self.tail / (self.tail - 1) if self.tail > 1 else math.inf
        return own * (1 + self.straggler * (longer - 1))


@dataclass(frozen=True)
class Pool:
    """Workers, in seconds.

    Attributes
    ----------
    workers : int
    start : float
        Until a worker can take a block.
    life : float
        Of a worker, on average, by an exponential law; infinite: none is lost.
    gap : float or None
        Until another is there in the place of one that is lost, before its own start; None: none
        comes.
    """

    workers: int
    start: float = 0.0
    life: float = math.inf
    gap: float | None = 0.0


@dataclass(frozen=True)
class Run:
    """What is to be trained, in seconds.

    Attributes
    ----------
    networks, block : int
        How many there are, and how many are in a block.
    network : float
        What one takes, as part of a block.
    fixed : float
        What a block takes beside that.
    head : float
        What the head takes for a finished block.
    last : float
        What comes after the last block: the family file.
    """

    networks: int
    block: int
    network: float
    fixed: float = 0.0
    head: float = 0.0
    last: float = 0.0

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Networks of each block."""
        starts = np.arange(0, self.networks, self.block)
        return np.minimum(self.block, self.networks - starts)

    @property
    def seconds(self) -> Floats:
        """What each block takes on a worker that nothing disturbs."""
        return self.fixed + self.network * self.sizes


@dataclass(frozen=True, eq=False)
class Outcome:
    """How a run went.

    Attributes
    ----------
    makespan : float
        Seconds until all is written; infinite if no worker was left.
    useful, wasted : float
        Seconds that workers spent on blocks that were finished, and on blocks they took with them.
    lost : int
        Workers.
    done : ndarray of int64, shape (blocks,)
        How often each block was finished.
    finished : ndarray of float64, shape (blocks,)
        When; not a number where it was not.
    """

    makespan: float
    useful: float
    wasted: float
    lost: int
    done: NDArray[np.int64]
    finished: Floats

    def efficiency(self, workers: int) -> float:
        """Return the share of the workers' time that went into blocks that were finished."""
        return self.useful / (workers * self.makespan)


class _Kind(Enum):
    FREE = auto()
    DONE = auto()
    LOST = auto()


@dataclass
class _Worker:
    """One place in the pool; what was said in an earlier ``turn``, of another worker, is void."""

    turn: int = 0
    block: int | None = None
    begun: float = 0.0


class _Simulation:
    def __init__(self, seconds: Sequence[float] | Floats, pool: Pool, head: float) -> None:
        self.seconds, self.pool, self.head = np.asarray(seconds, float), pool, head
        self.events: list[tuple[float, int, _Kind, int, int]] = []
        self.numbers = itertools.count()
        self.workers = [_Worker() for _ in range(pool.workers)]
        self.todo = deque(range(len(self.seconds)))
        self.idle: deque[int] = deque()
        self.done = np.zeros(len(self.seconds), np.int64)
        self.finished = np.full(len(self.seconds), np.nan)
        self.head_free = self.useful = self.wasted = 0.0
        self.lost = 0

    def say(self, at: float, kind: _Kind, place: int) -> None:
        turn = self.workers[place].turn
        heapq.heappush(self.events, (at, next(self.numbers), kind, place, turn))

    def arrive(self, place: int, at: float, rng: np.random.Generator) -> None:
        """Start a worker, and draw when it is lost."""
        self.say(at + self.pool.start, _Kind.FREE, place)
        if math.isfinite(self.pool.life):
            self.say(at + rng.exponential(self.pool.life), _Kind.LOST, place)

    def run(self, rng: np.random.Generator) -> None:
        for place in range(self.pool.workers):
            self.arrive(place, 0.0, rng)
        while self.events and not self.done.all():
            at, _, kind, place, turn = heapq.heappop(self.events)
            worker = self.workers[place]
            if turn != worker.turn:
                continue
            match kind:
                case _Kind.FREE:
                    self.take(place, at)
                case _Kind.DONE:
                    self.finish(place, at)
                case _Kind.LOST:
                    self.lose(place, at, rng)

    def take(self, place: int, at: float) -> None:
        if not self.todo:
            self.idle.append(place)
            return
        worker = self.workers[place]
        worker.block, worker.begun = self.todo.popleft(), at
        self.say(at + self.seconds[worker.block], _Kind.DONE, place)

    def finish(self, place: int, at: float) -> None:
        worker = self.workers[place]
        assert worker.block is not None
        self.done[worker.block] += 1
        self.useful += at - worker.begun
        served = max(at, self.head_free)
        self.head_free = served + self.head
        self.finished[worker.block] = self.head_free
        worker.block = None
        self.say(served, _Kind.FREE, place)

    def lose(self, place: int, at: float, rng: np.random.Generator) -> None:
        worker = self.workers[place]
        self.lost += 1
        if worker.block is not None:
            self.wasted += at - worker.begun
            self.todo.appendleft(worker.block)
        elif place in self.idle:
            self.idle.remove(place)
        worker.turn, worker.block = worker.turn + 1, None
        if self.idle and self.todo:
            self.take(self.idle.popleft(), at)
        if self.pool.gap is not None:
            self.arrive(place, at + self.pool.gap, rng)


def simulate(
    run: Run,
    pool: Pool,
    rng: np.random.Generator,
    noise: Noise | None = None,
    seconds: Sequence[float] | Floats | None = None,
) -> Outcome:
    """Simulate one run.

    Parameters
    ----------
    run : Run
    pool : Pool
    rng : Generator
    noise : Noise or None
    seconds : sequence of float, shape (blocks,), optional
        What each block takes, in place of what the run and the noise say.
    """
    if seconds is None:
        own = run.seconds
        seconds = own if noise is None else own * noise.draw(rng, len(own))
    simulation = _Simulation(seconds, pool, run.head)
    simulation.run(rng)
    whole = bool(simulation.done.all())
    return Outcome(
        simulation.head_free + run.last if whole else math.inf,
        simulation.useful,
        simulation.wasted,
        simulation.lost,
        simulation.done,
        simulation.finished,
    )


def expected_makespan(run: Run, pool: Pool, noise: Noise | None = None) -> float:
    """Return about how long a run takes, in closed form.

    A block of T seconds that starts again whenever its worker is lost, each time after R seconds,
    takes (exp(T / life) - 1) (life + R) on average (a renewal argument; Daly 2006, equation 20,
    without checkpoints). Workers share that, and at the end wait half a block for each other.
    Where the head takes longer for a block than all workers together do, it is what takes the time.
    """
    factor = 1.0 if noise is None else noise.mean
    seconds = factor * (run.fixed + run.network * run.block)
    blocks = run.networks / run.block
    again = seconds
    if math.isfinite(pool.life):
        gap = pool.start + (pool.gap or 0.0)
        again = math.expm1(seconds / pool.life) * (pool.life + gap)
    busy = max(blocks * again / pool.workers, blocks * run.head)
    idle = seconds * (pool.workers - 1) / (2 * pool.workers)
    return pool.start + busy + idle + run.head + run.last


def best_block(run: Run, pool: Pool, noise: Noise | None = None) -> int:
    """Return about the number of networks in a block that ends a run soonest.

    Of the closed form, with exp(x) - 1 about x + x²/2 and a long life: what a block costs beside
    its networks, n F / (b W), falls with b, and what is waited for at the end, b t / 2, and done
    again, n b t² / (2 W life), grow. The sum is least at

        b = sqrt(2 n F / (W t + n t² / life)).

    No more than an equal share for each worker.
    """
    factor = 1.0 if noise is None else noise.mean
    t, fixed = factor * run.network, factor * run.fixed
    below = pool.workers * t + run.networks * t * t / pool.life
    found = math.sqrt(2 * run.networks * fixed / below)
    return max(1, min(round(found), -(-run.networks // pool.workers)))


def with_block(run: Run, block: int) -> Run:
    """Return the same run in other blocks."""
    return replace(run, block=block)
