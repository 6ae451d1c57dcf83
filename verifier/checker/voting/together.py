"""Proof that no attack on all test points loses more than a given number of points.

The proof is the number. Attacks are enumerated by the units they poison; a branch is cut where even
the sum of shares that units could take of points is at most that number; a point with large shares
may count as lost instead. All sums are of whole numbers, rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit
from leaveout.verifier.checker.voting.plurality import (
    Counts,
    Flags,
    Votes,
    answers_of,
    blocks,
    counts_of,
    gaps_of,
)

Gains = NDArray[np.uint8] | NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class AtStake:
    """Pairs of a correctly answered test point and a rival label.

    An attack poisons up to ``budget`` units of each family, and their members vote as the attacker
    likes.
    """

    budget: int
    offsets: tuple[int, ...]  # unit u reaches the members ``(u + offset) mod members``
    gains: NDArray[np.uint8]  # shape (members, pairs)
    needs: NDArray[np.int32]  # shape (pairs,): at least 1
    points: Counts  # shape (pairs,): ascending
    sizes: tuple[int, ...]  # units of each family, concatenated

    @property
    def family(self) -> Counts:
        """Family of each unit, shape (units,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def quotas(self) -> tuple[int, ...]:
        """The most units of each family that an attack poisons."""
        return tuple(min(self.budget, size) for size in self.sizes)

    def only(self, points: Counts) -> AtStake:
        """Return the problem for only some of the points."""
        pairs = np.isin(self.points, points)
        return replace(
            self, gains=self.gains[:, pairs], needs=self.needs[pairs], points=self.points[pairs]
        )

    @property
    def count(self) -> int:
        """The most points that could be lost one at a time."""
        return len(np.unique(self.points))

    def of_units(self, gains: NDArray[np.uint8]) -> Gains:
        """Return the gains of each unit alone, shape (units, pairs), from the members' gains."""
        if len(self.offsets) == 1:
            return np.roll(gains, -self.offsets[0], axis=0)
        total = np.zeros(gains.shape, np.uint8 if len(self.offsets) < 128 else np.uint16)
        for offset in self.offsets:
            total += np.roll(gains, -offset, axis=0)
        return total


def at_stake(
    votes: Votes,  # shape (points, members)
    truth: NDArray[np.int32],  # shape (points,)
    labels: int,
    budget: int,
    offsets: tuple[int, ...] = (0,),
    sizes: tuple[int, ...] = (),
) -> AtStake:
    """Return the pairs an attack can decide, leaving out those beyond its size.

    Points already answered wrong do not count.
    """
    members = votes.shape[1]
    empty = AtStake(budget, offsets, *_no_pairs(members), sizes or (members,))
    gains, needs, points = [empty.gains], [empty.needs], [empty.points]
    most = sum(empty.quotas)
    for at in blocks(len(votes), labels):
        counts = counts_of(votes[at], labels)
        chosen = answers_of(counts)
        gaps = gaps_of(counts, chosen)
        near = (chosen == truth[at])[:, None] & (gaps < 2 * len(offsets) * most)
        rows, rivals = np.nonzero(near)
        for part in blocks(len(rows), members * (len(offsets) + 2)):
            own, to = rows[part], rivals[part, None]
            ballots, need = votes[at][own], gaps[own, rivals[part]] + 1
            gain = (1 + (ballots == chosen[own, None]) - (ballots == to)).astype(np.uint8).T
            units, within, end = empty.of_units(gain), np.zeros(len(need), np.int64), 0
            for size, quota in zip(empty.sizes, empty.quotas, strict=True):
                top, end = np.sort(units[end : end + size], axis=0), end + size
                within += top[size - quota :].sum(axis=0, dtype=np.int64)
            reached = within >= need
            gains.append(gain[:, reached])
            needs.append(need[reached].astype(np.int32))
            points.append(own[reached] + at.start)
    return replace(
        empty,
        gains=np.concatenate(gains, axis=1),
        needs=np.concatenate(needs),
        points=np.concatenate(points),
    )


def lost_to(votes: Votes, truth: NDArray[np.int32], labels: int, members: Sequence[int]) -> Flags:
    """Recount and return which correct answers change if an attacker chooses some votes.

    It suffices to try each label with all of these votes: no other votes help a label more.
    """
    lost = np.zeros(len(votes), np.bool_)
    held = np.ones(votes.shape[1], np.bool_)
    held[list(members)] = False
    for at in blocks(len(votes), labels):
        chosen = answers_of(counts_of(votes[at], labels))
        rest = counts_of(votes[at][:, held], labels)
        gaps = gaps_of(rest, chosen)
        lost[at] = (chosen == truth[at]) & (gaps.min(axis=1) < len(members))
    return lost


def _no_pairs(members: int) -> tuple[NDArray[np.uint8], NDArray[np.int32], Counts]:
    return np.zeros((members, 0), np.uint8), np.zeros(0, np.int32), np.zeros(0, np.int64)


Bits = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Slots:
    """Gains of units as bits, with one slot for the n-th pair of each point.

    Points with more pairs come first, so that later slots are shorter; a point has the same bit in
    every slot.
    """

    some: Bits  # shape (units, words): pairs that a unit gains at least 1, and 2
    twos: Bits  # shape (units, words): pairs that a unit gains at least 1, and 2
    needs: Bits  # shape (2 * left, words): pairs that need 1, 2,
    starts: NDArray[np.int64]  # shape (slots + 1,): start of each slot

    @property
    def work(self) -> float:
        """The most words that an enumeration reads, approximately."""
        left = len(self.needs) // 2
        return float(math.comb(len(self.some), left) * self.some.shape[1])

    def lose(self, most: int, words: float = math.inf) -> tuple[bool | None, int]:
        """Return whether the remaining units can lose more than some points, and the words read."""
        found, read = _lose(
            self.some, self.twos, self.needs, self.starts, most, min(words, 2.0**62)
        )
        return (None if found < 0 else bool(found)), int(read)


def slots_of(
    units: NDArray[Any], needs: NDArray[np.int32], points: NDArray[np.int64], left: int
) -> Slots:
    """Return pairs as bits."""
    _, firsts, counts = np.unique(points, return_index=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    firsts, counts = firsts[order], counts[order]
    some, twos, need, starts = [], [], [], [0]
    for place in range(int(counts.max(initial=0))):
        pairs = firsts[counts > place] + place
        gains = units[:, pairs]
        some.append(_pack_flags(gains >= 1))
        twos.append(_pack_flags(gains >= 2))
        need.append(_pack_flags(needs[pairs] == np.arange(1, 2 * left + 1)[:, None]))
        starts.append(starts[-1] + some[-1].shape[1])
    return Slots(_join_slots(some), _join_slots(twos), _join_slots(need), np.array(starts))


def _join_slots(slots: list[Bits]) -> Bits:
    """Return slots side by side."""
    return np.ascontiguousarray(np.concatenate(slots, axis=1))


def _pack_flags(flags: NDArray[Any]) -> Bits:
    """Return flags as bits of whole words, shape (rows, words)."""
    packed = np.packbits(flags, axis=1)
    padded = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))
    return np.ascontiguousarray(padded).view(np.uint64)


