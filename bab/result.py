"""What an engine returns, and how it reports on the way."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.witness import Witness

__all__ = ["EngineResult", "Progress", "ProgressCallback", "Reason", "SearchResult", "agree"]

Reason = Literal["time", "solver", "numerical"]

W = TypeVar("W")


@dataclass(frozen=True, eq=False)
class SearchResult(Generic[W]):
    """Two-sided bounds on the largest value of a counter-example: of a leak, its confidence.

    Attributes
    ----------
    label : int
        What was asked about; -1 for no label.
    lower : float
        Value of the witness; without one 0 for leaks, minus infinity for other claims.
    upper : float
        No counter-example has a higher value, as computed in float32; minus infinity where there
        is none at all.
    witness : Witness or leaveout.bab.attack.claim_attack.Found or None
    closed : bool
        Whether the bounds agree to the gap asked for, or settle the floor asked about.
    reason : {"time", "solver", "numerical"} or None
        Why not, where they do not.
    detail : str
        One more sentence on the reason.
    member_upper : ndarray of float64, shape (members,)
        No counter-example of this member has a higher value.
    solved : int
        Problems given to the solver, or nodes bounded.
    seconds : float
    interrupted : bool
        Whether Ctrl-C ended the search.
    contradicted : bool
        Whether a replayed counter-example contradicted a bound; the bounds are propagation's.
    leaks : tuple
        The worst leak that was replayed of each member with one; other claims keep none.
    """

    label: int
    lower: float
    upper: float
    witness: W | None
    closed: bool
    reason: Reason | None
    detail: str
    member_upper: NDArray[np.float64]
    solved: int
    seconds: float
    interrupted: bool = False
    contradicted: bool = False
    leaks: tuple[W, ...] = ()

    def stopped(self, detail: str, gap: float) -> Self:
        """Return the same bounds as those of a search that time did not allow to go on."""
        closed = agree(self.lower, self.upper, gap)
        reason: Reason | None = None if closed else "time"
        return replace(
            self, closed=closed, reason=reason, detail="" if closed else detail, seconds=0.0
        )


EngineResult = SearchResult[Witness]
"""Of the leaks of one label."""


def agree(lower: float, upper: float, gap: float) -> bool:
    """Whether two bounds agree to a relative gap."""
    return upper <= 0 or upper - lower <= gap * upper < math.inf


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
    words : str
        How far it is, where it is no search over points: these numbers then say nothing.
    """

    label: int
    lower: float
    upper: float
    open_sets: int
    solved: int
    seconds: float
    remaining: float | None
    words: str = ""


ProgressCallback = Callable[[Progress], None]
