"""Explorers on Ray, on one or more machines."""

from __future__ import annotations

import contextlib
import itertools
import math
import queue
import threading
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.question import Payload, Question
from leaveout.bab.native.workers.pool import Executor, SerialThread, WorkerLostError
from leaveout.bab.native.workers.processes import later_names
from leaveout.bab.native.workers.program import Answer, Call, Setup, Told
from leaveout.bab.native.workers.worker import Worker
from leaveout.cores import cores
from leaveout.errors import FamilyError, LeaveoutError, SolverError
from leaveout.ray_cluster import RayDriver, RayLostError, need_ray
from leaveout.ray_driver import Over, Role, Say, first_line, this_machine


@dataclass(frozen=True, eq=False)
class Asked:
    """A call of one worker."""

    number: int
    worker: int
    call: Call


@dataclass(frozen=True, eq=False)
class Answered:
    """The outcome of a call; a failure ends the worker."""

    number: int
    answer: Answer


@dataclass(frozen=True)
class Revive:
    """Request for an empty worker in place of a dead one."""

    worker: int


@dataclass(frozen=True, eq=False)
class Explore(Role):
    """Role that runs a search's explorers."""

    setups: list[Setup]  # environment of the workers

    def serve(self, ray: Any, inbox: queue.SimpleQueue[object], say: Say) -> None:
        actors = _Actors(ray, self.setups)
        while not isinstance(message := inbox.get(), Over):
            match message:
                case Asked(number, worker, call):
                    done = actors.call(worker, call)
                    done.add_done_callback(partial(_answer, say, number))
                case Told(target):
                    actors.tell(target)
                case Revive(worker):
                    actors.revive(worker)
        actors.end()


def _answer(say: Say, number: int, done: Future[Answer]) -> None:
    say(Answered(number, done.result()))


class _Incumbent:
    """Actor that holds the best target found anywhere."""

    def __init__(self) -> None:
        self._best = float("-inf")

    def offer(self, target: float) -> None:
        self._best = max(self._best, target)

    def best(self) -> float:
        return self._best


class _Ear:
    """Non-blocking listener for better targets; the sender may be dead."""

    def __init__(self, ray: Any, incumbent: Any) -> None:
        self._ray, self._incumbent = ray, incumbent
        self._asked: Any = None
        self._best = float("-inf")

    def __call__(self) -> float:
        if self._asked is not None:
            ready, _ = self._ray.wait([self._asked], timeout=0)
            if not ready:
                return self._best
            try:
                self._best = max(self._best, float(self._ray.get(self._asked)))
            except self._ray.exceptions.RayError:
                # Ray restarts it; it then receives targets found from now on.
                self._asked = None
        self._asked = self._incumbent.best.remote()
        return self._best


class _Actor:
    """Actor of a worker, which listens for better targets."""

    def __init__(self, setup: Setup, incumbent: Any) -> None:
        import ray

        # Errors in an actor's constructor would only show as its death, without a reason.
        self._refused: LeaveoutError | None = None
        try:
            question = _open_payload(setup.payload)
            first, stride, threads = setup.first, setup.stride, setup.threads
            self._worker = Worker(question, setup.options, first, stride, threads)
        except LeaveoutError as error:
            self._refused = error
            return
        self._worker.listen = _Ear(ray, incumbent)

    def call(self, method: str, *arguments: Any) -> Any:
        if self._refused is not None:
            raise self._refused
        # Ray's shared arrays are read-only and in its store; nodes outlive both.
        return getattr(self._worker, method)(*arguments)


def _open_payload(payload: Payload) -> Any:
    """Open a question; its family file must exist and be unchanged."""
    try:
        return payload.open()
    except FamilyError as error:
        import ray

        machine = this_machine(ray)
        path = str(getattr(payload, "path", ""))
        if not path:
            raise
        if not Path(path).exists():
            raise FamilyError(
                f"{path}: a worker on {machine} cannot find this file: with Ray, every machine "
                "must see the family under the same path, e.g. in a shared folder"
            ) from None
        raise FamilyError(
            f"{path}: the family that a worker on {machine} reads there is not the one in the "
            f"query ({first_line(error)}): with Ray, every machine must see the same file under "
            "the same path, e.g. in a shared folder"
        ) from None


class _Actors:
    def __init__(self, ray: Any, setups: list[Setup]) -> None:
        self._ray, self._setups = ray, setups
        self._revived = 0
        self._incumbent = ray.remote(num_cpus=0, max_restarts=-1)(_Incumbent).remote()
        self._actors = [self._start_actor(setup) for setup in setups]
        self._threads = [SerialThread(f"actor {worker}") for worker in range(len(setups))]

    def call(self, worker: int, call: Call) -> Future[Answer]:
        return self._threads[worker].submit(partial(self._ask, worker, call))

    def _ask(self, worker: int, call: Call) -> Answer:
        errors = self._ray.exceptions
        try:
            asked = self._actors[worker].call.remote(call.method, *call.arguments)
            return Answer(self._ray.get(asked))
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, LeaveoutError):
                return Answer(error=cause)
            return Answer(failure=f"a worker failed: {type(cause).__name__}: {first_line(cause)}")
        except errors.RayError as error:
            return Answer(failure=f"a worker died: {first_line(error)}")

    def tell(self, target: float) -> None:
        self._incumbent.offer.remote(target)

    def revive(self, worker: int) -> None:
        self._revived += 1
        self._ray.kill(self._actors[worker])
        self._actors[worker] = self._start_actor(later_names(self._setups[worker], self._revived))

    def end(self) -> None:
        """Kill the actors, since the next ones need their cores."""
        for each in (*self._actors, self._incumbent):
            self._ray.kill(each)
        for thread in self._threads:
            thread.close()

    def _start_actor(self, setup: Setup) -> Any:
        # If the cluster has fewer cores than workers by now, workers share them.
        total = int(self._ray.cluster_resources().get("CPU", 0))
        cpus = 1 if total >= len(self._setups) else 0
        kind = self._ray.remote(num_cpus=cpus, max_restarts=0)(_Actor)
        return kind.remote(setup, self._incumbent)


_WAIT = 1.0  # seconds between checks that the cluster still answers


class RayExecutor(Executor):
    """One actor per worker, and one for the best target.

    It uses the connected cluster, the one in ``RAY_ADDRESS``, or a new one, until `close`. A large
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
        # Counts on across searches, since answers for the previous one may arrive late.
        self._numbers = itertools.count()
        self._asked: dict[int, tuple[int, Future[Any]]] = {}
        self._one_at_a_time = threading.Lock()
        self._closed = threading.Event()
        self._ears = threading.Thread(target=self._listen, name="ears", daemon=True)

    def connect(self, seconds: float | None) -> None:
        """Wait for the cluster to answer, at most as long as a search may take."""
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
        """Send an actor of the current search a call."""
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
