"""Search for small attacks on Finite Aggregation: greedy, then bucket exchanges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit

Counts = NDArray[np.int64]


@cached_njit(nogil=True)
def _shift(state: Any, h: int, step: int) -> int:
    """Add a bucket (step 1) or take one out (-1); return by how much the gain changes."""
    gain, offsets, cover, new, own, inside = state
    members = len(cover)
    inside[h] = step > 0
    change = 0
    for offset in offsets:
        i = h + offset
        i = i if i < members else i - members
        before, after = cover[i], cover[i] + step
        cover[i] = after
        if min(before, after) > 1 or gain[i] == 0:
            continue
        # A member adds to `new` of its buckets while uncovered, to `own` while covered once.
        to_new = gain[i] * ((after == 0) - (before == 0))
        to_own = gain[i] * ((after == 1) - (before == 1))
        change -= to_new
        for back in offsets:
            b = i - back
            b = b if b >= 0 else b + members
            new[b] += to_new
            own[b] += to_own
    return change


@cached_njit(nogil=True)
def attack(gain: Counts, offsets: Counts, gap: int, least: int, most: int, steps: int) -> Counts:
    """Search for few buckets that let a label pass the prediction.

    Greedily, then with one bucket less as long as exchanges of one for another find that.
    """
    members, spread = len(gain), len(offsets)
    cover, own = np.zeros(members, np.int64), np.zeros(members, np.int64)
    new, inside = np.zeros(members, np.int64), np.zeros(members, np.bool_)
    for i in range(members):
        for offset in offsets:
            h = i - offset
            new[h if h >= 0 else h + members] += gain[i]
    state = (gain, offsets, cover, new, own, inside)
    value, count = 0, 0
    # What a bucket adds never grows, so one pass for each amount finds the greatest every time.
    for level in range(2 * spread, 0, -1):
        for h in range(members):
            if new[h] == level and not inside[h] and value <= gap:
                value += _shift(state, h, 1)
                count += 1
    kept = inside.copy()
    found = count
    barred = np.zeros(members, np.int64)
    clock = 0
    while found > least and count > 1:
        clock, value, count = _without(state, barred, clock, value, count)
        for _ in range(steps):
            if value > gap:
                break
            clock, value, count = _without(state, barred, clock, value, count)
            clock, value, count = _with(state, barred, clock, value, count)
        if value <= gap or count >= found:
            break
        found = count
        kept[:] = inside
    if found > most:
        return np.zeros(0, np.int64)
    return np.flatnonzero(kept)


@cached_njit(nogil=True)
def _without(
    state: Any, barred: Counts, clock: int, value: int, count: int
) -> tuple[int, int, int]:
    """Take out the bucket that adds least on its own, of those that did not just come in."""
    own, inside = state[4], state[5]
    worst = -1
    for h in range(len(own)):
        if inside[h] and barred[h] <= clock and (worst < 0 or own[h] < own[worst]):
            worst = h
    if worst < 0:
        return clock + 1, value, count
    barred[worst] = clock + 7 + clock % 5
    return clock + 1, value + _shift(state, worst, -1), count - 1


@cached_njit(nogil=True)
def _with(state: Any, barred: Counts, clock: int, value: int, count: int) -> tuple[int, int, int]:
    """Put in the bucket that adds most, of those that did not just leave."""
    new, inside = state[3], state[5]
    found = -1
    for h in range(len(new)):
        if not inside[h] and barred[h] <= clock and (found < 0 or new[h] > new[found]):
            found = h
    if found < 0:
        return clock + 1, value, count
    barred[found] = clock + 3 + clock % 3
    return clock + 1, value + _shift(state, found, 1), count + 1
