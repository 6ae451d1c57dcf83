"""Results of an engine, and its progress reports."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.witness import Witness

Reason = Literal["time", "solver", "numerical"]

W = TypeVar("W")


@dataclass(frozen=True, eq=False)
class SearchResult(Generic[W]):
    """Two-sided bounds on a counter-example's value: for a leak, its confidence."""

    label: int  # the label; -1 if the search has none
    lower: float  # value of the witness; without one 0 for leaks, minus infinity for other claims
    upper: float
    witness: W | None
    closed: bool  # whether the bounds agree to the requested gap, or decide the requested floor
    reason: Reason | None  # why not, if they do not
    detail: str  # one more sentence on the reason
    member_upper: NDArray[np.float64]  # shape (members,)
    solved: int  # problems given to the solver, or nodes bounded
    seconds: float
    interrupted: bool = False  # whether Ctrl-C ended the search
    contradicted: bool = False
    leaks: tuple[W, ...] = ()

    def as_timed_out(self, detail: str, gap: float) -> Self:
        """Return the same bounds as the result of a search that ran out of time."""
        closed = agree(self.lower, self.upper, gap)
        reason: Reason | None = None if closed else "time"
        return replace(
            self, closed=closed, reason=reason, detail="" if closed else detail, seconds=0.0
        )


EngineResult = SearchResult[Witness]
"""The result for the leaks of one label."""


def agree(lower: float, upper: float, gap: float) -> bool:
    """Return whether two bounds agree up to a relative gap."""
    return upper <= 0 or upper - lower <= gap * upper < math.inf


@dataclass(frozen=True)
class Progress:
    """A snapshot of a run."""

    label: int
    lower: float
    upper: float
    open_sets: int  # sets of members that may still contain a worse leak
    solved: int
    seconds: float  # since the start of this label
    remaining: float | None  # seconds left, if there is a limit
    words: str = ""


ProgressCallback = Callable[[Progress], None]
