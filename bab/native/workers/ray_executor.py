"""Explorers as actors of Ray, on this machine or on many."""

from __future__ import annotations

import contextlib
from concurrent.futures import Future
from typing import Any

from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.question import Question
from leaveout.bab.native.workers.pool import WorkerLostError
from leaveout.bab.native.workers.processes import later_names
from leaveout.bab.native.workers.program import Setup
from leaveout.bab.native.workers.serial import SerialThread
from leaveout.bab.native.workers.worker import Worker
from leaveout.children import importable
from leaveout.cores import cores
from leaveout.errors import LeaveoutError, SolverError
from leaveout.ray_cluster import imported, started

__all__ = ["RayExecutor"]


class RayExecutor:
    """One actor a worker, and one that knows the best target found anywhere.

    A cluster that this process is connected to, or that ``RAY_ADDRESS`` names, is used; else one
    is started here for as long as the search takes. A large family is read from its file, which
    every machine must see under the same path.

    Raises
    ------
    SolverError
        If ray is not installed.
    """

    def __init__(self) -> None:
        self._ray = imported(SolverError("executor 'ray' needs ray: pip install 'leaveout[ray]'"))

    def pool(self, question: Question[Any], options: NativeOptions) -> _Actors:
        """See `Executor.pool`."""
        ray, size = self._ray, options.workers
        own = started(ray, size, importable())
        total = int(ray.cluster_resources().get("CPU", 1))
        payload, threads = question.payload(), max(1, min(total, cores()) // size)
        setups = [Setup(payload, options, w, size, threads) for w in range(size)]
        return _Actors(ray, own, setups, 1 if total >= size else 0)


class _Incumbent:
    """The best target found anywhere."""

    def __init__(self) -> None:
        self._best = float("-inf")

    def offer(self, target: float) -> None:
        self._best = max(self._best, target)

    def best(self) -> float:
        return self._best


class _Actor:
    """A worker, and where it hears of better targets."""

    def __init__(self, setup: Setup, incumbent: Any) -> None:
        import ray

        self._worker = Worker(
            setup.payload.open(),
            setup.options,
            setup.first,
            setup.stride,
            setup.threads,
        )
        self._worker.listen = lambda: float(ray.get(incumbent.best.remote()))

    def call(self, method: str, *arguments: Any) -> Any:
        # Arrays that ray shares are read-only and stay in its store; nodes outlive both.
        return getattr(self._worker, method)(*arguments)


class _Actors:
    def __init__(self, ray: Any, own: bool, setups: list[Setup], cpus: int) -> None:
        self._ray, self._own, self._setups = ray, own, setups
        self.size = len(setups)
        self._revived = 0
        self._incumbent = ray.remote(num_cpus=0)(_Incumbent).remote()
        self._kind = ray.remote(num_cpus=cpus, max_restarts=0)(_Actor)
        self._actors = [self._kind.remote(setup, self._incumbent) for setup in setups]
        self._threads = [SerialThread(f"actor {worker}") for worker in range(self.size)]

    def call(self, worker: int, method: str, *arguments: Any) -> Future[Any]:
        return self._threads[worker].submit(lambda: self._ask(worker, method, arguments))

    def _ask(self, worker: int, method: str, arguments: tuple[Any, ...]) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(self._actors[worker].call.remote(method, *arguments))
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, LeaveoutError):
                raise cause from None
            message = f"a worker failed: {type(cause).__name__}: {cause}"
        except errors.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, LeaveoutError):
                raise cause from None
            lines = str(error).strip().splitlines() or [type(error).__name__]
            message = f"a worker died: {lines[0]}"
        raise WorkerLostError(worker, message)

    def tell(self, target: float) -> None:
        self._incumbent.offer.remote(target)

    def revive(self, worker: int) -> None:
        self._revived += 1
        self._ray.kill(self._actors[worker])
        setup = later_names(self._setups[worker], self._revived)
        self._actors[worker] = self._kind.remote(setup, self._incumbent)

    def close(self) -> None:
        for thread in self._threads:
            thread.close()
        if self._own:
            self._ray.shutdown()
            return
        for actor in (*self._actors, self._incumbent):
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.kill(actor)
