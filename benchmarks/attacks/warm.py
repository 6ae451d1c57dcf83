"""Solver processes that stay from one case to the next: starting one takes longer than a case."""

from __future__ import annotations

import queue
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from types import TracebackType

from leaveout.bab.pool import SolverPool
from leaveout.solvers import SolverProcess

__all__ = ["WarmPool"]


@lru_cache(maxsize=1)
def _process(solver: str) -> SolverProcess:
    return SolverProcess(solver)


class WarmPool(SolverPool):
    """A pool of one process, which is left alive."""

    def __init__(self, solver: str, workers: int) -> None:
        self._processes = [_process(solver)]
        self._free: queue.SimpleQueue[SolverProcess] = queue.SimpleQueue()
        self._free.put(self._processes[0])
        self._threads = ThreadPoolExecutor(1)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
