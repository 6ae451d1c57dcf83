"""Pools of explorers: in this process, in others, or from a plug-in."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Any, Protocol, TypeVar

from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.question import Question
from leaveout.bab.native.workers.worker import Worker
from leaveout.deadline import NEVER, Deadline, OverdueError
from leaveout.errors import SolverError

T = TypeVar("T")


class SerialThread:
    """A daemon thread that executes one call after another.

    Ctrl-C only interrupts the main thread, so no call is cut off halfway.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=_work, args=(self._calls,), name=name, daemon=True).start()

    def submit(self, task: Callable[[], T]) -> Future[T]:
        """Execute a task after all earlier ones."""
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
        """Stop the thread after the submitted tasks."""
        self._calls.put(None)


def _work(calls: queue.SimpleQueue[Callable[[], Any] | None]) -> None:
    while (call := calls.get()) is not None:
        call()
        # Release it before waiting: a call may hold gigabytes.
        del call


_WAKE = 0.5  # seconds between a wait's checks for Ctrl-C, which some libraries would block


class WorkerLostError(Exception):
    """A worker died; its nodes are lost."""

    def __init__(self, worker: int, message: str) -> None:
        super().__init__(message)
        self.worker = worker


class WorkerPool(Protocol):
    """Workers that each execute one call at a time."""

    size: int

    def call(self, worker: int, method: str, *arguments: Any) -> Future[Any]:
        """Call a worker's method; calls to one worker run in order."""

    def tell(self, target: float) -> None:
        """Send workers a better target, even while they are busy."""

    def revive(self, worker: int) -> None:
        """Start an empty worker in place of a dead one."""

    def close(self) -> None:
        """Release the workers, abandoning their work."""


class Executor(Protocol):
    """Starter of pools, one at a time."""

    def pool(self, question: Question[Any], options: NativeOptions) -> WorkerPool:
        """Start the workers; worker w of n numbers its nodes w, w + n, w + 2 n, ..."""

    def close(self) -> None:
        """Release what is kept between pools."""


def gather(futures: Sequence[Future[T]], deadline: Deadline = NEVER) -> list[T]:
    """Wait for all futures, interruptibly by Ctrl-C; re-raise the first error."""
    while wait(futures, _WAKE).not_done:
        if deadline.over:
            raise OverdueError
    return [future.result() for future in futures]


class InlineExecutor(Executor):
    """One worker in this process, whose kernel uses all cores."""

    def pool(self, question: Question[Any], options: NativeOptions) -> WorkerPool:
        return _Inline(Worker(question, options))

    def close(self) -> None:
        """See `Executor.close`; there is nothing to release."""


class _Inline:
    size = 1

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._thread = SerialThread("explorer")

    def call(self, worker: int, method: str, *arguments: Any) -> Future[Any]:
        return self._thread.submit(lambda: getattr(self._worker, method)(*arguments))

    def tell(self, target: float) -> None:
        self._worker.tell(target)

    def revive(self, worker: int) -> None:
        raise WorkerLostError(worker, "the explorer failed")

    def close(self) -> None:
        # A running call is not stopped: it ends within a round.
        self._worker.halt()
        self._thread.close()


EXECUTORS = ("processes", "ray")


def make_executor(options: NativeOptions) -> Executor:
    """Return the executor for the options; a single worker always runs in this process."""
    if options.executor not in EXECUTORS:
        raise SolverError(
            f"unknown executor {options.executor!r}; known executors: {', '.join(EXECUTORS)}"
        )
    if options.workers == 1:
        return InlineExecutor()
    if options.executor == "ray":
        from leaveout.bab.native.workers.ray_executor import RayExecutor

        return RayExecutor()
    from leaveout.bab.native.workers.processes import ProcessExecutor

    return ProcessExecutor()
