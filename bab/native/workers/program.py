"""The program of a worker process: a `Worker` called over two pipes."""

from __future__ import annotations

import queue
from dataclasses import dataclass
from typing import IO, Any

from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.question import Payload
from leaveout.bab.native.workers.worker import Worker
from leaveout.errors import LeaveoutError
from leaveout.frames import follow, own_channel, write_frame


@dataclass(frozen=True, eq=False)
class Setup:
    """What a process needs to create its `Worker`."""

    payload: Payload
    options: NativeOptions
    first: int
    stride: int
    threads: int


@dataclass(frozen=True, eq=False)
class Call:
    """A call of a method."""

    method: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Told:
    """A target found elsewhere; has no answer."""

    target: float


@dataclass(frozen=True, eq=False)
class Answer:
    """The outcome of a call."""

    value: Any = None
    error: LeaveoutError | None = None  # message of an error that the user can fix
    failure: str = ""  # any other exception; the worker is unusable after it


class _Server:
    """Server of one worker until the parent closes the pipe."""

    def __init__(self, requests: IO[bytes], replies: IO[bytes]) -> None:
        self._requests, self._replies = requests, replies
        self._calls: queue.SimpleQueue[Setup | Call] = queue.SimpleQueue()
        self._worker: Worker | None = None

    def run(self) -> None:
        follow(self._requests, object, self._hear)
        while True:
            call = self._calls.get()
            try:
                answer = Answer(self._do(call))
            except LeaveoutError as error:
                answer = Answer(error=error)
            except Exception as error:
                answer = Answer(failure=f"{type(error).__name__}: {error}")
            write_frame(self._replies, answer)
            # Release it before waiting: nodes may take gigabytes.
            del call, answer

    def _do(self, call: Setup | Call) -> Any:
        if isinstance(call, Setup):
            self._worker = Worker(
                call.payload.open(),
                call.options,
                call.first,
                call.stride,
                call.threads,
            )
            return None
        return getattr(self._worker, call.method)(*call.arguments)

    def _hear(self, message: object) -> None:
        if not isinstance(message, Told):
            assert isinstance(message, Setup | Call)
            self._calls.put(message)
        elif self._worker is not None:
            self._worker.tell(message.target)


def main() -> None:
    """Serve the parent over the standard descriptors, kept from libraries' output."""
    _Server(*own_channel()).run()


if __name__ == "__main__":
    # Under its importable name, so that messages have the classes the parent knows.
    from leaveout.bab.native.workers import program as worker

    worker.main()
