"""One attack on all test points, whatever the vote: what a search and a solver must know of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from leaveout.deadline import Deadline
from leaveout.solvers import Problem

COUNTED = 256
"""A whole, in which it is said how far something counts."""


@dataclass(frozen=True)
class SearchResult:
    """What a search found."""

    units: tuple[int, ...]  # the best attack
    lost: int  # points it loses
    upper: int  # no attack loses more


class CollectiveProblem(Protocol):
    """Which right answers one attack on all test points can change.

    An attack is a list of *units*, ascending: what an edit poisons, a part or a hash value. A unit
    that several edits poison is in it as often. Poisoned members vote as the attacker likes, at
    every test point anew, as far as the kind of vote lets them.
    """

    @property
    def points(self) -> NDArray[np.int64]:
        """Test points that may be lost to an attack of their own, ascending."""

    def only(self, points: NDArray[np.int64]) -> Self:
        """Return the same about some of the test points alone."""

    def search(self, deadline: Deadline) -> SearchResult:
        """Return the attack that loses the most points, or the best one by the deadline."""

    def programme(self, at_least: int) -> Problem | None:
        """Return a MILP whose optimum is how many points one attack can lose.

        None where it would be too large.
        """

    def attack_in(self, solution: NDArray[np.float64]) -> tuple[int, ...] | None:
        """Return the attack in a point of the programme; None if it is none within the budget."""

    def lost_to(self, units: tuple[int, ...]) -> tuple[int, ...]:
        """Return the points that an attack loses, ascending."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Test points, and how many of them one attack loses at most."""

    points: NDArray[np.int64]  # ascending
    upper: int
    units: tuple[int, ...] = ()  # an attack on them

    @property
    def saved(self) -> int:
        """Points that are not lost."""
        return len(self.points) - self.upper


@dataclass(frozen=True, eq=False)
class Summed:
    """What one attack loses at most, as a sum of what it loses of batches, and of shares.

    Of a point that is lost the units poisoned take shares that are at least 1 together. So where
    y_j of the shares of a point count, and m_b of the bound of a batch, no attack loses more than
    the sum of m_b times the bound of each batch, of the greatest weights of units (sums of y_j
    times a share) that may be poisoned, and of what is missing of each point, 1 - y_j - m_b, if it
    is positive.
    """

    upper: int  # that sum
    batches: tuple[Batch, ...]  # of different points; a point may be in none
    taken: NDArray[np.uint16]  # shape (batches,): each m_b; `COUNTED` stands for 1
    counted: NDArray[np.uint16]  # shape (points at stake,): each y_j, likewise


@runtime_checkable
class Shared(Protocol):
    """A `CollectiveProblem` that knows what units take of each point."""

    def hardest_first(self) -> NDArray[np.int64]:
        """Return its points, those first of which units take least."""

    def summed(self, batches: tuple[Batch, ...]) -> Summed | None:
        """Return the least sum that bounds what is lost; None where it takes too long to find."""
