"""Joint answers in a box of one tree and its counterpart in another forest."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.ensembles.chance import compiled_in
from leaveout.verifier.checker.ensembles.sharing import Pool

FACTORS = (0.25, 0.5, 0.75, 1.0, 1.5)
"""Multiples of the other forest's margin that are subtracted; any number from 0 is sound."""


class Asked(NamedTuple):
    """The query of kernels."""

    label: int
    trees: tuple[int, int]  # of the whole forest, and of the others
    factors: NDArray[np.float64]  # shape (factors,)
    padding: float  # more than rounding can move a bound by


class Box(NamedTuple):
    """Inputs: above ``low``, at most ``high``, feature by feature."""

    low: NDArray[np.float64]  # shape (features,)
    high: NDArray[np.float64]  # shape (features,)


@compiled_in
def _down(pool: Pool, box: Box, node: int) -> int:
    """Return the lowest node above all leaves that a box reaches."""
    while pool.feature[node] >= 0:
        feature, threshold = pool.feature[node], pool.threshold[node]
        if box.high[feature] <= threshold:
            node = pool.left[node]
        elif box.low[feature] >= threshold:
            node = pool.right[node]
        else:
            break
    return int(node)


@compiled_in
def both_down(pool: Pool, box: Box, a: int, b: int) -> tuple[int, int]:
    """Take a node of either forest down as far as the whole box goes."""
    if a == b:
        a = _down(pool, box, a)
        return a, a
    return _down(pool, box, a), _down(pool, box, b)


@compiled_in
def _note(pool: Pool, a: int, b: int, asked: Asked, out: Any, worse: Any) -> None:
    """Widen bounds by a leaf of either forest."""
    c, labels = asked.label, pool.shares.shape[1]
    s, m = pool.left[a], pool.left[b]
    shares, equal = pool.shares, asked.trees[0] == asked.trees[1]
    one, other = 1.0 / asked.trees[0], 1.0 / asked.trees[1]
    for d in range(labels):
        if d == c:
            continue
        x, y = shares[s, c] - shares[s, d], shares[m, c] - shares[m, d]
        out[d, 0] = max(out[d, 0], one * x)
        out[d, 1] = min(out[d, 1], other * y)
        for i in range(len(asked.factors)):
            out[d, 2 + i] = max(out[d, 2 + i], one * x - asked.factors[i] * (other * y))
        if not equal or shares[m, d] > shares[s, d] or shares[m, c] < shares[s, c]:
            worse[d] = True


@compiled_in
def gather(
    pool: Pool, box: Box, a: int, b: int, asked: Asked, out: Any, worse: Any, stack: Any, ends: Any
) -> Any:
    """Bound the contributions to margins of both forests' trees in a box.

    All pairs of leaves that one input can reach are visited; outside the trees' difference, each
    leaf is its own partner.
    """
    for d in range(out.shape[0]):
        worse[d] = False
        for i in range(out.shape[1]):
            out[d, i] = np.inf if i == 1 else -np.inf
    # An entry: two nodes (-1: only a range is set again), a feature (-1: none) and its range.
    stack[0, 0], stack[0, 1], stack[0, 2] = a, b, -1
    count = 1
    while count:
        count -= 1
        a, b, feature = stack[count, 0], stack[count, 1], stack[count, 2]
        if feature >= 0:
            box.low[feature], box.high[feature] = ends[count, 0], ends[count, 1]
        if a < 0:
            continue
        a, b = both_down(pool, box, a, b)
        first = a if pool.feature[a] >= 0 else b
        feature = pool.feature[first]
        if feature < 0:
            _note(pool, a, b, asked, out, worse)
            continue
        if count + 4 > len(stack):
            stack, ends = np.concatenate((stack, stack)), np.concatenate((ends, ends))
        threshold = pool.threshold[first]
        low, high = box.low[feature], box.high[feature]
        together = pool.feature[b] == feature and pool.threshold[b] == threshold and first == a
        for side in range(2):
            x = (pool.left[first] if side else pool.right[first]) if first == a else a
            y = b
            if together or first == b:
                y = pool.left[b] if side else pool.right[b]
            stack[count, 0], stack[count, 1], stack[count, 2] = -1, -1, feature
            ends[count, 0], ends[count, 1] = low, high
            stack[count + 1, 0], stack[count + 1, 1], stack[count + 1, 2] = x, y, feature
            ends[count + 1, 0] = low if side else threshold
            ends[count + 1, 1] = threshold if side else high
            count += 2
    return stack, ends
