"""Workers in processes that do a task's orders; for Ray see `ray_pool`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from leaveout.children import ChildLostError, ChildPool
from leaveout.errors import TrainingError
from leaveout.models.train.task import Event, Noted, Order, Step, Task

_WORKER = "leaveout.models.train.worker"

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # Sums must not depend on where in memory a matrix begins.
    "MKL_CBWR": "AUTO,STRICT",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    # Nor an order on what a process draws for its sets of words.
    "PYTHONHASHSEED": "0",
}
"""Of every worker, so that the same order gives the same bits in each."""


class Pool(Protocol):
    """Workers that share a task."""

    def work(self, orders: Iterable[Order]) -> Iterator[tuple[Order, Event]]:
        """Yield the events of each order as they come."""
        ...


OpenPool = Callable[[int], AbstractContextManager[Pool]]
"""Opens a pool of at most so many workers."""


class _Processes:
    def __init__(self, pool: ChildPool) -> None:
        self._pool = pool

    def work(self, orders: Iterable[Order]) -> Iterator[tuple[Order, Event]]:
        return self._pool.work(orders, _is_last)


@contextmanager
def processes(task: Task, size: int, settings: Mapping[str, str] | None = None) -> Iterator[Pool]:
    """Open a pool of processes."""
    try:
        with ChildPool(_WORKER, size, task, {**ENVIRONMENT, **(settings or {})}) as pool:
            yield _Processes(pool)
    except ChildLostError as error:
        raise TrainingError(
            f"a worker process ended before its work was done ({error}); finished blocks are "
            "kept: run the same again, with fewer workers or a smaller block if memory ran out"
        ) from None


def _is_last(event: Any) -> bool:
    return not isinstance(event, Step | Noted)
