"""The parent's side of the worker processes: hands out blocks, gathers what they say."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.train.worker import Done, Event, Failed, Order, Step, Task, send_task

__all__ = ["Pool"]

OnStep = Callable[[range, int, bool], None]


class Pool:
    """Worker processes that end with this one, however it ends.

    They are started as programs of their own, so that a caller needs no ``__main__`` guard,
    and in sessions of their own, so that Ctrl-C reaches the parent alone.
    """

    def __init__(
        self, task: Task, X: NDArray[np.float32], y: NDArray[np.int64], workers: int
    ) -> None:
        self._events: queue.SimpleQueue[tuple[int, Event | None]] = queue.SimpleQueue()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._complaints: list[IO[bytes]] = []
        try:
            for index in range(workers):
                self._start(index, task, X, y)
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def run(self, blocks: Sequence[range], on_step: OnStep) -> None:
        """Train all blocks.

        Parameters
        ----------
        blocks : sequence of range
            Of networks.
        on_step : callable
            Told the block, the epochs it has behind, and whether it is on disk.

        Raises
        ------
        TrainingError
            If a block fails or a worker dies.
        """
        waiting = list(reversed(blocks))
        busy: dict[int, range] = {}
        for index in range(len(self._processes)):
            if waiting:
                busy[index] = self._order(index, waiting.pop())
        while busy:
            index, event = self._events.get()
            match event:
                case Step(epochs):
                    on_step(busy[index], epochs, False)
                case Done():
                    on_step(busy.pop(index), 0, True)
                    if waiting:
                        busy[index] = self._order(index, waiting.pop())
                case Failed(message):
                    raise TrainingError(message)
                case None:
                    raise TrainingError(self._death(index))

    def _start(self, index: int, task: Task, X: NDArray[np.float32], y: NDArray[np.int64]) -> None:
        complaint = tempfile.TemporaryFile()  # noqa: SIM115 - closed in _end
        self._complaints.append(complaint)
        process = subprocess.Popen(
            # -P: files beside the user's data must not shadow modules.
            [sys.executable, "-P", "-m", "leaveout.models.train.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaint,
            env=_environment(),
            start_new_session=True,
        )
        self._processes.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        threading.Thread(target=self._listen, args=(index, process.stdout), daemon=True).start()
        try:
            send_task(process.stdin, task, X, y)
        except BrokenPipeError:
            raise TrainingError(self._death(index)) from None

    def _listen(self, index: int, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                try:
                    self._events.put((index, msgspec.json.decode(line, type=Event)))
                except msgspec.DecodeError:
                    break
        self._events.put((index, None))

    def _order(self, index: int, block: range) -> range:
        stream = self._processes[index].stdin
        assert stream is not None
        try:
            stream.write(msgspec.json.encode(Order(block.start, block.stop)) + b"\n")
            stream.flush()
        except BrokenPipeError:
            raise TrainingError(self._death(index)) from None
        return block

    def _death(self, index: int) -> str:
        process, complaint = self._processes[index], self._complaints[index]
        try:
            code = process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            code = 0
        complaint.seek(0)
        last = complaint.read().decode(errors="replace").strip().rsplit("\n", 1)[-1]
        reason = f"signal {-code}" if code < 0 else last or f"exit code {code}"
        return (
            f"a worker process ended before its work was done ({reason}); finished blocks are "
            "kept: run the same command again, with fewer --workers or a smaller --block if "
            "memory ran out"
        )

    def _end(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            if process.stdin is not None:
                # Closing flushes what the dead process can no longer take.
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
        for complaint in self._complaints:
            complaint.close()


def _environment() -> dict[str, str]:
    settings = {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        # Sums must not depend on where in memory a matrix begins.
        "MKL_CBWR": "AUTO,STRICT",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
    return {**os.environ, **settings}
