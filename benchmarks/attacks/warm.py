"""What stays from one case to the next, since to make it anew takes longer than a case."""

from __future__ import annotations

import importlib.metadata
import queue
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from types import TracebackType

from leaveout.bab.lucid.algorithm import SolverPool
from leaveout.solvers import SolverProcess

__all__ = ["WarmPool", "entry_points_kept", "memory_folder"]


@lru_cache(maxsize=1)
def entry_points_kept() -> None:
    """Read once what is installed: every check of a specification asks for plugins."""
    importlib.metadata.entry_points = lru_cache(maxsize=None)(importlib.metadata.entry_points)


def memory_folder() -> str | None:
    """Return where files need no disk; None where there is no such place."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


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
