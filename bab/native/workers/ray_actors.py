"""Explorers as Ray actors: the driver's part and the actors."""

from __future__ import annotations

import queue
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from leaveout.bab.native.question import Payload
from leaveout.bab.native.workers.processes import later_names
from leaveout.bab.native.workers.program import Answer, Call, Setup, Told
from leaveout.bab.native.workers.serial import SerialThread
from leaveout.bab.native.workers.worker import Worker
from leaveout.errors import FamilyError, LeaveoutError
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

    setups: list[Setup]  # of the workers

    def serve(self, ray: Any, inbox: queue.SimpleQueue[object], say: Say) -> None:
        """See `Role.serve`."""
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
    """Non-blocking listener for better targets, whose sender may be dead."""

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
                # One is started in its place, and is told what is found from now on.
                self._asked = None
        self._asked = self._incumbent.best.remote()
        return self._best


class _Actor:
    """Actor of a worker, which listens for better targets."""

    def __init__(self, setup: Setup, incumbent: Any) -> None:
        import ray

        # An error in the making of an actor is a death, and tells nobody of what.
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
        # Arrays that ray shares are read-only and stay in its store; nodes outlive both.
        return getattr(self._worker, method)(*arguments)


def _open_payload(payload: Payload) -> Any:
    """Open a question, whose family file must exist unchanged."""
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
                f"{path}: a worker on {machine} does not see this file: on Ray every machine must "
                "see the family under the same path, as in a shared folder"
            ) from None
        raise FamilyError(
            f"{path}: a worker on {machine} does not read the family there that was asked about "
            f"({first_line(error)}): on Ray every machine must see the same file under the same "
            "path, as in a shared folder"
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
        """Kill the actors, as the next ones need their cores."""
        for each in (*self._actors, self._incumbent):
            self._ray.kill(each)
        for thread in self._threads:
            thread.close()

    def _start_actor(self, setup: Setup) -> Any:
        """Return a new actor for a worker's setup."""
        # More workers than the cluster has cores, by now, share them.
        total = int(self._ray.cluster_resources().get("CPU", 0))
        cpus = 1 if total >= len(self._setups) else 0
        kind = self._ray.remote(num_cpus=cpus, max_restarts=0)(_Actor)
        return kind.remote(setup, self._incumbent)