@cached_njit(nogil=True)
def _ones(word: np.uint64) -> int:
    """Count the set bits of a word."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int(np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56)))


@cached_njit(nogil=True)
def _last(
    some: Bits, twos: Bits, needs: Bits, starts: NDArray[np.int64], lost: Bits, own: Bits
) -> int:
    """Count the points lost with one more unit."""
    own[:] = lost
    for slot in range(len(starts) - 1):
        begin = starts[slot]
        for word in range(starts[slot + 1] - begin):
            at = begin + word
            own[word] |= (needs[0, at] & some[at]) | (needs[1, at] & twos[at])
    total = 0
    for word in range(len(own)):
        total += _ones(own[word])
    return total


@cached_njit(nogil=True)
def _poison_unit(
    some: Bits, twos: Bits, starts: NDArray[np.int64], width: int,
    needs: Bits, lost: Bits, after: Bits, then: Bits, own: Bits,
) -> int:  # fmt: skip
    """Poison a unit: fill in the pairs' remaining needs ``after``, and losses ``then``.

    Returns how many points are lost by then, or could be lost to the remaining units.
    """
    then[:] = lost
    own[:] = lost
    for slot in range(len(starts) - 1):
        begin = starts[slot]
        for word in range(starts[slot + 1] - begin):
            at = begin + word
            one, two = some[at], twos[at]
            then[word] |= (needs[0, at] & one) | (needs[1, at] & two)
            near = np.uint64(0)
            for need in range(width):
                left = needs[need, at] & ~one
                left |= (needs[need + 1, at] & one & ~two) | (needs[need + 2, at] & two)
                after[need, at] = left
                near |= left
            own[word] |= near
    total = 0
    for word in range(len(own)):
        total += _ones(own[word] | then[word])
    return total


@cached_njit(nogil=True)
def _lose(
    some: Bits, twos: Bits, needs: Bits, starts: NDArray[np.int64], most: int, allowed: float
) -> tuple[int, int]:
    """Return whether any attack loses more than ``most`` points, -1 if unknown for lack of time.

    It stops at the first such attack, and also returns the number of words read.
    """
    units, words = some.shape
    left = len(needs) // 2
    points = starts[1]
    held = np.zeros((left, 2 * left, words), np.uint64)
    lost = np.zeros((left, points), np.uint64)
    own = np.zeros(points, np.uint64)
    following = np.zeros(left, np.int64)
    held[0] = needs
    depth, read = 0, 0
    while depth >= 0:
        unit, more = following[depth], left - depth
        if unit > units - more:
            depth -= 1
            continue
        following[depth] = unit + 1
        if read > allowed:
            return -1, read
        read += words * (1 if more == 1 else 2 * more)
        if more == 1:
            if _last(some[unit], twos[unit], held[depth], starts, lost[depth], own) > most:
                return 1, read
            continue
        within = _poison_unit(
            some[unit], twos[unit], starts, 2 * more - 2,
            held[depth], lost[depth], held[depth + 1], lost[depth + 1], own,
        )  # fmt: skip
        if within > most:
            depth += 1
            following[depth] = unit + 1
    return 0, read


WORK = 3e10
"""Most numbers processed: some minutes."""

WHOLE = 2**22
"""A whole point, in the integer units of shares."""


_MUCH = (2**62, WHOLE, 7 * WHOLE // 10)
"""Average share of units in a point from which the point may count as lost."""

_FEW = 200
"""Nodes after which all attacks of a node are enumerated, if there are not too many."""

_DIRECT = 2e8
"""Most words processed in one enumeration."""


class TooLongError(Exception):
    """There are too many attacks to enumerate."""


def no_more_lost(stake: AtStake, upper: int, work: float = WORK) -> bool:
    """Return whether no attack loses more than ``upper`` points; False if one does."""
    root = _Node(stake.gains, stake.needs, stake.points, np.arange(len(stake.gains)), 0)
    return _Search(stake, upper, work).holds(root, stake.quotas)


@dataclass(frozen=True, eq=False)
class _Node:
    """Attacks that poison some units, and otherwise only candidates."""

    gains: NDArray[np.uint8]  # shape (members, pairs): of members not reached yet
    needs: NDArray[np.int32]  # shape (pairs,): remaining needs of pairs
    points: NDArray[np.int64]  # shape (pairs,)
    candidates: NDArray[np.int64]
    lost: int  # points already lost, which are no longer among the pairs

    def only(self, pairs: NDArray[Any], lost: int) -> _Node:
        """Return the node with only some of its pairs."""
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
        # An attack with fewer units loses no more than one with others added.
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
        """Return the attacks that also poison a candidate, and no earlier one."""
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
    """Return the start of each point's pairs."""
    return np.flatnonzero(np.append(True, points[1:] != points[:-1])[: len(points)])


