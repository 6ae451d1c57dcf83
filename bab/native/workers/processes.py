"""Explorers in processes of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future
from typing import IO, Any

from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.question import Question
from leaveout.bab.native.workers.pool import WorkerLostError
from leaveout.bab.native.workers.program import Answer, Call, Setup, Told
from leaveout.bab.native.workers.serial import SerialThread
from leaveout.cores import cores
from leaveout.solvers.frames import read_frame, write_frame

__all__ = ["ProcessExecutor", "later_names"]

_WORKER = "leaveout.bab.native.workers.program"

_NAMES = 2**40
"""More names than one worker ever gives: one that takes a dead one's place starts above them."""


def later_names(setup: Setup, times: int) -> Setup:
    """Return a setup whose names come after those of so many that were used before."""
    first = setup.first + setup.stride * _NAMES * times
    return Setup(setup.payload, setup.options, first, setup.stride, setup.threads)


class ProcessExecutor:
    """One process a worker, each with its share of the cores.

    They are started as programs, not as copies of this one: a user's script needs no guard, and
    may come from standard input. They end with this process, whatever ends it.
    """

    def pool(self, question: Question[Any], options: NativeOptions) -> _Processes:
        """See `Executor.pool`."""
        payload, size = question.payload(), options.workers
        threads = max(1, cores() // size)
        return _Processes([Setup(payload, options, w, size, threads) for w in range(size)])


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
            # By a thread: Ctrl-C must not leave half a message in a pipe.
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
    """One process, the thread that talks to it, and its complaints."""

    def __init__(self, worker: int, setup: Setup) -> None:
        self._worker = worker
        self._write = threading.Lock()
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            # -P: a user's own numpy.py in the working directory is not the library.
            [sys.executable, "-P", "-m", _WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env=_environment(setup.threads),
            # A group of its own: Ctrl-C at the terminal is the parent's to handle.
            process_group=0 if os.name == "posix" else None,
        )
        self._thread = SerialThread(f"worker {worker}")
        self._ready = self.call(setup)

    @property
    def pid(self) -> int:
        return self._process.pid

    def call(self, message: Setup | Call) -> Future[Any]:
        return self._thread.submit(lambda: self._ask(message))

    def _ask(self, message: Setup | Call) -> Any:
        if isinstance(message, Call):
            # What kept it from starting is what every call says.
            self._ready.result()
        replies = self._process.stdout
        assert replies is not None
        try:
            self._send(message)
            answer = read_frame(replies, Answer)
        except (EOFError, OSError, ValueError):
            raise WorkerLostError(self._worker, self._obituary()) from None
        if answer.error is not None:
            raise answer.error
        if answer.failure:
            raise WorkerLostError(self._worker, f"a worker failed: {answer.failure}")
        return answer.value

    def tell(self, target: float) -> None:
        # Who does not hear it any more does not need it.
        with contextlib.suppress(OSError, ValueError):
            self._send(Told(target))

    def _send(self, message: object) -> None:
        requests = self._process.stdin
        assert requests is not None
        with self._write:
            write_frame(requests, message)

    def end(self) -> None:
        if os.name == "posix":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        # By its own thread, which may be reading still.
        self._thread.submit(self._close)
        self._thread.close()

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout, self._complaints):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _obituary(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        last = f": {lines[-1].strip()}" if lines else ""
        return f"a worker died (exit status {self._process.returncode}){last}"


def _environment(threads: int) -> dict[str, str]:
    # What this process can import, its workers can: a script's folder, a test's path.
    path = os.pathsep.join(path for path in sys.path if path)
    own = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return {**os.environ, **own, "PYTHONPATH": path}
