"""One attack on all points of members with thresholds, as a neutral MILP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from leaveout.encoders.votes.known_stakes import KnownStakes
from leaveout.solvers import Problem


@dataclass(frozen=True, eq=False)
class KnownLevels:
    """Useful spending levels for each member, a binary variable each."""

    member: NDArray[np.int64]  # shape (levels,): ascending
    cost: NDArray[np.int64]  # shape (levels,): ascending within a member

    def place(self, members: NDArray[np.int64], costs: NDArray[Any]) -> NDArray[np.int64]:
        """Return the levels of some members at some costs."""
        factor = int(self.cost.max(initial=0)) + 1
        found: NDArray[np.int64] = np.searchsorted(
            self.member * factor + self.cost, members * factor + costs
        )
        return found

    def total_costs(self, members: int, bought: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return what is spent on each member, shape (members,)."""
        total = np.zeros(members, np.int64)
        np.maximum.at(total, self.member[bought], self.cost[bought])
        return total


def known_levels(stakes: KnownStakes) -> KnownLevels:
    """Return the levels of all members."""
    members, costs = [], []
    for member in range(stakes.members):
        own = np.union1d(stakes.ones[member], stakes.twos[member]).astype(np.int64)
        own = own[own <= stakes.budget]
        members.append(np.full(len(own), member, np.int64))
        costs.append(own)
    return KnownLevels(np.concatenate(members), np.concatenate(costs))


def known_problem(stakes: KnownStakes, levels: KnownLevels, at_least: int = 0) -> Problem:
    """Return the problem whose optimum is the number of points one attack can lose.

    Variables in order: total, bought levels x (each with all below it), lost pairs y, lost points
    z. Two redundant integer rows a pair tighten the relaxation.
    """
    pairs, count = len(stakes.needs), len(levels.cost)
    owners, owner = np.unique(stakes.points, return_inverse=True)
    first, total_columns = 1 + count, 1 + count + pairs + len(owners)
    rows = _Rows(total_columns)
    # Levels are bought in order, and paid for.
    again = np.flatnonzero(np.diff(levels.member, prepend=-1) == 0)
    numbers = np.arange(len(again))
    rows.add(
        len(again),
        (np.concatenate([numbers, numbers]), np.concatenate([again, again + 1]),
         np.concatenate([np.ones(len(again)), -np.ones(len(again))])),
    )  # fmt: skip
    price = levels.cost.copy()
    price[again] -= levels.cost[again - 1]
    zeros = np.zeros(count, np.int64)
    rows.add(1, (zeros, 1 + np.arange(count), -price), lower=-stakes.budget)
    # What a pair gains, what it is paid, and who gains it 2.
    one_member, one_pair = np.nonzero(stakes.ones <= stakes.budget)
    two_member, two_pair = np.nonzero(stakes.twos <= stakes.budget)
    ones = stakes.ones[one_member, one_pair].astype(np.int64)
    twos = stakes.twos[two_member, two_pair].astype(np.int64)
    one_at, two_at = 1 + levels.place(one_member, ones), 1 + levels.place(two_member, twos)
    more = twos - stakes.ones[two_member, two_pair]
    lost = np.arange(pairs)
    gains = np.concatenate([one_pair, two_pair]), np.concatenate([one_at, two_at])
    for values, needed in (
        (np.ones(len(gains[0])), stakes.needs),
        (np.concatenate([ones, more]), stakes.least),
    ):
        rows.add(
            pairs,
            (*gains, values),
            (lost, first + lost, -needed.astype(np.int64)),
        )
    short = stakes.needs - _most_members(stakes)
    some = np.flatnonzero(short > 0)
    if len(some):
        number = np.full(pairs, -1)
        number[some] = np.arange(len(some))
        told = number[two_pair] >= 0
        rows.add(
            len(some),
            (number[two_pair[told]], two_at[told], np.ones(int(told.sum()))),
            (np.arange(len(some)), first + some, -short[some]),
        )
    rows.add(
        len(owners),
        (owner, first + lost, np.ones(pairs)),
        (np.arange(len(owners)), first + pairs + np.arange(len(owners)), -np.ones(len(owners))),
    )
    points = first + pairs + np.arange(len(owners))
    rows.add(
        1,
        (np.zeros(len(owners), np.int64), points, np.ones(len(owners))),
        (np.zeros(1, np.int64), np.zeros(1, np.int64), -np.ones(1)),
    )
    matrix, row_lower = rows.matrix()
    objective, lower = np.zeros(total_columns), np.zeros(total_columns)
    upper = np.ones(total_columns)
    objective[0], lower[0], upper[0] = 1.0, at_least, len(owners)
    integer = np.zeros(total_columns, dtype=bool)
    integer[1 : first + pairs] = True
    row_upper = np.full(len(row_lower), np.inf)
    return Problem(objective, matrix, row_lower, row_upper, lower, upper, integer, maximise=True)


def _most_members(stakes: KnownStakes) -> NDArray[np.int64]:
    """Return how many members the budget lets gain for a pair, shape (pairs,)."""
    paid = np.cumsum(np.sort(stakes.ones, axis=0).astype(np.int64), axis=0)
    most: NDArray[np.int64] = (paid <= stakes.budget).sum(axis=0)
    return most


class _Rows:
    """Rows of a problem, collected in blocks, each with a lower bound."""

    def __init__(self, columns: int) -> None:
        self._columns, self._count = columns, 0
        self._parts: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self._lower: list[NDArray[np.float64]] = []

    def add(
        self,
        count: int,
        *parts: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
        lower: float = 0.0,
    ) -> None:
        """Add rows with entries given by block row, column and value."""
        self._parts += [(row + self._count, column, value) for row, column, value in parts]
        self._lower.append(np.full(count, lower))
        self._count += count

    def matrix(self) -> tuple[csr_array, NDArray[np.float64]]:
        """Return the rows and their lower bounds."""
        row, column, value = (np.concatenate(each) for each in zip(*self._parts, strict=True))
        shape = self._count, self._columns
        matrix = coo_array((value.astype(float), (row, column)), shape=shape)
        return csr_array(matrix), np.concatenate(self._lower)
