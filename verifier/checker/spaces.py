"""Cases over one region, as needed by a walk through their trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.intervals import Start
from leaveout.verifier.checker.layout import Net, Sets
from leaveout.verifier.checker.rows import Rows

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class SetSource(Protocol):
    """Gives the differences of sets of members from N."""

    def sets(self, keys: list[int], groups: list[Integers]) -> Sets:
        """Return those of some sets, side by side; a key stands for a set throughout a tree."""
        ...


@dataclass(frozen=True, eq=False)
class Asked:
    """Nodes of which evaluation errors are asked."""

    lower: Floats  # shape (n, inputs): shifted
    upper: Floats  # shape (n, inputs): shifted
    state: Floats  # shape (n, 6, hidden)
    case: Integers  # shape (n,): position of each one's case in the space
    members: list[Integers]  # of each


class Errors(Protocol):
    """Bounds evaluation errors over regions of nodes."""

    def over(self, asked: Asked) -> Floats:
        """Return those of each node's rows, shape (n, rows); infinite where nothing is known."""
        ...


@dataclass(frozen=True, eq=False)
class Space:
    """Two networks, or N and sets of members, over one region, and cases there.

    Attributes
    ----------
    net : Net
    start : Start
    sets : SetSource
    differs : bool
        Whether anything has to do with differences from N.
    rows : Rows
        The forms of the cases.
    cases : ndarray of int64, ascending
        Numbers of the cases in the tree.
    errors : Errors
    """

    net: Net
    start: Start
    sets: SetSource
    differs: bool
    rows: Rows
    cases: Integers
    errors: Errors
