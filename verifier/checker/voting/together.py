"""No attack on all test points loses more than a number of them: attacks by what they begin with.

The proof is the number. Attacks are gone through by the units they poison; where even a share of
each point that every unit could take adds up to no more than that number, they are not told apart
any further. All sums are of whole numbers, rounded up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.voting.at_stake import AtStake
from leaveout.verifier.checker.voting.every_attack import slots_of

__all__ = ["WORK", "TooLongError", "no_more_lost"]

WORK = 3e10
"""Numbers looked at, at most: some minutes."""

_WHOLE = 2**22
"""A point; shares of it are whole numbers, too."""


_FEW = 200
"""Nodes until all attacks of one are gone through where they are not too many."""

_DIRECT = 2e8
"""Words looked at in one go, at most."""


class TooLongError(Exception):
    """There are too many attacks to be told apart."""


def no_more_lost(stake: AtStake, upper: int, work: float = WORK) -> bool:
    """Return whether no attack loses more than ``upper`` points; False if one does.

    Parameters
    ----------
    stake : AtStake
    upper : int
    work : float
        Numbers that may be looked at.

    Raises
    ------
    TooLongError
        If that does not suffice to say.
    """
    root = _Node(stake.gains, stake.needs, stake.points, np.arange(len(stake.gains)), 0)
    return _Search(stake, upper, work).holds(root, stake.budget)


@dataclass(frozen=True, eq=False)
class _Node:
    """Attacks that poison some units, and no others but candidates.

    Attributes
    ----------
    gains : ndarray of uint8, shape (members, pairs)
        Of members that are not reached yet.
    needs : ndarray of int32, shape (pairs,)
        What pairs still need.
    points : ndarray of int64, shape (pairs,)
    candidates : ndarray of int64
    lost : int
        Points that are lost by now, and no longer among the pairs.
    """

    gains: NDArray[np.uint8]
    needs: NDArray[np.int32]
    points: NDArray[np.int64]
    candidates: NDArray[np.int64]
    lost: int

    def only(self, pairs: NDArray[Any], lost: int) -> _Node:
        """Return the same with some of its pairs."""
        return _Node(
            self.gains[:, pairs], self.needs[pairs], self.points[pairs], self.candidates, lost
        )


@dataclass(eq=False)
class _Search:
    stake: AtStake
    upper: int
    work: float
    nodes: int = 0

    def holds(self, node: _Node, left: int) -> bool:
        """Whether no attack of a node, with ``left`` units more, loses too many points."""
        node = _counted(node)
        if node.lost > self.upper:
            return False
        # An attack of fewer units loses no more than one with others added.
        left = min(left, len(node.candidates))
        if not left or not len(node.needs):
            return True
        units = self.stake.of_units(node.gains)[node.candidates]
        self._spend(units.size)
        alive = _within(units, left) >= node.needs
        if not alive.all():
            node, units = node.only(alive, node.lost), units[:, alive]
        starts = _starts(node.points)
        if node.lost + len(starts) <= self.upper:
            return True
        if left == 1:
            return node.lost + _most(units >= node.needs, starts) <= self.upper
        weights = _weights(units, node.needs, starts, left, plain=len(self.stake.offsets) == 1)
        order = np.argsort(-weights, kind="stable")
        first = _open(weights[order], left, _WHOLE * (self.upper + 1 - node.lost))
        if not first:
            return True
        self.nodes += 1
        if self.nodes > _FEW and len(self.stake.offsets) == 1:
            slots = slots_of(units, node.needs, node.points, left)
            if slots.work <= _DIRECT:
                self._spend(int(slots.work))
                return not slots.lose(self.upper - node.lost)
        return all(
            self.holds(self._with(node, order, place, units), left - 1) for place in range(first)
        )

    def _with(
        self, node: _Node, order: NDArray[np.int64], place: int, units: NDArray[Any]
    ) -> _Node:
        """Return the attacks that poison a candidate too, and none that comes before it."""
        unit, later = node.candidates[order[place]], np.sort(order[place + 1 :])
        members = (unit + np.array(self.stake.offsets)) % len(node.gains)
        gains = node.gains.copy()
        gains[members] = 0
        needs = node.needs - units[order[place]].astype(np.int32)
        return _Node(gains, needs, node.points, node.candidates[later], node.lost)

    def _spend(self, numbers: int) -> None:
        self.work -= numbers
        if self.work < 0:
            raise TooLongError


def _counted(node: _Node) -> _Node:
    """Return a node without the points that are lost by now."""
    done = node.needs <= 0
    if not done.any():
        return node
    starts = _starts(node.points)
    lost = np.logical_or.reduceat(done, starts)
    pairs = np.diff(np.append(starts, len(done)))
    return node.only(~np.repeat(lost, pairs), node.lost + int(lost.sum()))


def _starts(points: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the pairs of each point begin."""
    return np.flatnonzero(np.append(True, points[1:] != points[:-1])[: len(points)])


