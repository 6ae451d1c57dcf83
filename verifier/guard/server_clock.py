"""Wake-ups of an event loop at exact times."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
import time
from typing import Self


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
