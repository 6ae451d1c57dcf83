"""The leaves of a tree that inputs of a box reach, each with the box of these inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Leaves", "leaves_within"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Leaves:
    """Boxes of float64 numbers, ends included, and what is said of each.

    Attributes
    ----------
    lower, upper : ndarray of float64, shape (leaves, features)
    shares : ndarray of float64, shape (leaves, labels)
        What the tree gives each label there.
    """

    lower: Floats
    upper: Floats
    shares: Floats


def leaves_within(
    feature: NDArray[np.int32],
    threshold: Floats,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    shares: Floats,
    lower: Floats,
    upper: Floats,
) -> Leaves:
    """Return the leaves that inputs between two bounds reach.

    Parameters
    ----------
    feature : ndarray of int32, shape (nodes,)
        -1 for a leaf; the root is node 0.
    threshold : ndarray of float64, shape (nodes,)
        An input whose feature is at most the threshold goes left.
    left, right : ndarray of int32, shape (nodes,)
    shares : ndarray of float64, shape (nodes, labels)
    lower, upper : ndarray of float64, shape (features,)
    """
    lows, highs, found = [], [], []
    stack = [(0, lower, upper)]
    while stack:
        node, low, high = stack.pop()
        at = int(feature[node])
        if at < 0:
            lows.append(low)
            highs.append(high)
            found.append(shares[node])
            continue
        cut = float(threshold[node])
        if high[at] > cut:
            above = low.copy()
            above[at] = max(low[at], np.nextafter(cut, np.inf))
            stack.append((int(right[node]), above, high))
        if low[at] <= cut:
            below = high.copy()
            below[at] = min(high[at], cut)
            stack.append((int(left[node]), low, below))
    return Leaves(np.array(lows), np.array(highs), np.array(found))
