"""One attack on a whole test set: its choices, and the value of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_array, csr_array, eye_array

from leaveout.encoders.votes.plurality import Tally
from leaveout.solvers import Problem

_CHUNK = 1024
"""Pairs processed at once."""


@dataclass(frozen=True, eq=False)
class Stakes:
    """The test points that an attack could change, and what each requires.

    A *unit* is what one edit poisons: a part or hash value. A *pair* is a point answered right and
    a rival label, lost if the freed members' gains reach its need.
    """

    budget: int  # each family's limit on poisoned units
    reach: NDArray[np.int64]  # shape (units, members reached by a unit)
    gains: NDArray[np.int32]  # shape (members, pairs)
    needs: NDArray[np.int32]  # shape (pairs,): gap between c and c', plus one
    points: NDArray[np.int64]  # shape (pairs,): ascending; a test point may have several pairs
    labels: NDArray[np.int32]  # shape (pairs,): the label c' of each pair
    sizes: tuple[int, ...] = ()

    @property
    def family(self) -> NDArray[np.int64]:
        """The family of each unit, shape (units,)."""
        sizes = self.sizes or (self.units,)
        return np.repeat(np.arange(len(sizes)), sizes)

    @property
    def quotas(self) -> NDArray[np.int64]:
        """How many units of each family may be poisoned, shape (families,)."""
        return np.minimum(self.budget, np.array(self.sizes or (self.units,), np.int64))

    @property
    def units(self) -> int:
        """The number of units."""
        return len(self.reach)

    @property
    def at_stake(self) -> int:
        """The number of points that could be lost one at a time."""
        return len(np.unique(self.points))

    def unit_gains(self) -> NDArray[np.int32]:
        """Return each single unit's gain for each pair, shape (units, pairs)."""
        total: NDArray[np.int32] = self.gains[self.reach].sum(axis=1, dtype=np.int32)
        return total


@dataclass(frozen=True)
class CollectiveAttack:
    """Units to poison, and the test points lost by it."""

    units: tuple[int, ...]
    lost: tuple[int, ...]  # test points that are no longer answered correctly


def stakes_of(
    votes: NDArray[np.int32],  # shape (points, parts)
    truth: NDArray[np.int32],  # shape (points,)
    tallied: Tally,
    budget: int,
    offsets: tuple[int, ...] = (),
    sizes: tuple[int, ...] = (),
) -> Stakes:
    """Return the points an attack can change, leaving out those beyond its budget.

    Points already answered wrong do not count: an attacker need not correct them.
    """
    parts = votes.shape[1]
    shifts = np.array(offsets or (0,), dtype=np.int64)
    reach = (np.arange(parts)[:, None] + shifts) % parts
    budget = min(budget, max(sizes, default=parts))
    widths = sizes or (parts,)
    ends = np.cumsum(widths)
    right = tallied.predictions == truth
    # A unit gains at most 2 for each member it reaches.
    near = right[:, None] & (tallied.gaps < 2 * len(shifts) * np.minimum(widths, budget).sum())
    points, targets = np.nonzero(near)
    needs = tallied.gaps[points, targets] + np.int32(1)
    kept, gains = [np.zeros(0, np.int64)], [np.zeros((0, parts), np.int32)]
    for start in range(0, len(points), _CHUNK):
        at = slice(start, start + _CHUNK)
        ballots = votes[points[at]]
        answers, rivals = tallied.predictions[points[at], None], targets[at, None]
        gain = 1 + (ballots == answers).astype(np.int32) - (ballots == rivals)
        units = gain[:, reach].sum(axis=2)
        most = np.zeros(len(units), np.int64)
        for end, width in zip(ends, widths, strict=True):
            own, out = units[:, end - width : end], max(0, width - budget)
            most += np.partition(own, out, axis=1)[:, out:].sum(axis=1) if budget else 0
        reached = np.flatnonzero(most >= needs[at]) if budget else np.zeros(0, np.int64)
        kept.append(reached + start)
        gains.append(gain[reached])
    pairs = np.concatenate(kept)
    return Stakes(
        budget,
        reach,
        np.ascontiguousarray(np.concatenate(gains).T),
        needs[pairs],
        points[pairs],
        targets[pairs].astype(np.int32),
        sizes,
    )


