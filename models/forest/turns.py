"""Who may look at a forest while it is changed in place: many at once look, or one changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Turns:
    """Lets functions look at the same time, and changes happen while nothing else does.

    Whoever looks holds one of eight locks, whoever changes all of them. They are taken by ``with``
    on locks of the interpreter, which no signal comes in between, so that Ctrl-C leaves none held.
    Neither kind may start another inside. Each looks at most once more before a waiting change.
    """

    def __init__(self) -> None:
        self.changes = threading.Lock()
        self._gate = threading.Lock()
        self._places = tuple(threading.Lock() for _ in range(8))

    def look(self, at: Callable[[], T]) -> T:
        """Return what a function returns that changes nothing."""
        with self._gate:
            # Native numbers of threads follow one another; addresses are multiples of a page.
            mine = self._places[threading.get_native_id() % len(self._places)]
        with mine:
            return at()

    def change(self, what: Callable[[], T]) -> T:
        """Return what a function returns that changes something others look at."""
        a, b, c, d, e, f, g, h = self._places
        with self._gate, a, b, c, d, e, f, g, h:
            return what()
