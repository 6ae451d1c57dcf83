"""Where networks are trained: in processes of this machine, or on Ray."""

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
    """Where workers are, and how many of them by now."""

    size: int
    pool: Callable[[Task, int], AbstractContextManager[Pool]]
    writes: bool  # whether workers write into this machine's folders


def check_executor(executor: str, said: str) -> None:
    """Refuse an executor that is not known, or cannot be used."""
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
    """Go where the workers of a run are."""
    if executor == "ray":
        from leaveout.models.train.ray_pool import ray_workers

        with ray_workers(workers, shared) as there:
            yield Workplace(there.size(gpus), there.pool, writes=False)
        return
    size = 1 if gpus else workers or cores()
    yield Workplace(size, lambda task, count: processes(task, count, settings), writes=True)
