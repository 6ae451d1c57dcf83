"""Sharing of a run's time among statements and their searches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from leaveout.bab import SearchResult
from leaveout.deadline import Deadline

Part = TypeVar("Part")
W = TypeVar("W")

_MOSTLY = 0.5  # share of the time that, where loading takes it, a reason speaks of


_WORTH = 1.0  # seconds for which searches that ended go on ...
_MOSTLY_LEFT = 0.9  # ... unless they left nearly all the last time, and none of them ended


class Clock:
    """Shares a run's time fairly among the remaining searches."""

    def __init__(self, seconds: float | None, started: float, jobs: int) -> None:
        self._deadline = Deadline.after(seconds, started)
        self.jobs_left = jobs
        self.goes_on = False  # whether searches go on from where they ended
        self._before = math.inf, math.inf  # the seconds and searches when they last did
        self.interrupted = False
        self._seconds, self._loading = seconds, time.perf_counter() - started

    @classmethod
    def without_time(cls) -> Clock:
        """Return a clock whose time is over."""
        return cls(0.0, time.perf_counter(), 1)

    def explain_reason(self, reason: str | None) -> str | None:
        """Return a result's reason, explained if loading took most of the time."""
        if self._seconds is None or reason is None or not reason.startswith("time"):
            return reason
        if self._loading < _MOSTLY * self._seconds or reason.endswith("interrupted"):
            return reason
        joint = ";" if ":" in reason else ":"
        return (
            f"{reason}{joint} of {self._seconds:.3g} s, {self._loading:.3g} s were spent on "
            "starting and loading"
        )

    @property
    def seconds_left(self) -> float | None:
        """Seconds left for all; None without a limit."""
        return self._deadline.limit

    def go_on(self, jobs: int) -> bool:
        """Divide what is left of the time among searches that ended; return whether it pays."""
        left, (left_before, jobs_before) = self.seconds_left, self._before
        if not jobs or left is None or left < _WORTH or self.interrupted:
            return False
        if left > _MOSTLY_LEFT * left_before and jobs >= jobs_before:
            return False
        self.jobs_left, self._before, self.goes_on = jobs, (left, jobs), True
        return True

    def next(self) -> float | None:
        """Return the seconds for the next job, 0 after Ctrl-C; call it once per job."""
        share, self.jobs_left = max(1, self.jobs_left), self.jobs_left - 1
        return 0.0 if self.interrupted else self._deadline.share(share)

    def skip(self, jobs: int) -> None:
        """Give the time of some jobs to the others."""
        self.jobs_left -= jobs

    def part(self, jobs: int) -> Clock:
        """Return a clock that divides the next job's time among its parts."""
        return Clock(self.next(), time.perf_counter(), jobs)


def in_turn(
    parts: Sequence[Part],
    search: Callable[[Part, float], SearchResult[W]],
    unsearched: Callable[[Part], SearchResult[W]],
    clock: Clock,
    *,
    floor: float,
    decide: bool,
) -> list[SearchResult[W]]:
    """Search the parts of a statement one after another."""
    found: list[SearchResult[W]] = []
    for part in parts:
        try:
            found.append(search(part, floor))
        except KeyboardInterrupt:
            clock.interrupted = True
            found.append(unsearched(part))
        last = found[-1]
        clock.interrupted = clock.interrupted or last.interrupted
        if not decide:
            floor = max(floor, last.lower)
        elif last.witness is not None and last.lower > floor:
            clock.skip(len(parts) - len(found))
            break
    return found
