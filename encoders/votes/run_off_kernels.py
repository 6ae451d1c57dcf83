"""Compiled run-off elections: tallies, least edits and their bounds.

One file, because what is compiled is kept on disk until the file changes that it is called from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit

Ints = NDArray[np.int32]
Counts = NDArray[np.int64]

NOT_A_NUMBER, NOT_FIRST = 1, 2
"""Why a row of scores is refused: it holds NaN, or its greatest is not the vote's."""


@cached_njit(nogil=True)
def tally(votes: Ints, scores: Any, prefer: Ints) -> tuple[int, int]:
    """Count one point's members by vote and preference."""
    labels = prefer.shape[0]
    prefer[:] = 0
    for i in range(votes.shape[0]):
        vote = votes[i]
        table = prefer[vote]
        top = scores[i, vote]
        fault = 0
        for b in range(labels):
            score = scores[i, b]
            if not (score <= top):
                fault = NOT_FIRST
            if b < vote and score == top:
                fault = NOT_FIRST
        if fault != 0:
            for b in range(labels):
                if np.isnan(scores[i, b]):
                    return NOT_A_NUMBER, i
            return fault, i
        for a in range(labels):
            score = scores[i, a]
            row = table[a]
            for b in range(a, labels):
                row[b] += np.int32(score >= scores[i, b])
    return 0, 0


@cached_njit(nogil=True)
def _supporters_among(prefer: Ints, g: int, a: int, b: int) -> int:
    """Return how many members vote g and prefer a to a different b."""
    if a < b:
        return int(prefer[g, a, b])
    return int(prefer[g, g, g] - prefer[g, b, a])


@cached_njit(nogil=True)
def _first_round(prefer: Ints, counts: Counts) -> tuple[int, int]:
    """Fill the first round's counts; return its two finalists, the front runner first."""
    labels = len(counts)
    for g in range(labels):
        counts[g] = prefer[g, g, g]
    first = 0
    for g in range(1, labels):
        if counts[g] > counts[first]:
            first = g
    second = -1
    for g in range(labels):
        if g != first and (second < 0 or counts[g] > counts[second]):
            second = g
    return first, second


@cached_njit(nogil=True)
def _support(prefer: Ints, a: int, b: int) -> int:
    """Return how many members prefer a to b."""
    total = 0
    for g in range(prefer.shape[0]):
        total += _supporters_among(prefer, g, a, b)
    return total


@cached_njit(nogil=True)
def _run_off_deficit(prefer: Ints, parts: int, a: int, b: int) -> int:
    """Return how many members a lacks to win against b, negative for a surplus."""
    return (parts + (a > b) + 1) // 2 - _support(prefer, a, b)


@cached_njit(nogil=True)
def _elect(prefer: Ints, counts: Counts, parts: int) -> tuple[int, int]:
    """Return the winner and the other finalist."""
    first, second = _first_round(prefer, counts)
    if _run_off_deficit(prefer, parts, first, second) <= 0:
        return first, second
    return second, first


@cached_njit(nogil=True)
def _behind(counts: Counts, a: int, b: int) -> int:
    """Return how many votes a lacks to stand before b in the first round."""
    return int(counts[b] - counts[a] + (b < a))


