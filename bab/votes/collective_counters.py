"""Exhaustive search over attacks of few units, with bit counters of needs.

A pair's counter starts at the need short of a power of two, and whoever gains adds to it; where
it runs over, the point is lost. Bit b of the counters of 64 pairs is a word, so that a unit is
added to all of them at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit
from leaveout.encoders.votes.collective import Stakes

Bits = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Counters:
    """Gains of units as bits, with words for the n-th pair of each point."""

    gains: Bits  # shape (units, 2, words): pairs that a unit gains 1, and 2
    start: Bits  # shape (bits, words): the counters
    widths: NDArray[np.int64]  # shape (most pairs of a point,)

    def work(self, budget: int) -> float:
        """Return how many words are looked at, about."""
        return float(math.comb(len(self.gains), budget) * self.gains.shape[2])

    def task(self, first: int, units: NDArray[np.int64], best: int) -> int:
        """Enumerate the attacks that begin with a unit."""
        return int(_task(self.gains, self.start, self.widths, first, units, best))


def counters_of(stakes: Stakes, order: NDArray[np.int64]) -> Counters | None:
    """Return the counters of an attack, None where units share members or are of families."""
    if stakes.reach.shape[1] != 1 or len(stakes.sizes) > 1:
        return None
    gains = stakes.gains[stakes.reach[order, 0]]
    bits = (2 * stakes.budget).bit_length()
    _, firsts, counts = np.unique(stakes.points, return_index=True, return_counts=True)
    by_pairs = np.argsort(-counts, kind="stable")
    firsts, counts = firsts[by_pairs], counts[by_pairs]
    gained, start, widths = [], [], []
    for place in range(int(counts.max(initial=0))):
        pairs = firsts[counts > place] + place
        own = gains[:, pairs]
        gained.append(np.stack([_words(own == 1), _words(own == 2)], axis=1))
        short = 2**bits - stakes.needs[pairs]
        start.append(_words((short >> np.arange(bits)[:, None]) & 1 == 1))
        widths.append(start[-1].shape[1])
    return Counters(
        np.ascontiguousarray(np.concatenate(gained, axis=2)),
        np.ascontiguousarray(np.concatenate(start, axis=1)),
        np.array(widths),
    )


def _words(flags: NDArray[np.bool_]) -> Bits:
    """Return flags as bits of words, shape (rows, words)."""
    padded = np.pad(flags, ((0, 0), (0, -flags.shape[1] % 64)))
    return np.ascontiguousarray(np.packbits(padded, axis=1)).view(np.uint64)


@cached_njit(nogil=True)
def _add_unit(gains: Bits, held: Bits, lost: Bits, after: Bits, then: Bits) -> None:
    """Add a unit to the counters; an overflow marks a point as lost for good."""
    for word in range(held.shape[1]):
        carry = gains[0, word]
        for bit in range(held.shape[0]):
            if bit == 1:
                carry |= gains[1, word]
            now = held[bit, word]
            after[bit, word] = now ^ carry
            carry &= now
        then[word] = lost[word] | carry


@cached_njit(nogil=True)
def _count_lost(
    gains: Bits, held: Bits, lost: Bits, widths: NDArray[np.int64], points: Bits
) -> int:
    """Count the points lost with one more unit."""
    points[:] = 0
    start = 0
    for width in widths:
        for word in range(start, start + width):
            carry = gains[0, word] & held[0, word]
            carry = (carry | gains[1, word]) & held[1, word]
            for bit in range(2, held.shape[0]):
                carry &= held[bit, word]
            points[word - start] |= lost[word] | carry
        start += width
    total = 0
    for each in points:
        each -= (each >> np.uint64(1)) & np.uint64(0x5555555555555555)
        pairs = each & np.uint64(0x3333333333333333)
        each = pairs + ((each >> np.uint64(2)) & np.uint64(0x3333333333333333))
        each = (each + (each >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        total += int(np.int64((each * np.uint64(0x0101010101010101)) >> np.uint64(56)))
    return total


@cached_njit(nogil=True)
def _task(
    gains: Bits,
    start: Bits,
    widths: NDArray[np.int64],
    first: int,
    kept: NDArray[np.int64],
    best: int,
) -> int:
    """Enumerate the attacks that begin with a unit; return the greatest loss."""
    units, budget = len(gains), len(kept)
    words = start.shape[1]
    held = np.zeros((budget + 1, start.shape[0], words), np.uint64)
    lost = np.zeros((budget + 1, words), np.uint64)
    points = np.zeros(widths[0], np.uint64)
    chosen = np.zeros(budget, np.int64)
    held[0] = start
    depth = 0
    chosen[0] = first
    while depth >= 0:
        unit = chosen[depth]
        # As many units must come after this one as are still to be poisoned.
        if unit > units - budget + depth or (depth == 0 and unit > first):
            depth -= 1
            if depth >= 0:
                chosen[depth] += 1
            continue
        if depth == budget - 1:
            total = _count_lost(gains[unit], held[depth], lost[depth], widths, points)
            if total > best:
                best = total
                kept[:] = chosen
            chosen[depth] += 1
            continue
        _add_unit(gains[unit], held[depth], lost[depth], held[depth + 1], lost[depth + 1])
        depth += 1
        chosen[depth] = unit + 1
    return best
