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

__all__ = ["EXECUTORS", "Workplace", "check_executor", "workplace"]

EXECUTORS = ("processes", "ray")


@dataclass(frozen=True)
class Workplace:
    """Where workers are, and how many of them by now.

    Attributes
    ----------
    size : int
    pool : callable
        Opens a pool of workers for a task, at most so many.
    writes : bool
        Whether workers write into this machine's folders.
    """

    size: int
    pool: Callable[[Task, int], AbstractContextManager[Pool]]
    writes: bool


def check_executor(executor: str, said: str) -> None:
    """Refuse an executor that is not known, or cannot be used.

    Parameters
    ----------
    executor : str
    said : str
        How it was said: ``--executor ray``, ``executor='ray'``.

    Raises
    ------
    TrainingError
    """
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
    """Go where the workers of a run are.

    Parameters
    ----------
    executor : str
        One that `check_executor` let pass.
    workers : int or None
        None: one a core, of this machine or of the cluster.
    gpus : bool
        Whether each takes a GPU; this machine then has one.
    settings : mapping of str to str, optional
        Further variables of processes' environment.
    shared : int
        Bytes of the data.

    Raises
    ------
    TrainingError
        If there is no cluster, or it is lost.
    """
    if executor == "ray":
        from leaveout.models.train.ray_pool import ray_workers

        with ray_workers(workers, shared) as there:
            yield Workplace(there.size(gpus), there.pool, writes=False)
        return
    size = 1 if gpus else workers or cores()
    yield Workplace(size, lambda task, count: processes(task, count, settings), writes=True)
