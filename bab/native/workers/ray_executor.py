"""Explorers on Ray, on this machine or on many."""

from __future__ import annotations

import contextlib
import itertools
import threading
from concurrent.futures import Future, InvalidStateError
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.question import Payload, Question
from leaveout.bab.native.workers.pool import WorkerLostError
from leaveout.bab.native.workers.program import Answer, Call, Setup, Told
from leaveout.bab.native.workers.ray_actors import Answered, Asked, Explore, Revive
from leaveout.cores import cores
from leaveout.errors import SolverError
from leaveout.ray_cluster import RayDriver, RayLostError, need_ray

__all__ = ["RayExecutor"]

_WAIT = 1.0
"""Seconds after which it is asked whether the cluster still answers."""


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
        need_ray(SolverError("executor 'ray' needs ray: pip install 'leaveout[ray]'"))

    def pool(self, question: Question[Any], options: NativeOptions) -> _Workers:
        """See `Executor.pool`; a cluster that is not to be had is a worker lost."""
        size, payload = options.workers, _anywhere(question.payload())
        try:
            driver = RayDriver(size)
        except RayLostError as error:
            raise WorkerLostError(0, str(error)) from None
        threads = max(1, min(driver.cpus, cores()) // size)
        return _Workers(driver, [Setup(payload, options, w, size, threads) for w in range(size)])


def _anywhere(payload: Payload) -> Payload:
    """Return a question whose file has the same name in whatever folder a worker is."""
    path = getattr(payload, "path", "")
    if not path or not is_dataclass(payload):
        return payload
    return replace(payload, path=str(Path(path).resolve()))  # type: ignore[return-value]


class _Workers:
    """The actors, and a thread that hears what they say."""

    def __init__(self, driver: RayDriver, setups: list[Setup]) -> None:
        self.size = len(setups)
        self._driver = driver
        self._numbers = itertools.count()
        self._asked: dict[int, tuple[int, Future[Any]]] = {}
        self._one_at_a_time = threading.Lock()
        self._lost = ""
        self._closed = threading.Event()
        driver.serve(Explore(setups))
        self._ears = threading.Thread(target=self._listen, name="ears", daemon=True)
        self._ears.start()

    def call(self, worker: int, method: str, *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._one_at_a_time:
            if self._lost:
                future.set_exception(WorkerLostError(worker, self._lost))
                return future
            number = next(self._numbers)
            self._asked[number] = worker, future
        self._driver.send(Asked(number, worker, Call(method, arguments)))
        return future

    def tell(self, target: float) -> None:
        self._driver.send(Told(target))

    def revive(self, worker: int) -> None:
        if self._lost:
            raise WorkerLostError(worker, self._lost)
        self._driver.send(Revive(worker))

    def close(self) -> None:
        self._closed.set()
        self._driver.close()

    def _listen(self) -> None:
        try:
            while not self._closed.is_set():
                message = self._driver.receive(_WAIT)
                if isinstance(message, Answered):
                    self._answer(message)
        except RayLostError as error:
            with self._one_at_a_time:
                self._lost = str(error)
                asked, self._asked = self._asked, {}
            for worker, future in asked.values():
                _fail(future, WorkerLostError(worker, self._lost))

    def _answer(self, message: Answered) -> None:
        with self._one_at_a_time:
            worker, future = self._asked.pop(message.number)
        answer: Answer = message.answer
        if answer.error is not None:
            _fail(future, answer.error)
        elif answer.failure:
            _fail(future, WorkerLostError(worker, answer.failure))
        else:
            with contextlib.suppress(InvalidStateError):
                future.set_result(answer.value)


def _fail(future: Future[Any], error: Exception) -> None:
    with contextlib.suppress(InvalidStateError):
        future.set_exception(error)
