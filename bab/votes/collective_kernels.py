"""Inner loops of the search for the worst collective attack."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit
from leaveout.encoders.votes.collective import Stakes

_SLACK = 1e-6
"""Added to sums of quotients before rounding down."""

_EASY = (np.inf, 1.0, 0.7)
"""Average shares from which a point may count as lost; each value is tried."""


@cached_njit()
def add(
    unit: int,
    sign: int,
    reach: NDArray[np.int64],
    gains: NDArray[np.int32],
    covered: NDArray[np.int64],
    sums: NDArray[np.int32],
) -> None:
    """Poison a unit, or undo this."""
    for member in reach[unit]:
        if sign > 0:
            covered[member] += 1
            if covered[member] == 1:
                for pair in range(len(sums)):
                    sums[pair] += gains[member, pair]
        else:
            covered[member] -= 1
            if covered[member] == 0:
                for pair in range(len(sums)):
                    sums[pair] -= gains[member, pair]


@cached_njit()
def open_pairs(
    sums: NDArray[np.int32],
    needs: NDArray[np.int32],
    owner: NDArray[np.int64],
    most: int,
    active: NDArray[np.int64],
) -> tuple[int, int]:
    """Count lost points; list the other points' pairs that ``most`` more gain could decide."""
    lost, count, start = 0, 0, 0
    pairs = len(needs)
    while start < pairs:
        end = start
        done = False
        while end < pairs and owner[end] == owner[start]:
            if sums[end] >= needs[end]:
                done = True
            end += 1
        if done:
            lost += 1
        else:
            for pair in range(start, end):
                if sums[pair] + most >= needs[pair]:
                    active[count] = pair
                    count += 1
        start = end
    return lost, count


@cached_njit()
def losses(
    unit: int,
    reach: NDArray[np.int64],
    gains: NDArray[np.int32],
    needs: NDArray[np.int32],
    owner: NDArray[np.int64],
    covered: NDArray[np.int64],
    sums: NDArray[np.int32],
    active: NDArray[np.int64],
    count: int,
) -> int:
    """Count the additional points that one unit loses."""
    lost, last = 0, -1
    for at in range(count):
        pair = active[at]
        if owner[pair] == last:
            continue
        total = sums[pair]
        for member in reach[unit]:
            if covered[member] == 0:
                total += gains[member, pair]
        if total >= needs[pair]:
            lost += 1
            last = owner[pair]
    return lost


@cached_njit()
def bound(
    position: int,
    reach: NDArray[np.int64],
    family: NDArray[np.int64],
    gains: NDArray[np.int32],
    needs: NDArray[np.int32],
    owner: NDArray[np.int64],
    covered: NDArray[np.int64],
    sums: NDArray[np.int32],
    free: NDArray[np.int64],
    active: NDArray[np.int64],
    count: int,
) -> int:
    """Bound the additional points lost to units from a position on, ``free`` of each family.

    The units' shares ``gain / need`` in a lost point sum to at least 1, so the heaviest units by
    shares lose no more points than their weight. Where units have more than a whole share on
    average, counting the point as lost without its shares gives a smaller bound.
    """
    units, left = len(reach), free.sum()
    open_points = 0
    weights, easy = np.zeros((len(_EASY), units)), np.zeros(len(_EASY))
    shares = np.zeros(units)
    average = left / max(1, units - position)
    start = 0
    while start < count:
        end, total = start, 0.0
        while end < count and owner[active[end]] == owner[active[start]]:
            end += 1
        for unit in range(position, units):
            shares[unit] = 0.0
            if free[family[unit]] == 0:
                continue
            for at in range(start, end):
                pair, gain = active[at], 0
                for member in reach[unit]:
                    if covered[member] == 0:
                        gain += gains[member, pair]
                shares[unit] = max(shares[unit], min(1.0, gain / (needs[pair] - sums[pair])))
            total += shares[unit]
        for kind in range(len(_EASY)):
            if total * average >= _EASY[kind]:
                easy[kind] += 1.0
            else:
                weights[kind, position:] += shares[position:]
        open_points += 1
        start = end
    least = float(open_points)
    for kind in range(len(_EASY)):
        least = min(least, easy[kind] + _top(position, weights[kind], family, free))
    return int(np.floor(least + _SLACK))


@cached_njit()
def _top(
    position: int, weights: NDArray[np.float64], family: NDArray[np.int64], free: NDArray[np.int64]
) -> float:
    """Sum the greatest weights of units from a position on, up to ``free`` of each family."""
    total = 0.0
    for own in range(len(free)):
        if free[own] == 0:
            continue
        top = np.zeros(free[own])
        for unit in range(position, len(weights)):
            if family[unit] == own:
                low = top.argmin()
                if weights[unit] > top[low]:
                    top[low] = weights[unit]
        total += top.sum()
    return total


