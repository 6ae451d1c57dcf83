"""Weights of members that several choices of an attack reach, so that few are counted twice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.compiling import cached_njit

Counts = NDArray[np.int64]

UNIT = 256
"""Weights are multiples of 1 / UNIT, so that proofs are free of rounding."""


@cached_njit(nogil=True)
def _bound_gain(
    weight: Floats, gain: Counts, offsets: Counts, left: int, fit: NDArray[np.bool_],
    whole: Counts, sums: Counts, tally: Counts,
) -> tuple[int, int, int]:  # fmt: skip
    """Bound the joint gain of fitting buckets; fill in integer weights and sums.

    Returns the bound, the least sum of a counted bucket (-1 if all count), and how many have it.
    """
    members = len(gain)
    bound = np.int64(0)
    sums[:] = 0
    for i in range(members):
        whole[i] = round(weight[i] * UNIT)
        bound += gain[i] * UNIT - whole[i]
        for offset in offsets:
            h = i - offset
            sums[h if h >= 0 else h + members] += whole[i]
    tally[:] = 0
    for h in range(members):
        if fit[h]:
            tally[sums[h]] += 1
    cut, rest = len(tally) - 1, left
    while cut >= 0 and rest > tally[cut]:
        bound += tally[cut] * cut
        rest -= tally[cut]
        cut -= 1
    bound += rest * max(cut, 0)
    return int(bound), cut, rest


@cached_njit(nogil=True)
def _step_weights(
    weight: Floats, gain: Counts, offsets: Counts, fit: NDArray[np.bool_], sums: Counts,
    slope: Floats, cut: int, share: float, stride: float,
) -> bool:  # fmt: skip
    """Move weights along the bound's slope; return False if the slope is zero.

    Buckets at the threshold ``cut`` count with a share each, since only some of them are needed.
    """
    members = len(gain)
    slope[:] = -1.0
    for h in range(members):
        if fit[h] and sums[h] >= cut:
            part = 1.0 if sums[h] > cut else share
            for offset in offsets:
                i = h + offset
                slope[i if i < members else i - members] += part
    norm = 0.0
    for i in range(members):
        is_held = weight[i] <= 0.0 if slope[i] > 0.0 else weight[i] >= gain[i]
        if is_held:
            slope[i] = 0.0
        norm += slope[i] ** 2
    if norm < 1e-12:
        return False
    step = stride / norm
    for i in range(members):
        weight[i] = min(max(weight[i] - step * slope[i], 0.0), float(gain[i]))
    return True


@cached_njit(nogil=True)
def best_weights(
    gain: Counts,  # shape (members,)
    offsets: Counts,  # shape (d,)
    goal: int,
    left: int,
    fit: NDArray[np.bool_],  # shape (members,)
    steps: int,
    found: Counts,  # shape (members,)
) -> int:
    """Seek the weights with the lowest bound on the gain of some buckets."""
    members, spread = len(gain), len(offsets)
    weight, slope = gain.astype(np.float64), np.zeros(members)
    whole, sums = np.zeros(members, np.int64), np.zeros(members, np.int64)
    tally = np.zeros(2 * spread * UNIT + 1, np.int64)
    least = 2**62
    for _ in range(steps):
        bound, cut, rest = _bound_gain(weight, gain, offsets, left, fit, whole, sums, tally)
        if bound < least:
            least = bound
            found[:] = whole
        if bound <= goal or cut < 0:
            break
        share = rest / tally[cut] if tally[cut] else 0.0
        stride = (bound - goal + 0.5 * UNIT) / UNIT
        if not _step_weights(weight, gain, offsets, fit, sums, slope, cut, share, stride):
            break
    return least
