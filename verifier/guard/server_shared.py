"""State shared by all server processes: numbers in memory, and a lock."""

from __future__ import annotations

import mmap
import os
import secrets
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

SLOTS = 8192
"""Askers whose allowances are known at once."""

BUCKET = np.dtype([("who", np.uint64), ("left", np.float64), ("at", np.float64)])
"""Of one asker: a digest of the name, 0 for none; rows left; when that was, on the steady clock."""


class Turn:
    """A lock among processes (not threads), released if its holder dies.

    Make it before forking. Waiters are woken by the system; SQLite's own waiting polls every tenth
    of a second.
    """

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
