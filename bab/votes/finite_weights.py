"""Lower bounds of the buckets that an attack needs, by integer weights on members."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.compiling import cached_njit
from leaveout.encoders.votes import finite as kernels

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
def weighted_bound(
    gain: Counts, offsets: Counts, gap: int, least: int, most: int, steps: int
) -> tuple[int, NDArray[np.bool_]]:
    """Return a lower bound of the edits towards a label, better than by adding gains.

    For weights 0 <= y_i <= a_i, r buckets gain at most the sum of a_i - y_i plus the r greatest
    bucket sums of y. A subgradient method seeks the best y; the bound is summed in integers.
    """
    members, spread = len(gain), len(offsets)
    weight = gain.astype(np.float64)
    whole, sums = np.zeros(members, np.int64), np.zeros(members, np.int64)
    tally = np.zeros(2 * spread * UNIT + 1, np.int64)
    slope, fit = np.zeros(members), np.ones(members, np.bool_)
    goal = UNIT * (gap + 1) - 1
    while least < most:
        proved = False
        for _ in range(steps):
            bound, cut, rest = _bound_gain(weight, gain, offsets, least, fit, whole, sums, tally)
            if bound <= goal:
                proved = True
                break
            if cut < 0:
                break
            for h in range(members):
                fit[h] = fit[h] and bound - cut + min(cut, sums[h]) > goal
            stride = (bound - goal + 0.5 * UNIT) / UNIT
            if not _step_weights(
                weight, gain, offsets, fit, sums, slope, cut, rest / tally[cut], stride
            ):
                break
        if not proved:
            break
        least += 1
        fit[:] = True
    return least, fit


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


_STEPS = 300
"""Weights tried per row."""

_AGAIN = 3
"""Successive weights that exclude buckets, before a bucket divides the attacks."""


@dataclass(frozen=True, eq=False)
class FiniteLog:
    """Rows, and the weights for the rows that are -1."""

    rows: NDArray[np.int32]  # shape (rows,)
    weights: NDArray[np.uint16]  # shape (number of -1, members): in units of 1/256


@dataclass(frozen=True, eq=False)
class _Node:
    """Remaining buckets, gains of unreached members, the need to exceed, and the budget left."""

    fit: NDArray[np.bool_]
    gain: Counts
    gap: int
    left: int

    def narrow(self, weights: Counts, offsets: Counts) -> tuple[_Node | None, Counts]:
        """Return what remains possible under some weights, and their sums per bucket."""
        sums = np.zeros_like(weights)
        for offset in offsets.tolist():
            sums += np.roll(weights, -offset)
        top = np.sort(sums[self.fit])[::-1][: self.left]
        bound = int(UNIT * self.gain.sum() - weights.sum() + top.sum())
        enough = UNIT * (self.gap + 1)
        if bound < enough:
            return None, sums
        if not self.left or len(top) < self.left:
            return self, sums
        fit = self.fit & (bound - top[-1] + np.minimum(sums, top[-1]) >= enough)
        return replace(self, fit=fit), sums

    def branch(self, bucket: int, offsets: Counts) -> tuple[_Node, _Node]:
        """Return the attacks without a bucket, and those with it."""
        without, gain = self.fit.copy(), self.gain.copy()
        without[bucket] = False
        reached = (bucket + offsets) % len(gain)
        gain[reached] = 0
        gap = self.gap - int(self.gain[reached].sum())
        return replace(self, fit=without), _Node(without, gain, gap, self.left - 1)


def open_labels(votes: NDArray[np.int32], labels: int, offsets: Counts, edits: int) -> list[int]:
    """Return the labels that this many buckets may let pass, by the published argument."""
    gap, least = np.zeros(labels, np.int64), np.zeros(labels, np.int64)
    hits = np.zeros((labels, len(votes)), np.int32)
    best = int(kernels.gaps(votes, gap))
    kernels.published_edits(votes, offsets, best, gap, hits, least)
    found: list[int] = np.flatnonzero((least <= edits) & (np.arange(labels) != best)).tolist()
    return found


def log_of(
    votes: NDArray[np.int32], labels: int, offsets: Counts, label: int, edits: int, most: int = 2000
) -> FiniteLog | None:
    """Return a log that proves that ``edits`` buckets do not let a label pass the prediction."""
    members = len(votes)
    gap = np.zeros(labels, np.int64)
    best = int(kernels.gaps(votes, gap))
    gain = 1 + (votes == best).astype(np.int64) - (votes == label)
    rows: list[int] = []
    written: list[Counts] = []
    stack = [_Node(np.ones(members, np.bool_), gain, int(gap[label]), edits)]
    while stack:
        top = stack.pop()
        node, sums = top.narrow(UNIT * top.gain, offsets)
        for _ in range(_AGAIN):
            if node is None:
                break
            before, weights = int(node.fit.sum()), np.zeros(members, np.int64)
            goal = UNIT * (node.gap + 1) - 1
            best_weights(node.gain, offsets, goal, node.left, node.fit, _STEPS, weights)
            node, sums = node.narrow(weights, offsets)
            if node is not None and int(node.fit.sum()) == before:
                break
            rows.append(-1)
            written.append(weights)
        if node is None:
            continue
        if len(rows) >= most or not node.left or not node.fit.any():
            return None
        bucket = int(np.where(node.fit, sums, -1).argmax())
        rows.append(bucket)
        stack += node.branch(bucket, offsets)
    weights_of = np.array(written, np.uint16).reshape(len(written), members)
    return FiniteLog(np.array(rows, np.int32), weights_of)
