"""Deadlines."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass


class OverdueError(Exception):
    """Work that a deadline ended."""


@dataclass(frozen=True)
class Deadline:
    """A moment by which work must be done."""

    at: float = math.inf  # as `time.perf_counter`; infinity for no limit

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

    def check(self) -> None:
        """Raise `OverdueError` once the moment has come."""
        if self.over:
            raise OverdueError

    def part(self, share: float) -> Deadline:
        """Return the moment when a share of the seconds left is over."""
        left = self.limit
        return self if left is None else Deadline.after(share * left)

    def share(self, parts: int) -> float | None:
        """Return each part's share of the seconds left; None without a limit."""
        left = self.limit
        return None if left is None else left / parts

    def later(self, seconds: float) -> Deadline:
        """Return the moment some seconds later."""
        return Deadline(self.at + seconds)


NEVER = Deadline()
"""The deadline that never comes."""
