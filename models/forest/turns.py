"""Readers-writer lock for a forest that is changed in place."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class ReadWriteLock:
    """Readers-writer lock: many readers at once, or one writer.

    A reader holds one of eight locks, a writer all. ``with`` on interpreter locks makes it safe
    against Ctrl-C. Not reentrant; a waiting writer lets each reader in at most once more.
    """

    def __init__(self) -> None:
        self.changes = threading.Lock()
        self._gate = threading.Lock()
        self._places = tuple(threading.Lock() for _ in range(8))

    def read(self, at: Callable[[], T]) -> T:
        """Return a function's result, under the readers' lock."""
        with self._gate:
            # Native numbers of threads follow one another; addresses are multiples of a page.
            mine = self._places[threading.get_native_id() % len(self._places)]
        with mine:
            return at()

    def write(self, what: Callable[[], T]) -> T:
        """Return the result of a function that changes the state, under the writers' lock."""
        a, b, c, d, e, f, g, h = self._places
        with self._gate, a, b, c, d, e, f, g, h:
            return what()
