"""How the time of a run is shared among its statements and labels."""

from __future__ import annotations

import time

from leaveout.deadline import Deadline

__all__ = ["Clock"]

_MOSTLY = 0.5
"""Share of the time that, where loading takes it, a reason speaks of."""


class Clock:
    """Shares the time of a run fairly among what is left to do.

    Parameters
    ----------
    seconds : float or None
    started : float
        Of `time.perf_counter`, when the run began.
    jobs : int

    Attributes
    ----------
    interrupted : bool
        Whether Ctrl-C was pressed: nothing is begun any more.
    """

    def __init__(self, seconds: float | None, started: float, jobs: int) -> None:
        self._deadline = Deadline.after(seconds, started)
        self._jobs = jobs
        self.interrupted = False
        self._seconds, self._loading = seconds, time.perf_counter() - started

    @classmethod
    def ended(cls) -> Clock:
        """Return one whose time is over."""
        return cls(0.0, time.perf_counter(), 1)

    def told(self, reason: str | None) -> str | None:
        """Return the reason of a result, with what became of the time if loading took most."""
        if self._seconds is None or reason is None or not reason.startswith("time"):
            return reason
        if self._loading < _MOSTLY * self._seconds or reason.endswith("interrupted"):
            return reason
        joint = ";" if ":" in reason else ":"
        return (
            f"{reason}{joint} of {self._seconds:.3g} s, {self._loading:.3g} s went into starting "
            "and loading"
        )

    def next(self) -> float | None:
        """Seconds for the next job; called once a job."""
        share, self._jobs = max(1, self._jobs), self._jobs - 1
        return self._deadline.share(share)
