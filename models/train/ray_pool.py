"""Workers as actors of Ray, on this machine or on many."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from leaveout.children import importable
from leaveout.errors import TrainingError
from leaveout.models.train.pool import ENVIRONMENT, Pool
from leaveout.models.train.task import Event, Order, Task
from leaveout.ray_cluster import imported, started

__all__ = ["actors"]


@contextmanager
def actors(task: Task, size: int) -> Iterator[Pool]:
    """Open a pool of actors; what they train comes back, since they may be on other machines.

    A cluster that this process is connected to, or that ``RAY_ADDRESS`` names, is used; else one
    is started here for as long as the pool is open.

    Raises
    ------
    TrainingError
        If ray is not installed, or an actor dies.
    """
    ray = imported(TrainingError("backend='ray' needs ray: pip install 'leaveout[ray]'"))
    variables = {**ENVIRONMENT, **importable()}
    own = started(ray, size, variables)
    pool = _Actors(ray, task, size, variables)
    try:
        yield pool
    finally:
        if own:
            ray.shutdown()
        else:
            pool.close()


class _Actor:
    """A worker."""

    def __init__(self, task: Task) -> None:
        self._task = task
        task.prepare()

    def do(self, order: Order) -> Event:
        return self._task.do(order, lambda step: None)


class _Actors:
    def __init__(self, ray: Any, task: Task, size: int, variables: dict[str, str]) -> None:
        self._ray = ray
        total = int(ray.cluster_resources().get("CPU", 1))
        kind = ray.remote(num_cpus=1 if total >= size else 0, max_restarts=0)(_Actor)
        kind = kind.options(runtime_env={"env_vars": variables})
        shared = ray.put(task)
        self._actors = [kind.remote(shared) for _ in range(size)]

    def work(self, orders: Iterable[Order]) -> Iterator[tuple[Order, Event]]:
        waiting = iter(orders)
        busy: dict[Any, tuple[Any, Order]] = {}
        for actor in self._actors:
            self._give(actor, waiting, busy)
        while busy:
            (ready, *_), _ = self._ray.wait(list(busy), num_returns=1)
            actor, order = busy.pop(ready)
            try:
                event = self._ray.get(ready)
            except self._ray.exceptions.RayError as error:
                line = (str(error).strip().splitlines() or [type(error).__name__])[0]
                raise TrainingError(
                    f"an actor of Ray ended before its work was done ({line}); finished blocks "
                    "are kept: run the same again, with fewer workers if memory ran out"
                ) from None
            self._give(actor, waiting, busy)
            yield order, event

    def close(self) -> None:
        for actor in self._actors:
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.kill(actor)

    def _give(
        self, actor: Any, waiting: Iterator[Order], busy: dict[Any, tuple[Any, Order]]
    ) -> None:
        for order in waiting:
            busy[actor.do.remote(order)] = (actor, order)
            return
