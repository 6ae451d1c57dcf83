"""Response times that do not depend on the work behind an answer."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import Self, TypeVar

from leaveout.errors import GuardError


class Clock:
    """Waits in its own thread until absolute times.

    An event loop waits whole milliseconds from a moment that other threads' work delays, which
    would reveal how long they worked.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = itertools.count()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="clock", daemon=True)

    def start(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def close(self) -> None:
        """End the thread without waiting for pending times."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    async def until(self, when: float) -> None:
        """Wait until a time of `time.monotonic`; call it in the loop."""
        woken = self._loop.create_future()
        entry = (when, next(self._number), woken)
        with self._changed:
            heapq.heappush(self._due, entry)
            if self._due[0] is entry:
                self._changed.notify()
        await woken

    def _run(self) -> None:
        with self._changed:
            while not self._closed:
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is None or left > 0:
                    self._changed.wait(left)
                else:
                    _, _, woken = heapq.heappop(self._due)
                    self._loop.call_soon_threadsafe(_wake, woken)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


_SAFETY = 1.5  # the work may take so many times as long as was measured
_HANDLING = 0.001  # seconds to read a request and write its answer, far above what it takes

_MOST_PLACES = 64

_JITTER = 0.1
"""Share of a pad by which an answer leaves later, at random: far more than memory and caches that
the work left cold or warm move it by, which docs/privacy.md tells as measured (Load)."""

_LEAST, _MOST = 0.001, 60.0
"""Seconds of a pad: below, threads do not wake on time."""

T = TypeVar("T")

_log = logging.getLogger("leaveout.guard")


class BusyError(GuardError):
    """More requests are waiting than allowed."""


@dataclass(frozen=True)
class Effort:
    """The worst-case time of an answer."""

    row: float  # seconds to ask every member about one input, while every core does
    commit: float  # seconds to write answers to the disk; one request does after the other
    cores: int


@dataclass(frozen=True)
class Pace:
    """Durations and concurrency from row counts alone: all would be ready even at worst."""

    pad: float  # seconds; every answer takes a multiple
    effort: Effort
    processes: int = 1  # that answer side by side

    def __post_init__(self) -> None:
        if not _LEAST <= self.pad <= _MOST:
            raise GuardError(
                f"a pad must be between {_LEAST:g} and {_MOST:g} seconds, got {self.pad}; 0 turns "
                "padding off"
            )
        if self.processes > max(1, self.effort.cores):
            raise GuardError(
                f"{self.processes} processes are more than the {self.effort.cores} cores here, and "
                "padded ones need one each; choose fewer --processes"
            )
        if self.processes > self.total:
            raise GuardError(
                f"a pad of {self.pad:g} s leaves time for {self.total} inputs at once, fewer than "
                f"{self.processes} processes; choose fewer --processes, or a --pad of "
                f"{self.processes * self._each:.2g} s"
            )

    @property
    def total(self) -> int:
        """The number of single inputs worked on at once, over all processes."""
        most = _MOST_PLACES * self.processes
        return min(max(1, int(self.seconds(1) / self._each)), most)

    @property
    def places(self) -> int:
        """The number of single inputs one process works on at once."""
        return self.total // self.processes

    def places_for(self, rows: int) -> int:
        """Return the places of a request of some rows: at most one core's."""
        return min(rows, -(-self.total // self.effort.cores), self.places)

    def pads(self, rows: int) -> int:
        """Return after how many pads a request of some rows is answered."""
        seconds = _SAFETY * (rows * self.effort.row + self.effort.commit) + _HANDLING
        return math.ceil(seconds / self.pad)

    def seconds(self, rows: int) -> float:
        """Return after how many seconds a request of some rows is answered."""
        return self.pads(rows) * self.pad

    @property
    def _each(self) -> float:
        """Seconds of all cores and the disk per input."""
        return _SAFETY * (self.effort.row / self.effort.cores + self.effort.commit) + _HANDLING


class Padding:
    """Runs work in threads; results return at times that row counts and a jitter decide."""

    def __init__(
        self,
        pace: Pace | None,
        *,
        threads: int = 16,
        waiting: int = 1000,
        on_waiting: Callable[[int], None] | None = None,
    ) -> None:
        self.pace = pace
        self.missed = 0
        self._threads = threads if pace is None else pace.places
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="guard")
        self._free = self._threads
        self._waiting = waiting
        self._on_waiting = on_waiting
        self._chance = random.SystemRandom()
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    def start(self) -> None:
        """Start all threads now, since a later start would take visible time."""
        self._clock = Clock(asyncio.get_running_loop()).start()
        barrier = Barrier(self._threads + 1)
        for _ in range(self._threads):
            self._pool.submit(barrier.wait)
        barrier.wait()

    def close(self) -> None:
        """Wait for running work and end the threads."""
        self._pool.shutdown()
        self._clock.close()

    async def rest(self, start: float) -> None:
        """Wait for the next multiple of the pad, for requests without work."""
        if self.pace is not None:
            pads = self._pads_since(start)
            await self._clock.until(start + self._due(pads, self.pace.pad))

    async def run(self, start: float, rows: int, work: Callable[[], T]) -> T:
        """Run work in a thread and return its result at its due time."""
        taken = 1 if self.pace is None else self.pace.places_for(rows)
        waited = await self._take(taken)
        try:
            future = self._pool.submit(work)
            if self.pace is None:
                return await asyncio.wrap_future(future)
            return await self._timely(future, start, self.pace.pads(rows), waited, self.pace.pad)
        finally:
            self._give_back(taken)

    async def _timely(
        self, future: Future[T], start: float, pads: int, waited: bool, pad: float
    ) -> T:
        due = pads + (self._pads_since(start) if waited else 0)
        await self._clock.until(start + self._due(due, pad))
        if not future.done():
            self._miss()
        while not future.done():
            due += pads
            pads *= 2
            await self._clock.until(start + self._due(due, pad))
        return future.result()

    def _due(self, pads: int, pad: float) -> float:
        """Return when an answer is sent, in seconds since its request."""
        return (pads + _JITTER * self._chance.random()) * pad

    def _pads_since(self, start: float) -> int:
        assert self.pace is not None
        return max(1, math.ceil((time.monotonic() - start) / self.pace.pad))

    def _miss(self) -> None:
        self.missed += 1
        if self.missed & (self.missed - 1) == 0:  # at powers of two: a log must not fill a disk
            _log.warning(
                "%d answers missed their deadline, which may reveal how they were found; choose "
                "a longer pad, or a less busy machine",
                self.missed,
            )

    async def _take(self, places: int) -> bool:
        """Take places in order of request; return whether it had to wait."""
        if not self._queue and self._free >= places:
            self._free -= places
            return False
        if len(self._queue) >= self._waiting:
            raise BusyError("too many requests are waiting; try again later")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((places, turn))
        self._tell()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(places)
            else:
                self._queue.remove((places, turn))
                self._tell()
                self._next()
            raise
        return True

    def _give_back(self, places: int) -> None:
        self._free += places
        self._next()

    def _next(self) -> None:
        while self._queue and self._free >= self._queue[0][0]:
            places, turn = self._queue.popleft()
            self._free -= places
            self._tell()
            turn.set_result(None)

    def _tell(self) -> None:
        if self._on_waiting is not None:
            self._on_waiting(len(self._queue))
