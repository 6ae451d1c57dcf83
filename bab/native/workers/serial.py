"""Calls executed one by one in a dedicated thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class SerialThread:
    """A daemon thread that executes one call after another.

    Ctrl-C reaches the main thread only, so that no call is left half done.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=_work, args=(self._calls,), name=name, daemon=True).start()

    def submit(self, task: Callable[[], T]) -> Future[T]:
        """Execute a task after those submitted before."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(task())
            except BaseException as error:
                future.set_exception(error)

        self._calls.put(run)
        return future

    def close(self) -> None:
        """End the thread after the tasks submitted."""
        self._calls.put(None)


def _work(calls: queue.SimpleQueue[Callable[[], Any] | None]) -> None:
    while (call := calls.get()) is not None:
        call()
        # Not held until the next one: a call may hold gigabytes.
        del call
