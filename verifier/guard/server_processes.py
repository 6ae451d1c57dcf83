"""Server processes, forked once the guard is loaded and replaced when they die."""

from __future__ import annotations

import contextlib
import gc
import logging
import mmap
import os
import secrets
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import GuardError, LeaveoutError

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD) if os.name == "posix" else ()

_FIRST_WAIT, _LONGEST_WAIT = 0.25, 30.0
"""Seconds before a process is started in place of one that died; twice as many each time."""

_LASTING = 30.0  # seconds after which a process that dies was none that dies at once
_SPARE = 10.0  # seconds that processes have to end in beyond those they were given

_log = logging.getLogger("leaveout.guard")


def in_child(work: Callable[[], bytes]) -> bytes:
    """Run work in a forked process and return its result, without its threads here."""
    read, write = os.pipe()
    pid = _fork()
    if pid == 0:
        os.close(read)
        with contextlib.suppress(BaseException):
            try:
                said = b"+" + work()
            except LeaveoutError as error:
                said = b"-" + str(error).encode()
            with os.fdopen(write, "wb") as stream:
                stream.write(said)
        _leave(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        said = stream.read()
    _, status = os.waitpid(pid, 0)
    if said[:1] == b"+":
        return said[1:]
    raise GuardError(said[1:].decode() or f"a process {_exit_text(status)} during measurement")


@dataclass
class _Child:
    """A child process."""

    index: int
    pid: int
    begun: float
    ready: bool = False


class Children:
    """The processes of a server, supervised until all have ended."""

    def __init__(
        self,
        count: int,
        work: Callable[[int, Callable[[], None], int], None],
        *,
        on_ready: Callable[[], None],
        on_end: Callable[[], None],
        on_restart: Callable[[], None],
        patience: float,
    ) -> None:
        self._count, self._work, self._patience = count, work, patience
        self._on_ready, self._on_end, self._on_restart = on_ready, on_end, on_restart
        self._running: dict[int, _Child] = {}
        self._due: dict[int, float] = {}
        self._deaths = [0] * count
        self._told = False
        self._failure: GuardError | None = None
        self._kill_at: float | None = None

    def run(self) -> None:
        """Start all processes and return once they have ended."""
        self._selector = selectors.DefaultSelector()
        alive, self._alive = os.pipe()
        self._orphaned = alive
        with self._signals() as wake:
            self._selector.register(wake, selectors.EVENT_READ)
            try:
                for index in range(self._count):
                    self._start(index)
                while self._running or (self._due and self._kill_at is None):
                    self._look(wake)
            finally:
                # Whatever went wrong here: they end, as this process will.
                for pid in self._running:
                    _send(pid, signal.SIGKILL)
                self._selector.close()
        if self._failure is not None:
            raise self._failure

    def _look(self, wake: int) -> None:
        """Wait for the next event and handle what is due."""
        for key, _ in self._selector.select(self._timeout()):
            if key.fd == wake:
                for number in os.read(wake, 512):
                    self._handle_signal(number)
            else:
                self._read_readiness(key.fd, key.data)
        self._reap()
        now = time.monotonic()
        if self._kill_at is not None and now >= self._kill_at and self._running:
            _log.error("killing %d processes that did not exit in time", len(self._running))
            self._kill_at = now + _SPARE
            for pid in self._running:
                _send(pid, signal.SIGKILL)
        if self._kill_at is None:
            for index in [each for each, due in self._due.items() if due <= now]:
                del self._due[index]
                self._on_restart()
                self._start(index)

    def _timeout(self) -> float | None:
        due = [*self._due.values()] if self._kill_at is None else [self._kill_at]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _start(self, index: int) -> None:
        read, write = os.pipe()
        pid = _fork()
        if pid == 0:
            os.close(read)
            self._become(index, write)
        os.close(write)
        self._running[pid] = _Child(index, pid, time.monotonic())
        self._selector.register(read, selectors.EVENT_READ, pid)

    def _become(self, index: int, ready: int) -> NoReturn:
        """Run as a child."""
        status = 1
        try:
            # Ctrl-C at a terminal is the parent's to handle.
            os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            os.close(self._alive)
            self._selector.close()
            self._work(
                index, lambda: os.close(ready) if os.write(ready, b"+") else None, self._orphaned
            )
            status = 0
        except LeaveoutError as error:
            _log.error("process %d: %s", index + 1, error)
        except BaseException:
            _log.exception("process %d failed", index + 1)
        _leave(status)

    def _read_readiness(self, descriptor: int, pid: int) -> None:
        """Note that a process answers, or that it is gone if its pipe closes."""
        said = os.read(descriptor, 1)
        self._selector.unregister(descriptor)
        os.close(descriptor)
        child = self._running.get(pid)
        if not said or child is None:
            return
        child.ready = True
        if not self._told and all(each.ready for each in self._running.values()):
            self._told = True
            self._on_ready()

    def _handle_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            return
        if self._kill_at is None:
            self._end()
        elif number == signal.SIGINT:
            for pid in self._running:
                _send(pid, signal.SIGINT)

    def _end(self) -> None:
        self._kill_at = time.monotonic() + self._patience + _SPARE
        self._on_end()
        for pid in self._running:
            _send(pid, signal.SIGTERM)

    def _reap(self) -> None:
        for child in list(self._running.values()):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                del self._running[pid]
                if self._kill_at is None:
                    self._replace_child(child, status)

    def _replace_child(self, child: _Child, status: int) -> None:
        """Replace a process that died; at the start, end all."""
        how = _exit_text(status)
        if not self._told:
            self._failure = GuardError(f"process {child.index + 1} {how} before it was ready")
            self._end()
            return
        now = time.monotonic()
        if now - child.begun >= _LASTING:
            self._deaths[child.index] = 0
        wait = min(_FIRST_WAIT * 2 ** self._deaths[child.index], _LONGEST_WAIT)
        self._deaths[child.index] += 1
        self._due[child.index] = now + wait
        _log.warning(
            "process %d (pid %d) %s; restarting it in %g s",
            child.index + 1,
            child.pid,
            how,
            wait,
        )

    @contextlib.contextmanager
    def _signals(self) -> Iterator[int]:
        """Route signals to a pipe; yield its end to read from."""
        read, write = os.pipe()
        for each in (read, write):
            os.set_blocking(each, False)
        before = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
        written = signal.set_wakeup_fd(write)
        try:
            yield read
        finally:
            signal.set_wakeup_fd(written)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(read)
            os.close(write)


def _fork() -> int:
    """Fork; unchanged memory stays shared."""
    sys.stdout.flush()
    sys.stderr.flush()
    gc.collect()
    gc.freeze()
    return os.fork()


def _leave(status: int) -> NoReturn:
    """End a forked process without the parent's exit handlers."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(status)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _exit_text(status: int) -> str:
    """Return how a process ended, in words."""
    code = os.waitstatus_to_exitcode(status)
    return f"was killed by signal {-code}" if code < 0 else f"exited with status {code}"


SLOTS = 8192  # askers whose allowances are known at once

BUCKET = np.dtype([("who", np.uint64), ("left", np.float64), ("at", np.float64)])
"""Of one asker: a digest of the name, 0 for none; rows left; when that was, on the steady clock."""


class Turn:
    """A lock among processes made before they fork, released if its holder dies."""

    def __init__(self) -> None:
        self._descriptor = self._memory()
        self._process = os.getpid()

    def __enter__(self) -> None:
        import fcntl

        if os.getpid() != self._process:
            # A lock belongs to an open file, which forked processes have in common.
            self._descriptor = os.open(f"/proc/self/fd/{self._descriptor}", os.O_RDWR)
            self._process = os.getpid()
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        import fcntl

        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    @staticmethod
    def _memory() -> int:
        """Open an in-memory file, since a container may have no writable disk."""
        assert sys.platform == "linux"
        return os.memfd_create("leaveout-turn")


class Shared:
    """Numbers that all server processes see; made before they fork."""

    def __init__(self, processes: int, numbers: int) -> None:
        sizes = [16, 8 * processes * numbers, SLOTS * BUCKET.itemsize]
        room = mmap.mmap(-1, sum(sizes))
        self._flags: NDArray[np.int64] = np.ndarray(2, np.int64, room)
        self.counts: NDArray[np.int64] = np.ndarray((processes, numbers), np.int64, room, sizes[0])
        self.buckets: NDArray[np.void] = np.ndarray(SLOTS, BUCKET, room, sum(sizes[:2]))
        self.rating: AbstractContextManager[None] = Turn() if processes > 1 else nullcontext()
        self.writing: AbstractContextManager[None] = Turn() if processes > 1 else nullcontext()
        self.salt = secrets.token_bytes(16)
        self.started = time.time()

    @property
    def any_closed(self) -> bool:
        """Whether a process closed its guard, so that all must refuse."""
        return bool(self._flags[0])

    def close(self) -> None:
        """Make all processes refuse; a single one refusing would reveal leaks."""
        self._flags[0] = 1

    @property
    def restarts(self) -> int:
        """How many times a process was replaced."""
        return int(self._flags[1])

    def count_restart(self) -> None:
        """Count a restart; only the parent calls this."""
        self._flags[1] += 1
