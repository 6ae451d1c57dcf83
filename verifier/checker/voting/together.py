"""Proof that no attack on all test points loses more points.

The proof is the number. Attacks are gone through by the units they poison; where even a share of
each point that every unit could take adds up to no more than that number, they are not told apart
any further; a point of which units take much may be counted as lost instead. All sums are of whole
numbers, rounded up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.voting.at_stake import AtStake
from leaveout.verifier.checker.voting.every_attack import slots_of

WORK = 3e10
"""Numbers looked at, at most: some minutes."""

WHOLE = 2**22
"""A point; shares of it are whole numbers, too."""


_MUCH = (2**62, WHOLE, 7 * WHOLE // 10)
"""What units take of a point on the average, from which on it may be counted as lost."""

_FEW = 200
"""Nodes until all attacks of one are gone through where they are not too many."""

_DIRECT = 2e8
"""Words looked at in one go, at most."""


class TooLongError(Exception):
    """There are too many attacks to be told apart."""


def no_more_lost(stake: AtStake, upper: int, work: float = WORK) -> bool:
    """Return whether no attack loses more than ``upper`` points; False if one does."""
    root = _Node(stake.gains, stake.needs, stake.points, np.arange(len(stake.gains)), 0)
    return _Search(stake, upper, work).holds(root, stake.quotas)


@dataclass(frozen=True, eq=False)
class _Node:
    """Attacks that poison some units, and no others but candidates."""

    gains: NDArray[np.uint8]  # shape (members, pairs): of members that are not reached yet
    needs: NDArray[np.int32]  # shape (pairs,): what pairs still need
    points: NDArray[np.int64]  # shape (pairs,)
    candidates: NDArray[np.int64]
    lost: int  # points that are lost by now, and no longer among the pairs

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

    def holds(self, node: _Node, free: tuple[int, ...]) -> bool:
        """Return whether no attack of a node, with ``free`` more units, loses too many."""
        node = _drop_lost(node)
        if node.lost > self.upper:
            return False
        family = self.stake.family[node.candidates]
        # An attack of fewer units loses no more than one with others added.
        counts = np.bincount(family, minlength=len(free))
        free = tuple(np.minimum(free, counts).tolist())
        if not all(free):
            kept = np.array(free)[family] > 0
            node = replace(node, candidates=node.candidates[kept])
            family = family[kept]
        left = sum(free)
        if not left or not len(node.needs):
            return True
        units = self.stake.of_units(node.gains)[node.candidates]
        self._spend(units.size)
        alive = _within(units, family, free) >= node.needs
        if not alive.all():
            node, units = node.only(alive, node.lost), units[:, alive]
        starts = starts_of(node.points)
        if node.lost + len(starts) <= self.upper:
            return True
        if left == 1:
            return node.lost + _most(units >= node.needs, starts) <= self.upper
        shares = shares_of(units, node.needs, starts, left, plain=len(self.stake.offsets) == 1)
        order, first = _open(shares, family, free, self.upper + 1 - node.lost)
        if not first:
            return True
        self.nodes += 1
        if self.nodes > _FEW and len(self.stake.offsets) == len(self.stake.sizes) == 1:
            slots = slots_of(units, node.needs, node.points, left)
            if slots.work <= _DIRECT:
                loses, read = slots.lose(self.upper - node.lost, self.work)
                self._spend(read)
                if loses is None:
                    raise TooLongError
                return not loses
        for place in range(first):
            own = family[order[place]]
            fewer = tuple(each - (at == own) for at, each in enumerate(free))
            if not self.holds(self._with(node, order, place, units), fewer):
                return False
        return True

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


def _drop_lost(node: _Node) -> _Node:
    """Return a node without the points already lost."""
    done = node.needs <= 0
    if not done.any():
        return node
    starts = starts_of(node.points)
    lost = np.logical_or.reduceat(done, starts)
    pairs = np.diff(np.append(starts, len(done)))
    return node.only(~np.repeat(lost, pairs), node.lost + int(lost.sum()))


def starts_of(points: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the pairs of each point begin."""
    return np.flatnonzero(np.append(True, points[1:] != points[:-1])[: len(points)])


