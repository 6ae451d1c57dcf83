"""Executors of training: processes of this machine, or Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from leaveout.cores import cores
from leaveout.errors import TrainingError
from leaveout.models.train.pool import Pool, processes
from leaveout.models.train.task import Task
from leaveout.ray_cluster import need_ray, refuse_unreachable

EXECUTORS = ("processes", "ray")


@dataclass(frozen=True)
class Workplace:
    """The location and current number of workers."""

    size: int
    pool: Callable[[Task, int], AbstractContextManager[Pool]]
    writes: bool  # whether workers write into this machine's folders


def check_executor(executor: str, said: str) -> None:
    """Raise if an executor is unknown or unusable."""
    if executor not in EXECUTORS:
        raise TrainingError(f"{said}: expected one of {', '.join(EXECUTORS)}")
    if executor == "ray":
        need_ray(TrainingError(f"{said} needs ray: pip install 'leaveout[ray]'"))
        refuse_unreachable(TrainingError)


@contextmanager
def workplace(
    executor: str,
    workers: int | None,
    *,
    gpus: bool = False,
    settings: Mapping[str, str] | None = None,
    shared: int = 0,
) -> Iterator[Workplace]:
    """Yield the place where a run's workers are."""
    if executor == "ray":
        from leaveout.models.train.ray_pool import ray_workers

        with ray_workers(workers, shared) as there:
            yield Workplace(there.size(gpus), there.pool, writes=False)
        return
    size = 1 if gpus else workers or cores()
    yield Workplace(size, lambda task, count: processes(task, count, settings), writes=True)
