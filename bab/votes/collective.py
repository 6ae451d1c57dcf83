"""One attack on all test points, for any vote: the searches' and solvers' view."""

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
    """The result of a search."""

    units: tuple[int, ...]  # the best attack
    lost: int  # points it loses
    upper: int  # no attack loses more


class CollectiveProblem(Protocol):
    """Which right answers one attack on all test points can change.

    An attack is an ascending list of *units*, parts or hash values that edits poison, repeated for
    several edits. Poisoned members vote at will at each point.
    """

    @property
    def points(self) -> NDArray[np.int64]:
        """Test points that may be lost to an attack of their own, ascending."""

    def only(self, points: NDArray[np.int64]) -> Self:
        """Return the problem for some of the test points."""

    def search(self, deadline: Deadline) -> SearchResult:
        """Return the attack that loses the most points, or the best one by the deadline."""

    def programme(self, at_least: int) -> Problem | None:
        """Return a MILP whose optimum is the greatest loss; None if it is too large."""

    def attack_in(self, solution: NDArray[np.float64]) -> tuple[int, ...] | None:
        """Return the attack at a point of the programme; None if beyond the budget."""

    def lost_to(self, units: tuple[int, ...]) -> tuple[int, ...]:
        """Return the points that an attack loses, ascending."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Test points, and how many of them one attack loses at most."""

    points: NDArray[np.int64]  # ascending
    upper: int
    units: tuple[int, ...] = ()  # an attack on them

    @property
    def surviving_points(self) -> int:
        """The number of points that are not lost."""
        return len(self.points) - self.upper


@dataclass(frozen=True, eq=False)
class Summed:
    """A bound on one attack's loss, as a weighted sum over batches and shares.

    Units take shares of at least 1 of each lost point. With weights y_j of points and m_b of
    batches, the sum covers batch bounds, the heaviest units, and 1 - y_j - m_b if positive.
    """

    upper: int  # that sum
    batches: tuple[Batch, ...]  # of different points; a point may be in none
    taken: NDArray[np.uint16]  # shape (batches,): each m_b; `COUNTED` stands for 1
    counted: NDArray[np.uint16]  # shape (points at stake,): each y_j, likewise


@runtime_checkable
class Shared(Protocol):
    """A `CollectiveProblem` that knows the units' shares of each point."""

    def hardest_first(self) -> NDArray[np.int64]:
        """Return its points, those that units affect least first."""

    def least_sum(self, batches: tuple[Batch, ...]) -> Summed | None:
        """Return the smallest sum that bounds the loss; None if it takes too long."""
