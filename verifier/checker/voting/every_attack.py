"""The greatest loss of all attacks by enumeration, with points as bits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit

Bits = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Slots:
    """Gains of units as bits, with a slot for the n-th pair of each point.

    Points with more pairs come first, so that later slots are shorter; a point has the same bit in
    each.
    """

    some: Bits  # shape (units, words): pairs that a unit gains at least 1, and 2
    twos: Bits  # shape (units, words): pairs that a unit gains at least 1, and 2
    needs: Bits  # shape (2 * left, words): pairs that need 1, 2,
    starts: NDArray[np.int64]  # shape (slots + 1,): where each slot begins

    @property
    def work(self) -> float:
        """The most words that an enumeration reads, approximately."""
        left = len(self.needs) // 2
        return float(math.comb(len(self.some), left) * self.some.shape[1])

    def lose(self, most: int, words: float = math.inf) -> tuple[bool | None, int]:
        """Return whether the units left can lose more than some points, and the words read."""
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
    """Count the bits of a word that are set."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int(np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56)))


@cached_njit(nogil=True)
def _last(
    some: Bits, twos: Bits, needs: Bits, starts: NDArray[np.int64], lost: Bits, own: Bits
) -> int:
    """Count the points that are lost with one unit more."""
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
    """Poison a unit: fill in pairs' remaining needs ``after``, and losses ``then``.

    Returns how many points are lost by then, or may be to the units left.
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
    """Return whether any attack loses more than ``most`` points, -1 if too slow to tell.

    It stops at the first such attack, and returns the number of words read too.
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
