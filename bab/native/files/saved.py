"""Saved state of a search, as in a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.native.files.records import Record
from leaveout.bab.native.files.tables import Table
from leaveout.bab.native.workers.worker import WorkerState

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Saved:
    """Saved state of a search."""

    point: NDArray[np.floating] | None  # shape (d,)
    member: int  # the witness; -1 for none
    before: Floats  # shape (members,): no leak of a member is above this
    proved: float  # no leak is above this
    cut: float  # highest target so far: what is no longer open has no leak above it
    seconds: float  # spent so far
    states: list[WorkerState]
    records: list[Record]


Tables = Callable[[int, int], Table]
"""Where the nodes of a search are had from, some at a time, by worker and number."""