def _within(
    units: NDArray[Any], family: NDArray[np.int64], free: tuple[int, ...]
) -> NDArray[np.int64]:
    """Return the most that the allowed units of each family gain, shape (pairs,)."""
    total = np.zeros(units.shape[1], np.int64)
    for number, left in enumerate(free):
        own = units if len(free) == 1 else units[family == number]
        if own.max(initial=0) <= 2:
            # For gains up to 2, counting those of at least 1 and those of 2 suffices.
            for gain in (1, 2):
                total += np.minimum((own >= gain).sum(axis=0), left)
        else:
            out = max(0, len(own) - left)
            total += np.partition(own, out, axis=0)[out:].sum(axis=0, dtype=np.int64)
    return total


def _most(taken: NDArray[np.bool_], starts: NDArray[np.int64]) -> int:
    """Return the largest share of a single unit in points, from its shares in pairs."""
    if len(starts) < taken.shape[1]:
        taken = np.logical_or.reduceat(taken, starts, axis=1)
    return int(taken.sum(axis=1).max())


def _open(
    shares: NDArray[np.int64], family: NDArray[np.int64], free: tuple[int, ...], most: int
) -> tuple[NDArray[np.int64], int]:
    """Return units ordered by weight, and after how many of them too little is left.

    Later units, ``free`` of each family, weigh less than ``most`` points together. Points with
    large shares count as lost instead, if that shortens the list.
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
        # Weights, and hence these sums, decrease.
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
    """Return units' shares, which sum to a `WHOLE` for a lost point, shape (units, points).

    In a point lost to a label, the units' gains meet the pair's need, so that gains divided by the
    need and clipped at 1 sum to at least 1. If each gains at most 2, at least half of the need,
    rounded up, must gain at all, and at least the need minus ``left`` must gain 2: these give
    alternative shares. With several labels, the largest share counts.
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
