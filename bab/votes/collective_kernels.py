"""The inner loops of the search for the worst collective attack."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import kept

__all__ = ["add", "bound", "bound_from", "explore", "heaviest", "losses", "open_pairs"]

_SLACK = 1e-6
"""Added to sums of quotients before they are rounded down."""


@kept()
def add(
    unit: int,
    sign: int,
    reach: NDArray[np.int64],
    gains: NDArray[np.int32],
    covered: NDArray[np.int64],
    sums: NDArray[np.int32],
) -> None:
    """Poison a unit, or undo it."""
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


@kept()
def open_pairs(
    sums: NDArray[np.int32],
    needs: NDArray[np.int32],
    owner: NDArray[np.int64],
    most: int,
    active: NDArray[np.int64],
) -> tuple[int, int]:
    """Count lost points; list the pairs of the others that ``most`` more gain could decide."""
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


@kept()
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
    """Count the further points that one unit loses."""
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


@kept()
def bound(
    position: int,
    left: int,
    reach: NDArray[np.int64],
    gains: NDArray[np.int32],
    needs: NDArray[np.int32],
    owner: NDArray[np.int64],
    covered: NDArray[np.int64],
    sums: NDArray[np.int32],
    active: NDArray[np.int64],
    count: int,
) -> int:
    """Bound the further points that ``left`` units from a position on lose."""
    open_points, last = 0, -1
    for at in range(count):
        if owner[active[at]] != last:
            open_points += 1
            last = owner[active[at]]
    top = np.zeros(left)
    for unit in range(position, len(reach)):
        weight, share, last = 0.0, 0.0, -1
        for at in range(count):
            pair = active[at]
            if owner[pair] != last:
                weight += share
                share = 0.0
                last = owner[pair]
            gain = 0
            for member in reach[unit]:
                if covered[member] == 0:
                    gain += gains[member, pair]
            share = max(share, min(1.0, gain / (needs[pair] - sums[pair])))
        weight += share
        low = top.argmin()
        if weight > top[low]:
            top[low] = weight
    return min(open_points, int(np.floor(top.sum() + _SLACK)))


@kept()
def explore(
    reach: NDArray[np.int64],
    gains: NDArray[np.int32],
    needs: NDArray[np.int32],
    owner: NDArray[np.int64],
    covered: NDArray[np.int64],
    sums: NDArray[np.int32],
    chosen: NDArray[np.int64],
    following: NDArray[np.int64],
    kept: NDArray[np.int64],
    depth: int,
    fresh: bool,
    best: int,
    steps: int,
) -> tuple[int, bool, int]:
    """Go on with a search for some steps; return the depth (0 at its end), freshness and best.

    ``chosen[:depth]`` is poisoned; at each depth the units from ``following[depth]`` on are still
    to be tried. A node is fresh until its own loss was counted. ``kept`` is the best attack.
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
                    more = losses(unit, reach, gains, needs, owner, covered, sums, active, count)
                    if lost + more > best:
                        best = lost + more
                        kept[:depth] = chosen[:depth]
                        kept[depth] = unit
                following[depth] = units
            else:
                more = bound(
                    following[depth], left, reach, gains, needs, owner, covered, sums, active,
                    count,
                )  # fmt: skip
                if lost + more <= best:
                    following[depth] = units
        if following[depth] < units:
            unit = following[depth]
            following[depth] += 1
            chosen[depth] = unit
            add(unit, 1, reach, gains, covered, sums)
            depth += 1
            if depth < budget:
                following[depth] = unit + 1
            fresh = True
            continue
        depth -= 1
        add(chosen[depth], -1, reach, gains, covered, sums)
        chosen[depth] = -1
    return depth, fresh, best


@kept()
def heaviest(
    reach: NDArray[np.int64],
    gains: NDArray[np.int32],
    needs: NDArray[np.int32],
    owner: NDArray[np.int64],
    covered: NDArray[np.int64],
    sums: NDArray[np.int32],
    taken: NDArray[np.bool_],
) -> int:
    """Return the unit, of those not taken, that brings the points left closest to being lost."""
    active = np.empty(len(needs), np.int64)
    _, count = open_pairs(sums, needs, owner, 1 << 30, active)
    top, top_value = -1, -1.0
    for unit in range(len(reach)):
        if taken[unit]:
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


@kept()
def bound_from(
    reach: NDArray[np.int64],
    gains: NDArray[np.int32],
    needs: NDArray[np.int32],
    owner: NDArray[np.int64],
    budget: int,
    first: int,
) -> int:
    """Bound the points that units from ``first`` on lose."""
    covered = np.zeros(gains.shape[0], np.int64)
    sums = np.zeros(len(needs), np.int32)
    active = np.arange(len(needs))
    return bound(first, budget, reach, gains, needs, owner, covered, sums, active, len(needs))
