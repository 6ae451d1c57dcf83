"""Explorers on Ray, on one machine or many."""

from __future__ import annotations

import contextlib
import itertools
import math
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

_WAIT = 1.0
"""Seconds after which it is asked whether the cluster still answers."""


class RayExecutor:
    """One actor per worker, and one that holds the best target.

    It uses the connected cluster or ``RAY_ADDRESS``, or starts one, kept until `close`. A large
    family is read from its file, which every machine must see under the same path.
    """

    def __init__(self) -> None:
        need_ray(SolverError("executor 'ray' needs ray: pip install 'leaveout[ray]'"))
        self._cluster: _Cluster | None = None

    def pool(self, question: Question[Any], options: NativeOptions) -> _Workers:
        """See `Executor.pool`; an unavailable cluster counts as a lost worker."""
        size, payload = options.workers, _anywhere(question.payload())
        if self._cluster is None or self._cluster.lost:
            self.close()
            self._cluster = _Cluster(RayDriver(size))
        self._cluster.connect(options.seconds)
        threads = max(1, min(self._cluster.driver.cpus, cores()) // size)
        setups = [Setup(payload, options, w, size, threads) for w in range(size)]
        return _Workers(self._cluster, setups)

    def close(self) -> None:
        """See `Executor.close`; disconnect, and stop a cluster started here."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()


def _anywhere(payload: Payload) -> Payload:
    """Return a question whose file name is valid in any worker's folder."""
    path = getattr(payload, "path", "")
    if not path or not is_dataclass(payload):
        return payload
    return replace(payload, path=str(Path(path).resolve()))


class _Workers:
    """The actors of one search."""

    def __init__(self, cluster: _Cluster, setups: list[Setup]) -> None:
        self.size = len(setups)
        self._cluster = cluster
        cluster.driver.serve(Explore(setups))

    def call(self, worker: int, method: str, *arguments: Any) -> Future[Any]:
        return self._cluster.ask(worker, Call(method, arguments))

    def tell(self, target: float) -> None:
        self._cluster.driver.send(Told(target))

    def revive(self, worker: int) -> None:
        if self._cluster.lost:
            raise WorkerLostError(worker, self._cluster.lost)
        self._cluster.driver.send(Revive(worker))

    def close(self) -> None:
        self._cluster.driver.dismiss()


class _Cluster:
    """A cluster, and a thread that receives its messages."""

    def __init__(self, driver: RayDriver) -> None:
        self.driver, self.lost = driver, ""
        # Not counted anew for each search: of the one before, an answer may come late.
        self._numbers = itertools.count()
        self._asked: dict[int, tuple[int, Future[Any]]] = {}
        self._one_at_a_time = threading.Lock()
        self._closed = threading.Event()
        self._ears = threading.Thread(target=self._listen, name="ears", daemon=True)

    def connect(self, seconds: float | None) -> None:
        """Wait for its answer, no longer than a search may take."""
        limit = math.inf if seconds is None else seconds
        try:
            is_connected = self.driver.connect(limit)
        except RayLostError as error:
            self.lost = str(error)
            raise WorkerLostError(0, self.lost) from None
        if not is_connected:
            raise WorkerLostError(0, f"{self.driver.name} did not answer within {limit:.0f} s")
        if self._ears.ident is None:
            self._ears.start()

    def ask(self, worker: int, call: Call) -> Future[Any]:
        """Have an actor of the current search do something."""
        future: Future[Any] = Future()
        with self._one_at_a_time:
            if self.lost:
                future.set_exception(WorkerLostError(worker, self.lost))
                return future
            number = next(self._numbers)
            self._asked[number] = worker, future
        self.driver.send(Asked(number, worker, call))
        return future

    def close(self) -> None:
        self._closed.set()
        self.driver.close()

    def _listen(self) -> None:
        try:
            while not self._closed.is_set():
                message = self.driver.receive(_WAIT)
                if isinstance(message, Answered):
                    self._answer(message)
        except RayLostError as error:
            with self._one_at_a_time:
                self.lost = str(error)
                asked, self._asked = self._asked, {}
            for worker, future in asked.values():
                _fail(future, WorkerLostError(worker, self.lost))

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