@cached_njit()
def explore(
    reach: NDArray[np.int64],
    family: NDArray[np.int64],
    gains: NDArray[np.int32],
    needs: NDArray[np.int32],
    owner: NDArray[np.int64],
    covered: NDArray[np.int64],
    sums: NDArray[np.int32],
    free: NDArray[np.int64],
    chosen: NDArray[np.int64],
    following: NDArray[np.int64],
    kept: NDArray[np.int64],
    depth: int,
    fresh: bool,
    best: int,
    steps: int,
) -> tuple[int, bool, int]:
    """Continue a search for some steps; return the depth (0 at its end), freshness and best.

    ``chosen[:depth]`` is poisoned, and ``free`` more of each family can be; at each depth, the
    units from ``following[depth]`` on are still to be tried. A node is fresh until its loss is
    counted. ``kept`` is the best attack.
    """
    units, width, budget = len(reach), reach.shape[1], len(chosen)
    active = np.empty(len(needs), np.int64)
    while depth >= 1 and steps > 0:
        steps -= 1
        left = budget - depth
        if fresh:
            fresh = False
            lost, count = open_pairs(sums, needs, owner, 2 * width * left, active)
            if lost > best:
                best = lost
                kept[:] = -1
                kept[:depth] = chosen[:depth]
            if left == 0:
                following[depth] = units
            elif left == 1:
                for unit in range(following[depth], units):
                    if free[family[unit]] == 0:
                        continue
                    more = losses(unit, reach, gains, needs, owner, covered, sums, active, count)
                    if lost + more > best:
                        best = lost + more
                        kept[:depth] = chosen[:depth]
                        kept[depth] = unit
                following[depth] = units
            else:
                more = bound(
                    following[depth], reach, family, gains, needs, owner, covered, sums, free,
                    active, count,
                )  # fmt: skip
                if lost + more <= best:
                    following[depth] = units
        while following[depth] < units and free[family[following[depth]]] == 0:
            following[depth] += 1
        if following[depth] < units:
            unit = following[depth]
            following[depth] += 1
            chosen[depth] = unit
            free[family[unit]] -= 1
            add(unit, 1, reach, gains, covered, sums)
            depth += 1
            if depth < budget:
                following[depth] = unit + 1
            fresh = True
            continue
        depth -= 1
        add(chosen[depth], -1, reach, gains, covered, sums)
        free[family[chosen[depth]]] += 1
        chosen[depth] = -1
    return depth, fresh, best


@cached_njit()
def heaviest(
    reach: NDArray[np.int64],
    family: NDArray[np.int64],
    gains: NDArray[np.int32],
    needs: NDArray[np.int32],
    owner: NDArray[np.int64],
    covered: NDArray[np.int64],
    sums: NDArray[np.int32],
    free: NDArray[np.int64],
    taken: NDArray[np.bool_],
) -> int:
    """Return the unit that brings the remaining points closest to being lost.

    Units already taken, and those of exhausted families, are excluded.
    """
    active = np.empty(len(needs), np.int64)
    _, count = open_pairs(sums, needs, owner, 1 << 30, active)
    top, top_value = -1, -1.0
    for unit in range(len(reach)):
        if taken[unit] or free[family[unit]] == 0:
            continue
        value = 0.0
        for at in range(count):
            pair = active[at]
            gain = 0
            for member in reach[unit]:
                if covered[member] == 0:
                    gain += gains[member, pair]
            value += min(1.0, gain / (needs[pair] - sums[pair])) ** 2
        if value > top_value:
            top, top_value = unit, value
    return top


@cached_njit()
def bound_from(
    reach: NDArray[np.int64],
    family: NDArray[np.int64],
    gains: NDArray[np.int32],
    needs: NDArray[np.int32],
    owner: NDArray[np.int64],
    quotas: NDArray[np.int64],
    first: int,
) -> int:
    """Bound the points lost to units from ``first`` on."""
    covered = np.zeros(gains.shape[0], np.int64)
    sums = np.zeros(len(needs), np.int32)
    active = np.arange(len(needs))
    return bound(
        first, reach, family, gains, needs, owner, covered, sums, quotas, active, len(needs)
    )


Bits = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Counters:
    """Gains of units as bits, with one word for the n-th pair of each point."""

    gains: Bits  # shape (units, 2, words): pairs in which a unit gains 1, and 2
    start: Bits  # shape (bits, words): the counters
    widths: NDArray[np.int64]  # shape (most pairs of a point,)

    def work(self, budget: int) -> float:
        """Return the approximate number of words to process."""
        return float(math.comb(len(self.gains), budget) * self.gains.shape[2])

    def task(self, first: int, units: NDArray[np.int64], best: int) -> int:
        """Enumerate the attacks whose first unit is given."""
        return int(_task(self.gains, self.start, self.widths, first, units, best))


def counters_of(stakes: Stakes, order: NDArray[np.int64]) -> Counters | None:
    """Return the counters of an attack; None if units share members or have several families."""
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
    """Add a unit to the counters; an overflow marks a point as permanently lost."""
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
    """Enumerate the attacks whose first unit is given; return the greatest loss."""
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
        # Leave enough later units for those still to be poisoned.
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
