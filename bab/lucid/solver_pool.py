"""A pool of solver processes, each fed by its own thread."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

from leaveout.solvers import SolverProcess

T = TypeVar("T")


class SolverPool:
    """Run tasks that need a solver, at most ``workers`` at a time."""

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
        # A task that is not with its solver may take long to notice; nobody waits for what it says.
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.retire()

    def submit(self, task: Callable[[SolverProcess], T]) -> Future[T]:
        """Run ``task`` with the next free process."""

        def run() -> T:
            process = self._free.get()
            try:
                return task(process)
            finally:
                self._free.put(process)

        return self._threads.submit(run)