def _within(
    units: NDArray[Any], family: NDArray[np.int64], free: tuple[int, ...]
) -> NDArray[np.int64]:
    """Return the most that the allowed units of each family gain, shape (pairs,)."""
    total = np.zeros(units.shape[1], np.int64)
    for number, left in enumerate(free):
        own = units if len(free) == 1 else units[family == number]
        if own.max(initial=0) <= 2:
            # Of gains up to 2 it is enough to count those of at least 1, and of 2.
            for gain in (1, 2):
                total += np.minimum((own >= gain).sum(axis=0), left)
        else:
            out = max(0, len(own) - left)
            total += np.partition(own, out, axis=0)[out:].sum(axis=0, dtype=np.int64)
    return total


def _most(taken: NDArray[np.bool_], starts: NDArray[np.int64]) -> int:
    """Return how many points the unit takes that takes most, by what it takes of pairs."""
    if len(starts) < taken.shape[1]:
        taken = np.logical_or.reduceat(taken, starts, axis=1)
    return int(taken.sum(axis=1).max())


def _open(
    shares: NDArray[np.int64], family: NDArray[np.int64], free: tuple[int, ...], most: int
) -> tuple[NDArray[np.int64], int]:
    """Return the order of units by weight, and after how many of them too little is left.

    Units that come later, ``free`` of each family, weigh less than ``most`` points together. Points
    of which units take much are counted as lost instead, where then fewer units come first.
    """
    taken = shares.sum(axis=0) * sum(free) // len(shares)
    found: tuple[NDArray[np.int64], int] | None = None
    for much in _MUCH:
        hard = taken < much
        need = WHOLE * (most - int(np.count_nonzero(~hard)))
        weights = shares[:, hard].sum(axis=1, dtype=np.int64)
        order = np.argsort(-weights, kind="stable")
        sums = np.zeros(len(order), np.int64)
        for number, left in enumerate(free):
            places = np.flatnonzero(family[order] == number)
            total = np.append(0, np.cumsum(weights[order[places]]))
            after = np.searchsorted(places, np.arange(len(order)))
            sums += total[np.minimum(after + left, len(places))] - total[after]
        # Weights fall, and so do these sums.
        first = int((sums >= need).sum())
        if found is None or first < found[1]:
            found = order, first
    assert found is not None
    return found


def shares_of(
    units: NDArray[Any],  # shape (units, pairs)
    needs: NDArray[np.int32],  # shape (pairs,)
    starts: NDArray[np.int64],  # shape (points,)
    left: int,
    *,
    plain: bool,
) -> NDArray[np.int64]:
    """Return shares of units of which a point that is lost takes a `WHOLE`, shape (units, points).

    A point lost to a label has units that gain what that pair needs, so that their gains, divided
    by the need and cut at 1, are at least 1 together. Where each gains at most 2, at least half of
    the need, rounded up, gain at all, and at least the need less ``left`` gain 2: these say the
    same with other shares. Of the shares towards several labels the largest is taken.
    """
    wide = needs.astype(np.int64)
    if not plain:
        shares = np.minimum(-(-units.astype(np.int64) * WHOLE // wide), WHOLE)
        return _widest(shares, starts)
    some, twos = (units >= 1), (units >= 2)
    many, more = some.sum(axis=0), twos.sum(axis=0)
    one, two = (np.minimum(-(-gain * WHOLE // wide), WHOLE) for gain in (1, 2))
    total = one * (many - more) + two * more
    half = -(-WHOLE // ((wide + 1) // 2))
    better = half * many < total
    total[better] = (half * many)[better]
    one, two = np.where(better, half, one), np.where(better, half, two)
    spare = wide - left
    full = -(-WHOLE // np.maximum(spare, 1))
    better = (spare > 0) & (full * more < total)
    one, two = np.where(better, 0, one), np.where(better, full, two)
    return _widest(some * one.astype(np.int32) + twos * (two - one).astype(np.int32), starts)


def _widest(shares: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[Any]:
    if len(starts) < shares.shape[1]:
        shares = np.maximum.reduceat(shares, starts, axis=1)
    return shares
