"""Explorers in separate processes."""

from __future__ import annotations

import contextlib
from concurrent.futures import Future
from typing import Any

from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.question import Question
from leaveout.bab.native.workers.pool import Executor, SerialThread, WorkerLostError
from leaveout.bab.native.workers.program import Answer, Call, Setup, Told
from leaveout.children import Child, import_environment
from leaveout.cores import cores

_PROGRAM = "leaveout.bab.native.workers.program"

_NAMES = 2**40
"""More than the number of names that one worker uses: a replacement starts above them."""


def later_names(setup: Setup, times: int) -> Setup:
    """Return a setup whose node numbers follow those of ``times`` earlier ones."""
    first = setup.first + setup.stride * _NAMES * times
    return Setup(setup.payload, setup.options, first, setup.stride, setup.threads)


class ProcessExecutor(Executor):
    """One process per worker, with its share of the cores.

    They are started as programs, not forks: a user's script needs no guard and may come from stdin.
    They end with this process.
    """

    def pool(self, question: Question[Any], options: NativeOptions) -> _Processes:
        payload, size = question.payload(), options.workers
        threads = max(1, cores() // size)
        return _Processes([Setup(payload, options, w, size, threads) for w in range(size)])

    def close(self) -> None:
        """See `Executor.close`; there is nothing to release."""


class _Processes:
    def __init__(self, setups: list[Setup]) -> None:
        self.size = len(setups)
        self._setups = setups
        self._revived = 0
        self._teller = SerialThread("teller")
        self._workers: list[_Worker] = []
        try:
            for worker, setup in enumerate(setups):
                self._workers.append(_Worker(worker, setup))
        except BaseException:
            self.close()
            raise

    def call(self, worker: int, method: str, *arguments: Any) -> Future[Any]:
        return self._workers[worker].call(Call(method, arguments))

    def tell(self, target: float) -> None:
        for each in self._workers:
            # In a thread, since Ctrl-C must not leave half a message in a pipe.
            self._teller.submit(lambda each=each: each.tell(target))  # type: ignore[misc]

    def revive(self, worker: int) -> None:
        self._revived += 1
        self._workers[worker].end()
        setup = later_names(self._setups[worker], self._revived)
        self._workers[worker] = _Worker(worker, setup)

    def close(self) -> None:
        for each in self._workers:
            each.end()
        self._teller.close()


class _Worker:
    """One process, and the thread that talks to it."""

    def __init__(self, worker: int, setup: Setup) -> None:
        self._worker = worker
        self._child = Child(_PROGRAM, settings={**_threads(setup.threads), **import_environment()})
        self._thread = SerialThread(f"worker {worker}")
        self._ready = self.call(setup)

    @property
    def pid(self) -> int:
        return self._child.pid

    def call(self, message: Setup | Call) -> Future[Any]:
        return self._thread.submit(lambda: self._ask(message))

    def _ask(self, message: Setup | Call) -> Any:
        if isinstance(message, Call):
            # Every call reports why it did not start.
            self._ready.result()
        try:
            self._child.send(message)
            answer = self._child.read(Answer)
        except (EOFError, OSError, ValueError):
            raise WorkerLostError(self._worker, self._obituary()) from None
        if answer.error is not None:
            raise answer.error
        if answer.failure:
            raise WorkerLostError(self._worker, f"a worker failed: {answer.failure}")
        return answer.value

    def tell(self, target: float) -> None:
        # The process has ended, so the message is not needed.
        with contextlib.suppress(OSError, ValueError):
            self._child.send(Told(target))

    def end(self) -> None:
        self._child.end()
        # By its own thread, which may still be reading.
        self._thread.submit(self._child.close)
        self._thread.close()

    def _obituary(self) -> str:
        status, words = self._child.exit_status(), self._child.last_words()
        return f"a worker died (exit status {status})" + (f": {words}" if words else "")


def _threads(count: int) -> dict[str, str]:
    return {name: str(count) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