@cached_njit(nogil=True)
def _half(gap: int) -> int:
    """Return the least edits that close a gap by up to two each."""
    return max(0, (gap + 1) // 2)


@cached_njit(nogil=True)
def _both(one: int, other: int) -> int:
    """Return the least edits that close two gaps by at most (2, 1) or (1, 2) each.

    The closed form of A[i, j] = 1 + min(A[i - 2, j - 1], A[i - 1, j - 2]).
    """
    return max(_half(one), _half(other), (max(one, 0) + max(other, 0) + 2) // 3)


@cached_njit(nogil=True)
def _published_edits(prefer: Ints, counts: Counts, parts: int, winner: int, other: int) -> int:
    """Return a lower bound of edits that change the winner (published argument)."""
    labels = len(counts)
    least = parts + 1
    for a in range(labels):
        if a == winner:
            continue
        enters = 0 if a == other else _half(_behind(counts, a, other))
        least = min(least, max(enters, _run_off_deficit(prefer, parts, a, winner)))
        for b in range(a + 1, labels):
            if b != winner:
                least = min(least, _both(_behind(counts, a, winner), _behind(counts, b, winner)))
    return least


@cached_njit(nogil=True)
def _demands(pair: Any, losers: Counts, free: Counts, gain: int, other: int) -> tuple[int, int]:
    """Return the infeasibility of a pair of net gains, and how many others it recasts."""
    to_t, to_s, votes, cheap, lacking = pair
    recast = gain + other
    forced, roomy, spent, beyond = 0, 0, 0, 0
    for u in range(len(votes)):
        must = max(0, to_t[u] - gain, to_s[u] - other)
        losers[u] = must
        free[u] = max(must, cheap[u])
        forced += must
        roomy += free[u]
        spent += max(0, must - cheap[u])
        beyond = max(beyond, must - votes[u])
    spent += max(0, recast - roomy)
    return max(beyond, forced - recast, lacking - gain + spent), spent


@cached_njit(nogil=True)
def _within(
    pair: Any, losers: Counts, free: Counts, rest: int, theirs: int, budget: int
) -> tuple[bool, int, int]:
    """Return whether a budget suffices for two finalists, and their net gains if so.

    For each gain of s, the most that t can gain is best; along that line the violation is convex,
    so bisection finds its least value.
    """
    low, high = -min(theirs, budget), min(budget, rest)
    while low <= high:
        middle = (low + high) // 2
        gain = min(budget - max(middle, 0), rest - middle)
        here, _ = _demands(pair, losers, free, gain, middle)
        if here <= 0:
            return True, gain, middle
        if middle == high:
            high = middle - 1
            continue
        further = min(budget - max(middle + 1, 0), rest - middle - 1)
        there, _ = _demands(pair, losers, free, further, middle + 1)
        if there >= here:
            high = middle - 1
        else:
            low = middle + 1
    return False, 0, 0


@cached_njit(nogil=True)
def _pair_bound(prefer: Ints, counts: Counts, parts: int, t: int, s: int) -> int:
    """Return a lower bound of edits after which t can win against s."""
    least = _run_off_deficit(prefer, parts, t, s)
    for u in range(len(counts)):
        if u not in (t, s):
            one, two = _behind(counts, t, u), _behind(counts, s, u)
            least = max(least, _half(one), _half(two), (one + two + 2) // 3)
    return least


@cached_njit(nogil=True)
def _least(
    prefer: Ints, counts: Counts, parts: int, winner: int, target: int, known: int, plan: Counts
) -> None:
    """Find the cheapest attack: (edits, t, s, gain of t, gain of s), t free or a target."""
    labels = len(counts)
    bounds = np.full((labels, labels), parts + 1)
    for t in range(labels):
        for s in range(labels):
            if t not in (winner, s) and target in (-1, t):
                bounds[t, s] = max(known, _pair_bound(prefer, counts, parts, t, s))
    width = labels - 2
    to_t, to_s = np.zeros(width, np.int64), np.zeros(width, np.int64)
    votes, cheap = np.zeros(width, np.int64), np.zeros(width, np.int64)
    losers, free = np.zeros(width, np.int64), np.zeros(width, np.int64)
    plan[0] = parts + 1
    while True:
        place = int(np.argmin(bounds))
        t, s = place // labels, place % labels
        low, high = int(bounds[t, s]), int(plan[0]) - 1
        if low > high:
            return
        bounds[t, s] = parts + 1
        rest, u = 0, 0
        for g in range(labels):
            if g not in (t, s):
                to_t[u], to_s[u] = _behind(counts, t, g), _behind(counts, s, g)
                votes[u], cheap[u] = counts[g], _supporters_among(prefer, g, s, t)
                rest += counts[g]
                u += 1
        pair = (to_t, to_s, votes, cheap, _run_off_deficit(prefer, parts, t, s))
        theirs = int(counts[s])
        # A budget that suffices stays enough when it grows.
        suffices, gain, other = _within(pair, losers, free, rest, theirs, high)
        if not suffices:
            continue
        plan[1], plan[2] = t, s
        plan[0], plan[3], plan[4] = high, gain, other
        while low < high:
            middle = (low + high) // 2
            suffices, gain, other = _within(pair, losers, free, rest, theirs, middle)
            if suffices:
                high = middle
                plan[0], plan[3], plan[4] = high, gain, other
            else:
                low = middle + 1


@cached_njit(nogil=True)
def predictions(votes: Ints, scores: Any, labels: int, found: Ints) -> tuple[int, int, int]:
    """Fill in the winners, shape (points,); return the fault, its point and its member."""
    prefer, counts = np.zeros((labels, labels, labels), np.int32), np.zeros(labels, np.int64)
    for j in range(votes.shape[0]):
        fault, part = tally(votes[j], scores[j], prefer)
        if fault != 0:
            return fault, j, part
        found[j] = _elect(prefer, counts, votes.shape[1])[0]
    return 0, 0, 0


@cached_njit(nogil=True)
def fill_published_edits(
    votes: Ints, scores: Any, labels: int, found: Ints
) -> tuple[int, int, int]:
    """Fill in published least edits; return as `predictions` does."""
    prefer, counts = np.zeros((labels, labels, labels), np.int32), np.zeros(labels, np.int64)
    parts = votes.shape[1]
    for j in range(votes.shape[0]):
        fault, part = tally(votes[j], scores[j], prefer)
        if fault != 0:
            return fault, j, part
        winner, other = _elect(prefer, counts, parts)
        found[j] = _published_edits(prefer, counts, parts, winner, other)
    return 0, 0, 0


@cached_njit(nogil=True)
def least_edits(
    votes: Ints, scores: Any, labels: int, target: int, plans: Counts
) -> tuple[int, int, int]:
    """Fill in the cheapest attack on each point; return as `predictions` does."""
    prefer, counts = np.zeros((labels, labels, labels), np.int32), np.zeros(labels, np.int64)
    parts = votes.shape[1]
    for j in range(votes.shape[0]):
        fault, part = tally(votes[j], scores[j], prefer)
        if fault != 0:
            return fault, j, part
        winner, other = _elect(prefer, counts, parts)
        if winner == target:
            plans[j, 0], plans[j, 1], plans[j, 2] = 0, winner, other
            plans[j, 3], plans[j, 4] = 0, 0
            continue
        known = _published_edits(prefer, counts, parts, winner, other)
        _least(prefer, counts, parts, winner, target, known, plans[j])
    return 0, 0, 0
