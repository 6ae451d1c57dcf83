"""What an engine returns, and how it reports on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.witness import Witness

__all__ = ["EngineResult", "Progress", "ProgressCallback", "Reason", "agree"]

Reason = Literal["time", "solver", "numerical"]


@dataclass(frozen=True, eq=False)
class EngineResult:
    """Two-sided bounds on the largest confidence of a leak with one label.

    Attributes
    ----------
    label : int
    lower : float
        Confidence of the witness, or 0.
    upper : float
        No leak over the box and the family has a higher float32 confidence.
    witness : Witness or None
    closed : bool
        Whether the bounds agree to the gap asked for, or settle the floor asked about.
    reason : {"time", "solver", "numerical"} or None
        Why not, where they do not.
    detail : str
        One more sentence on the reason.
    member_upper : ndarray of float64, shape (members,)
        No leak of this member has a higher confidence.
    solved : int
        Problems given to the solver.
    seconds : float
    interrupted : bool
        Whether Ctrl-C ended the search.
    betrayed : bool
        Whether a replayed leak contradicted a bound of the solver; the bounds are propagation's.
    """

    label: int
    lower: float
    upper: float
    witness: Witness | None
    closed: bool
    reason: Reason | None
    detail: str
    member_upper: NDArray[np.float64]
    solved: int
    seconds: float
    interrupted: bool = False
    betrayed: bool = False

    def stopped(self, detail: str, gap: float) -> EngineResult:
        """Return the same bounds as those of a search that time did not allow to go on."""
        closed = agree(self.lower, self.upper, gap)
        reason: Reason | None = None if closed else "time"
        return replace(
            self, closed=closed, reason=reason, detail="" if closed else detail, seconds=0.0
        )


def agree(lower: float, upper: float, gap: float) -> bool:
    """Whether two bounds agree to a relative gap."""
    return upper <= 0 or upper - lower <= gap * upper


@dataclass(frozen=True)
class Progress:
    """A moment of a run.

    Attributes
    ----------
    label : int
    lower, upper : float
    open_sets : int
        Sets of members that may still hold a worse leak.
    solved : int
    seconds : float
        Since the start of this label.
    remaining : float or None
        Seconds left of the time given, where there is a limit.
    """

    label: int
    lower: float
    upper: float
    open_sets: int
    solved: int
    seconds: float
    remaining: float | None


ProgressCallback = Callable[[Progress], None]
