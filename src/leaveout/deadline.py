"""Deadlines."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Deadline:
    """A moment by which something must be done."""

    at: float = math.inf  # of `time.perf_counter`; infinity where there is no such moment

    @classmethod
    def after(cls, seconds: float | None, since: float | None = None) -> Deadline:
        """Return the moment some seconds from now or from ``since``."""
        if seconds is None:
            return cls()
        return cls((time.perf_counter() if since is None else since) + seconds)

    @property
    def over(self) -> bool:
        """Whether the moment has come."""
        return time.perf_counter() >= self.at

    @property
    def seconds_left(self) -> float:
        """Seconds left, 0 once it is over; infinity without a limit."""
        return max(0.0, self.at - time.perf_counter())

    @property
    def limit(self) -> float | None:
        """Seconds left, 0 once it is over; None without a limit."""
        return None if math.isinf(self.at) else self.seconds_left

    def share(self, parts: int) -> float | None:
        """Return the seconds left for each of some parts; None without a limit."""
        left = self.limit
        return None if left is None else left / parts

    def later(self, seconds: float) -> Deadline:
        """Return the moment some seconds later."""
        return Deadline(self.at + seconds)


NEVER = Deadline()
"""Without a limit."""
