"""Compiled demands of a lost run-off: sums of freed members' gains to reach.

One file, because what is compiled is kept on disk until the file changes that it is called from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit

Ints = NDArray[np.int32]
Counts = NDArray[np.int64]
Gains = NDArray[np.int8]


@cached_njit(nogil=True)
def _contenders(counts: Counts, a: int, t: int, s: int, freed: int, found: Counts) -> int:
    """List the third labels that may lead once ``a`` must stand before them.

    A label that another always leads is left out; of labels without a vote only the smallest
    counts.
    """
    top = -1
    for u in range(len(counts)):
        if u not in (t, s):
            top = max(top, counts[u] + (u < a))
    number, empty = 0, False
    for u in range(len(counts)):
        if u in (t, s) or (counts[u] == 0 and empty):
            continue
        empty = empty or counts[u] == 0
        own = counts[u] + (u < a)
        if own == top or own > top - freed:
            found[number] = u
            number += 1
    return number


@cached_njit(nogil=True)
def demands(
    votes: Ints, scores: Any, counts: Counts, t: int, s: int, freed: int, gains: Gains,
    needs: Counts,  # shape (demands there is room for,)
) -> int:  # fmt: skip
    """Fill in what t needs to win against s; return the number of demands, 0 for none."""
    members, labels = scores.shape
    ahead = np.zeros(members, np.int8)
    support = 0
    for i in range(members):
        one, other = scores[i, t], scores[i, s]
        ahead[i] = one > other or (one == other and t < s)
        support += ahead[i]
    lacking = (members + (t > s) + 1) // 2 - support
    for_t, for_s = np.zeros(labels, np.int64), np.zeros(labels, np.int64)
    to_t, to_s = (
        _contenders(counts, t, t, s, freed, for_t),
        _contenders(counts, s, t, s, freed, for_s),
    )
    number = 0
    if lacking > 0:
        needs[number] = lacking
        for i in range(members):
            gains[number, i] = 1 - ahead[i]
        number += 1
    for place in range(to_t):
        u = for_t[place]
        behind = counts[u] - counts[t] + (u < t)
        if behind > 0:
            needs[number] = behind
            for i in range(members):
                gains[number, i] = 1 + (votes[i] == u) - (votes[i] == t)
            number += 1
        for other_place in range(to_s):
            w = for_s[other_place]
            both = behind + counts[w] - counts[s] + (w < s)
            if both > 0:
                needs[number] = both
                for i in range(members):
                    v = votes[i]
                    gains[number, i] = 1 + (v == u) + (v == w) - (v == t) - (v == s)
                number += 1
    for place in range(to_s):
        u = for_s[place]
        behind = counts[u] - counts[s] + (u < s)
        if behind > 0:
            needs[number] = behind
            for i in range(members):
                gains[number, i] = 1 + (votes[i] == u) - (votes[i] == s)
            number += 1
        if lacking + behind > 0:
            needs[number] = lacking + behind
            for i in range(members):
                gains[number, i] = 1 - ahead[i] + (votes[i] == u) - (votes[i] == s)
            number += 1
    return number


@cached_njit(nogil=True)
def least_units(gains: Gains, offsets: Counts, need: int, sums: Counts) -> int:
    """Return the fewest units whose added gains reach a need, or their number plus one."""
    members = len(gains)
    sums[:] = 0
    for h in range(members):
        total = 0
        for offset in offsets:
            i = h + offset
            total += gains[i if i < members else i - members]
        sums[total] += 1
    used = 0
    for gain in range(len(sums) - 1, 0, -1):
        if sums[gain] * gain >= need:
            return int(used + max(0, need + gain - 1) // gain)
        need -= sums[gain] * gain
        used += sums[gain]
    return members + 1 if need > 0 else used


@cached_njit(nogil=True)
def units_for_pairs(
    votes: Ints, scores: Any, offsets: Counts, winner: int, most: int, gains: Gains,
    needs: Counts, least: Counts,
) -> None:  # fmt: skip
    """Fill in a lower bound of units for each pair of a new winner and a finalist."""
    members, labels = scores.shape
    counts = np.zeros(labels, np.int64)
    for vote in votes:
        counts[vote] += 1
    sums = np.zeros(3 * len(offsets) + 1, np.int64)
    for t in range(labels):
        for s in range(labels):
            least[t, s] = members + 1
            if t in (winner, s):
                continue
            number = demands(
                votes, scores, counts, t, s, min(members, max(1, most) * len(offsets)), gains, needs
            )
            units = 0
            for row in range(number):
                units = max(units, least_units(gains[row], offsets, needs[row], sums))
                if units > most:
                    break
            if units <= most:
                least[t, s] = units


@cached_njit(nogil=True)
def demands_at(
    votes: Ints, scores: Any, offsets: Counts, winner: int, budget: int,
    only: tuple[int, int], gains: Gains, needs: Counts, pairs: Ints, ends: Counts,
) -> int:  # fmt: skip
    """Fill in the demands of each affordable pair; return the pairs."""
    members, labels = scores.shape
    counts = np.zeros(labels, np.int64)
    for vote in votes:
        counts[vote] += 1
    sums = np.zeros(3 * len(offsets) + 1, np.int64)
    freed = min(members, budget * len(offsets))
    own_most = 1 + 3 * labels + labels * labels
    found, start = 0, 0
    for t in range(labels):
        for s in range(labels):
            if t in (winner, s) or (only[0] >= 0 and (t, s) != only):
                continue
            if len(needs) - start < own_most:
                ends[0] = -1
                return found
            number = demands(votes, scores, counts, t, s, freed, gains[start:], needs[start:])
            within = True
            for row in range(start, start + number):
                if least_units(gains[row], offsets, needs[row], sums) > budget:
                    within = False
                    break
            if within:
                pairs[found, 0], pairs[found, 1] = t, s
                start += number
                ends[found] = start
                found += 1
    return found


@cached_njit(nogil=True)
def published_units(votes: Ints, scores: Any, offsets: Counts, labels: int, found: Counts) -> None:
    """Fill in the least units by the published argument, shape (points,)."""
    points, members = votes.shape
    counts, gains = np.zeros(labels, np.int64), np.zeros(members, np.int8)
    sums = np.zeros(3 * len(offsets) + 1, np.int64)
    for j in range(points):
        counts[:] = 0
        for vote in votes[j]:
            counts[vote] += 1
        first = 0
        for g in range(labels):
            if counts[g] > counts[first]:
                first = g
        second = 1 if first == 0 else 0
        for g in range(labels):
            if g != first and counts[g] > counts[second]:
                second = g
        support = 0
        for i in range(members):
            one, other = scores[j, i, first], scores[j, i, second]
            support += one > other or (one == other and first < second)
        wins = 2 * support >= members + (first > second)
        winner, other = (first, second) if wins else (second, first)
        least = members + 1
        for a in range(labels):
            if a == winner:
                continue
            behind = counts[winner] - counts[a] + (winner < a)
            # The winner stands, a enters the run-off and wins it.
            support = 0
            for i in range(members):
                one, its = scores[j, i, a], scores[j, i, winner]
                gains[i] = not (one > its or (one == its and a < winner))
                support += 1 - gains[i]
            lacking = (members + (a > winner) + 1) // 2 - support
            units = least_units(gains, offsets, lacking, sums)
            if a != other:
                for i in range(members):
                    gains[i] = 1 + (votes[j, i] == other) - (votes[j, i] == a)
                need = counts[other] - counts[a] + (other < a)
                units = max(units, least_units(gains, offsets, need, sums))
            least = min(least, units)
            for i in range(members):
                gains[i] = 1 + (votes[j, i] == winner) - (votes[j, i] == a)
            alone = least_units(gains, offsets, behind, sums)
            # Two labels stand before the winner.
            for b in range(a + 1, labels):
                if b == winner or alone >= least:
                    continue
                need = counts[winner] - counts[b] + (winner < b)
                for i in range(members):
                    gains[i] = 1 + (votes[j, i] == winner) - (votes[j, i] == b)
                units = max(alone, least_units(gains, offsets, need, sums))
                for i in range(members):
                    v = votes[j, i]
                    gains[i] = 1 + 2 * (v == winner) - (v == a) - (v == b)
                units = max(units, least_units(gains, offsets, need + behind, sums))
                least = min(least, units)
        found[j] = least