def lost_points(
    votes: NDArray[np.int32],
    truth: NDArray[np.int32],
    tallied: Tally,
    freed: NDArray[np.int64],
) -> tuple[int, ...]:
    """Recount and return the points lost if some members can cast any vote.

    At each point, all freed members vote for the same label; every label is tried.
    """
    freed = np.unique(freed)
    labels = tallied.counts.shape[1]
    rest = tallied.counts.copy()
    points = np.arange(len(votes))
    for member in freed:
        rest[points, votes[:, member]] -= 1
    lost = np.zeros(len(votes), dtype=bool)
    for label in range(labels):
        counts = rest.copy()
        counts[:, label] += len(freed)
        lost |= counts.argmax(axis=1) != truth
    lost &= tallied.predictions == truth
    return tuple(np.flatnonzero(lost).tolist())


def collective_problem(stakes: Stakes, at_least: int = 0) -> Problem:
    """Return the problem whose optimum is the number of points one attack can lose.

    Variables in order: total, poisoned units p, freed members x, lost pairs y, lost points z. Three
    redundant integer rows tighten the relaxation (gains are at most 2).
    """
    pairs, members, units = len(stakes.needs), len(stakes.gains), stakes.units
    owners, owner = np.unique(stakes.points, return_inverse=True)
    widths = 1, units, members, pairs, len(owners)
    quotas = stakes.quotas
    reached = csr_array(
        (
            np.ones(stakes.reach.size),
            (stakes.reach.ravel(), np.repeat(np.arange(units), stakes.reach.shape[1])),
        ),
        shape=(members, units),
    )
    shares = csr_array((np.ones(pairs), (owner, np.arange(pairs))), shape=(len(owners), pairs))
    families = csr_array(
        (np.ones(units), (stakes.family, np.arange(units))), shape=(len(quotas), units)
    )
    blocks: list[list[csr_array | None]] = [
        [None, families, None, None, None],
        [None, reached, -eye_array(members, format="csr"), None, None],
    ]
    most = int(quotas.sum()) * stakes.reach.shape[1]
    gains = stakes.gains.T
    for coefficients, needed in (
        (gains, stakes.needs),
        (gains > 0, -(-stakes.needs // 2)),
        (gains == 2, stakes.needs - most),
    ):
        rows = np.flatnonzero(needed > 0)
        lost = csr_array(
            (-needed[rows].astype(float), (np.arange(len(rows)), rows)), shape=(len(rows), pairs)
        )
        if len(rows):
            blocks.append([None, None, csr_array(coefficients[rows].astype(float)), lost, None])
    blocks += [
        [None, None, None, shares, -eye_array(len(owners), format="csr")],
        [csr_array([[-1.0]]), None, None, None, csr_array(np.ones((1, len(owners))))],
    ]
    matrix = csr_array(block_array(_fill_blocks(blocks, widths), format="csr"))
    row_lower, row_upper = np.zeros(matrix.shape[0]), np.full(matrix.shape[0], np.inf)
    row_lower[: len(quotas)], row_upper[: len(quotas)], row_upper[-1] = -np.inf, quotas, 0.0
    columns = sum(widths)
    objective, lower, upper = np.zeros(columns), np.zeros(columns), np.ones(columns)
    objective[0], lower[0], upper[0] = 1.0, at_least, len(owners)
    integer = np.zeros(columns, dtype=bool)
    integer[1 : 1 + units] = True
    integer[1 + units + members : 1 + units + members + pairs] = True
    return Problem(objective, matrix, row_lower, row_upper, lower, upper, integer, maximise=True)


def _fill_blocks(
    blocks: list[list[csr_array | None]], widths: tuple[int, ...]
) -> list[list[csr_array]]:
    """Return blocks with the missing ones set to zeros, so that all widths are known."""
    filled = []
    for row in blocks:
        height = next(block.shape[0] for block in row if block is not None)
        filled.append(
            [
                csr_array((height, width)) if block is None else block
                for block, width in zip(row, widths, strict=True)
            ]
        )
    return filled
