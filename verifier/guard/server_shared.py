"""What all processes of one server know together: numbers in shared memory, and turns."""

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
    """A lock among processes, which one that dies gives back. It is not one among threads.

    Made before the processes are forked. Whoever waits is woken by the system: SQLite's own
    waiting looks again after up to a tenth of a second.
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
        """Open a file that is in memory alone: a container may have no disk to write to."""
        assert sys.platform == "linux"
        return os.memfd_create("leaveout-turn")


class Shared:
    """Numbers that all processes of a server see; made before they are forked."""

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
    def closed(self) -> bool:
        """Whether one process had to close its guard: from then on all refuse everything."""
        return bool(self._flags[0])

    def close(self) -> None:
        """Have all processes refuse everything: were it one alone, it would tell what leaks."""
        self._flags[0] = 1

    @property
    def restarts(self) -> int:
        """How often a process was started in place of one that had ended."""
        return int(self._flags[1])

    def restarted(self) -> None:
        """Count one; for the parent alone."""
        self._flags[1] += 1