def _within(units: NDArray[Any], left: int) -> NDArray[np.int64]:
    """Return what ``left`` units gain at most, shape (pairs,)."""
    if units.max(initial=0) <= 2:
        # Of gains up to 2 it is enough to count those of at least 1, and of 2.
        found: NDArray[np.int64] = np.zeros(units.shape[1], np.int64)
        for gain in (1, 2):
            found += np.minimum((units >= gain).sum(axis=0), left)
        return found
    top = np.partition(units, max(0, len(units) - left), axis=0)[max(0, len(units) - left) :]
    total: NDArray[np.int64] = top.sum(axis=0, dtype=np.int64)
    return total


def _most(taken: NDArray[np.bool_], starts: NDArray[np.int64]) -> int:
    """Return how many points the unit takes that takes most, by what it takes of pairs."""
    if len(starts) < taken.shape[1]:
        taken = np.logical_or.reduceat(taken, starts, axis=1)
    return int(taken.sum(axis=1).max())


def _open(weights: NDArray[np.int64], left: int, most: int) -> int:
    """Return how many of the heaviest units there are without which too little is left.

    ``left`` units of those that come later weigh less than ``most`` together.
    """
    sums = np.append(0, np.cumsum(weights))
    ends = np.minimum(np.arange(len(weights)) + left, len(weights))
    enough = sums[ends] - sums[:-1] >= most
    # Weights fall, and so do these sums.
    return int(enough.sum())


def _weights(
    units: NDArray[Any],
    needs: NDArray[np.int32],
    starts: NDArray[np.int64],
    left: int,
    *,
    plain: bool,
) -> NDArray[np.int64]:
    """Return weights of units of which a point that is lost takes at least a whole.

    A point lost to a label has units that gain what that pair needs, so that their gains, divided
    by the need and cut at 1, are at least 1 together. Where each gains at most 2, at least half of
    the need, rounded up, gain at all, and at least the need less ``left`` gain 2: these say the
    same with other weights. Of the weights towards several labels the largest is taken.
    """
    if not plain:
        one = -(-_WHOLE // needs.astype(np.int64))
        shares = np.minimum(units * one, _WHOLE)
        return _summed(shares, starts)
    some, twos = (units >= 1), (units >= 2)
    many, more = some.sum(axis=0), twos.sum(axis=0)
    one, two = (np.minimum(-(-gain * _WHOLE // needs.astype(np.int64)), _WHOLE) for gain in (1, 2))
    total = one * (many - more) + two * more
    half = -(-_WHOLE // ((needs.astype(np.int64) + 1) // 2))
    better = half * many < total
    total[better] = (half * many)[better]
    one, two = np.where(better, half, one), np.where(better, half, two)
    spare = needs.astype(np.int64) - left
    full = -(-_WHOLE // np.maximum(spare, 1))
    better = (spare > 0) & (full * more < total)
    one, two = np.where(better, 0, one), np.where(better, full, two)
    shares = some * one.astype(np.int32) + twos * (two - one).astype(np.int32)
    return _summed(shares, starts)


def _summed(shares: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    if len(starts) < shares.shape[1]:
        shares = np.maximum.reduceat(shares, starts, axis=1)
    total: NDArray[np.int64] = shares.sum(axis=1, dtype=np.int64)
    return total
