"""One attack on all test points, for any voting scheme, as searches and solvers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from leaveout.deadline import Deadline
from leaveout.solvers import Problem

COUNTED = 256
"""The weight 1, in integer units."""


@dataclass(frozen=True)
class SearchResult:
    """The result of a search."""

    units: tuple[int, ...]  # best attack found
    lost: int  # points it loses
    upper: int  # no attack loses more


class CollectiveProblem(Protocol):
    """The correct answers that one attack on all test points can change.

    An attack is an ascending list of *units*, the parts or hash values poisoned by edits, repeated
    for several edits. Poisoned members can cast any vote at each point.
    """

    @property
    def points(self) -> NDArray[np.int64]:
        """Test points that some attack can make lost, ascending."""

    def only(self, points: NDArray[np.int64]) -> Self:
        """Return the problem for some of the test points."""

    def search(self, deadline: Deadline) -> SearchResult:
        """Return the attack that loses the most points, or the best one by the deadline."""

    def programme(self, at_least: int) -> Problem | None:
        """Return a MILP whose optimum is the greatest loss; None if it is too large."""

    def attack_in(self, solution: NDArray[np.float64]) -> tuple[int, ...] | None:
        """Return the attack for a solution of the programme; None if beyond the budget."""

    def lost_to(self, units: tuple[int, ...]) -> tuple[int, ...]:
        """Return the points that an attack loses, ascending."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Test points, and the most of them that one attack can lose."""

    points: NDArray[np.int64]  # ascending
    upper: int
    units: tuple[int, ...] = ()  # attack on them

    @property
    def surviving_points(self) -> int:
        """The number of points that no attack can lose together with the rest."""
        return len(self.points) - self.upper


@dataclass(frozen=True, eq=False)
class Summed:
    """A bound on one attack's loss, as a weighted sum over batches and shares.

    The units' shares of each lost point sum to at least 1. With weights y_j of points and m_b of
    batches, the sum consists of batch bounds, the heaviest units, and 1 - y_j - m_b where positive.
    """

    upper: int  # the weighted sum
    batches: tuple[Batch, ...]  # of disjoint points; a point may be in none
    taken: NDArray[np.uint16]  # shape (batches,): each m_b; `COUNTED` stands for 1
    counted: NDArray[np.uint16]  # shape (points at stake,): each y_j, in the same units


@runtime_checkable
class Shared(Protocol):
    """A `CollectiveProblem` with known shares of units in each point."""

    def hardest_first(self) -> NDArray[np.int64]:
        """Return the points, those with the smallest total shares first."""

    def least_sum(self, batches: tuple[Batch, ...]) -> Summed | None:
        """Return the least weighted sum that bounds the loss; None if it takes too long."""
