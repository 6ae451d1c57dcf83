"""Members trained by this process or by several; how many changes speed, never the result."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from leaveout.errors import TrainingError
from leaveout.models.votes.learners import TORCH
from leaveout.models.votes.member import Member, Task, train_member

__all__ = ["one_thread", "train_members"]

_Answer = tuple[int, Member | Exception | None]
_AFTER_DEATH = 5.0


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold numerical libraries to one thread, so that the order of a sum is fixed."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield


def train_members(task: Task, workers: int, on_done: Callable[[int], None]) -> list[Member]:
    """Train every member; ``on_done`` is told how many are behind.

    With one worker this process does it, unless torch is to: its products are the same bits only
    where the process was started for that.

    Raises
    ------
    TrainingError
        If a member cannot be trained or a worker dies; of several, the first member's.
    """
    if workers == 1 and task.learner.name != TORCH:
        members = []
        # Libraries that a learner loads later would escape a limit that was set before.
        if task.learner.prototype is not None:
            task.learner.estimator(task.seed)
        with one_thread():
            for index in range(len(task.rows)):
                members.append(train_member(task, index))
                on_done(index + 1)
        return members
    with _Workers(task, min(workers, len(task.rows))) as pool:
        return pool.run(len(task.rows), on_done)


class _Workers:
    """Worker processes that end with this one, however it ends.

    They are started as programs of their own, so that a caller needs no ``__main__`` guard, and
    in sessions of their own, so that Ctrl-C reaches the parent alone.
    """

    def __init__(self, task: Task, workers: int) -> None:
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._complaints: list[IO[bytes]] = []
        content = pickle.dumps(task, protocol=pickle.HIGHEST_PROTOCOL)
        try:
            for index in range(workers):
                self._start(index)
            # Once all are starting, so that they do so side by side.
            for index in range(workers):
                self._send(index, content)
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *exception: object) -> None:
        self._end()

    def run(self, count: int, on_done: Callable[[int], None]) -> list[Member]:
        members: dict[int, Member] = {}
        failed: dict[int, Exception] = {}
        waiting = list(reversed(range(count)))
        busy: dict[int, int] = {}
        for worker in range(len(self._processes)):
            busy[worker] = self._order(worker, waiting.pop())
        while busy:
            worker, answer = self._answers.get()
            member = busy.pop(worker)
            if answer is None:
                raise TrainingError(self._death(worker))
            if isinstance(answer, Exception):
                failed[member] = answer
            else:
                members[member] = answer
                on_done(len(members))
            # Members before one that failed may fail too; the message is of the first.
            if waiting and not failed:
                busy[worker] = self._order(worker, waiting.pop())
        if failed:
            raise failed[min(failed)]
        return [members[index] for index in range(count)]

    def _start(self, index: int) -> None:
        complaint = tempfile.TemporaryFile()  # noqa: SIM115 - closed in _end
        self._complaints.append(complaint)
        process = subprocess.Popen(
            # -P: files beside the user's data must not shadow modules.
            [sys.executable, "-P", "-m", "leaveout.models.votes.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaint,
            env=_environment(),
            start_new_session=True,
        )
        self._processes.append(process)
        assert process.stdout is not None
        threading.Thread(target=self._listen, args=(index, process.stdout), daemon=True).start()

    def _listen(self, index: int, stream: IO[bytes]) -> None:
        with stream, contextlib.suppress(EOFError, pickle.UnpicklingError, OSError):
            while True:
                self._answers.put((index, pickle.load(stream)))
        self._answers.put((index, None))

    def _order(self, worker: int, member: int) -> int:
        self._send(worker, b"%d\n" % member)
        return member

    def _send(self, worker: int, content: bytes) -> None:
        stream = self._processes[worker].stdin
        assert stream is not None
        try:
            stream.write(content)
            stream.flush()
        except BrokenPipeError:
            raise TrainingError(self._death(worker)) from None

    def _death(self, index: int) -> str:
        process, complaint = self._processes[index], self._complaints[index]
        try:
            code = process.wait(timeout=_AFTER_DEATH)
        except subprocess.TimeoutExpired:
            code = 0
        complaint.seek(0)
        last = complaint.read().decode(errors="replace").strip().rsplit("\n", 1)[-1]
        reason = f"signal {-code}" if code < 0 else last or f"exit code {code}"
        return (
            f"a worker process ended before its work was done ({reason}); nothing is written: run "
            "the command again, with fewer --workers if memory ran out"
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
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        # Sums must not depend on where in memory a matrix begins.
        "MKL_CBWR": "AUTO,STRICT",
    }
    return {**os.environ, **settings}
