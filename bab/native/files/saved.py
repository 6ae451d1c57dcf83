"""What a checkpoint holds: where a search stood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.native.files.records import Record
from leaveout.bab.native.files.tables import Table
from leaveout.bab.native.workers.worker import WorkerState

__all__ = ["Saved", "Tables"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Saved:
    """Where a search stood.

    Attributes
    ----------
    point : ndarray of float, shape (d,), or None
    member : int
        The witness; -1 for none.
    before : ndarray of float64, shape (members,)
        No leak of a member is above this.
    proved : float
        No leak is above this.
    cut : float
        Highest target so far: what is no longer open has no leak above it.
    seconds : float
        Spent so far.
    states : list of WorkerState
    records : list of Record
    """

    point: NDArray[np.floating] | None
    member: int
    before: Floats
    proved: float
    cut: float
    seconds: float
    states: list[WorkerState]
    records: list[Record]


Tables = Callable[[int, int], Table]
"""Where the nodes of a search are had from, some at a time, by worker and number."""
