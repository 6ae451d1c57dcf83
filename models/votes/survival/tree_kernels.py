"""Small integer trees, regrown after every set of a few changes.

A tree of a fixed depth is three arrays: feature and threshold of node i, whose children are nodes 2
i + 1 (at most the threshold) and 2 i + 2, and the rows of each label in every leaf. A node that is
not split has feature -1 and sends all rows to the left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit

ABSENT = -1
"""The label of a removed row."""


@cached_njit()
def _splits(
    values: NDArray[np.float64],
    order: NDArray[np.int32],
    y: NDArray[np.int32],
    places: NDArray[np.int32],
    first: int,
    leaf: int,
    totals: NDArray[np.int64],
    feature: NDArray[np.int32],
    threshold: NDArray[np.float64],
) -> None:
    """Choose a level's splits by Gini gain, a fraction; of ties the least feature, threshold."""
    width, labels = totals.shape
    whole, squared = totals.sum(axis=1), (totals * totals).sum(axis=1)
    # The best split so far, at first none: the sum over both sides of squared counts divided by
    # size, as a fraction. The larger it is, the purer the sides.
    top, bottom = squared.copy(), np.maximum(whole, 1)
    left = np.zeros((width, labels), np.int64)
    size = np.zeros(width, np.int64)
    left_squares, right_squares = size.copy(), size.copy()
    last = np.zeros(width)
    for column in range(len(values)):
        left[:] = 0
        size[:] = 0
        left_squares[:] = 0
        right_squares[:] = squared
        for row in order[column]:
            if y[row] == ABSENT:
                continue
            node = places[row] - first
            value, other = values[column, row], whole[node] - size[node]
            if size[node] >= leaf and other >= leaf and value > last[node]:
                above = left_squares[node] * other + right_squares[node] * size[node]
                below = size[node] * other
                if above * bottom[node] > top[node] * below:
                    top[node], bottom[node] = above, below
                    feature[first + node] = column
                    middle = last[node] + (value - last[node]) / 2
                    threshold[first + node] = middle if middle < value else last[node]
            label = y[row]
            left_squares[node] += 2 * left[node, label] + 1
            right_squares[node] -= 2 * (totals[node, label] - left[node, label]) - 1
            left[node, label] += 1
            size[node] += 1
            last[node] = value


@cached_njit()
def grow(
    values: NDArray[np.float64],  # shape (features, rows)
    order: NDArray[np.int32],  # shape (features, rows)
    y: NDArray[np.int32],  # shape (rows,)
    leaf: int,
    feature: NDArray[np.int32],  # shape (nodes,)
    threshold: NDArray[np.float64],  # shape (nodes,)
    counts: NDArray[np.int64],  # shape (leaves, labels)
) -> None:
    """Grow a tree."""
    feature[:] = -1
    threshold[:] = 0.0
    places = np.zeros(len(y), np.int32)
    first, width = 0, 1
    while first < len(feature):
        totals = np.zeros((width, counts.shape[1]), np.int64)
        for row in range(len(y)):
            if y[row] != ABSENT:
                totals[places[row] - first, y[row]] += 1
        _splits(values, order, y, places, first, leaf, totals, feature, threshold)
        for row in range(len(y)):
            node = places[row]
            right = feature[node] >= 0 and values[feature[node], row] > threshold[node]
            places[row] = 2 * node + (2 if right else 1)
        first, width = 2 * first + 1, 2 * width
    counts[:] = 0
    for row in range(len(y)):
        if y[row] != ABSENT:
            counts[places[row] - first, y[row]] += 1


@cached_njit()
def leaves_of(
    feature: NDArray[np.int32], threshold: NDArray[np.float64], tests: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return each test point's leaf, shape (points,)."""
    found = np.zeros(len(tests), np.int64)
    for point in range(len(tests)):
        node = 0
        while node < len(feature):
            right = feature[node] >= 0 and tests[point, feature[node]] > threshold[node]
            node = 2 * node + (2 if right else 1)
        found[point] = node - len(feature)
    return found


@cached_njit()
def try_changes(
    values: NDArray[np.float64],
    order: NDArray[np.int32],
    y: NDArray[np.int32],
    labels: int,
    leaf: int,
    ways: int,
    slots: NDArray[np.int64],
    chosen: NDArray[np.int64],  # shape (changes,)
    way: NDArray[np.int64],  # shape (changes,)
    feature: NDArray[np.int32],  # shape (sets, nodes)
    threshold: NDArray[np.float64],  # shape (sets, nodes)
    votes: NDArray[np.int32],  # shape (sets, leaves)
) -> int:
    """Grow the tree after each of the next sets of changes; return the number of sets."""
    counts = np.zeros((votes.shape[1], labels), np.int64)
    now = y.copy()
    rows, changes = len(slots), len(chosen)
    done = 0
    while done < len(votes) and chosen[0] >= 0:
        for at in range(changes):
            row = slots[chosen[at]]
            now[row] = ABSENT if ways == 1 or way[at] == y[row] else way[at]
        grow(values, order, now, leaf, feature[done], threshold[done], counts)
        for at in range(len(counts)):
            votes[done, at] = np.argmax(counts[at])
        done += 1
        for at in range(changes):
            now[slots[chosen[at]]] = y[slots[chosen[at]]]
        place = changes - 1
        while place >= 0 and way[place] == ways - 1:
            way[place] = 0
            place -= 1
        if place >= 0:
            way[place] += 1
            continue
        place = changes - 1
        while place >= 0 and chosen[place] == rows - changes + place:
            place -= 1
        if place < 0:
            chosen[0] = -1
            break
        chosen[place] += 1
        for at in range(place + 1, changes):
            chosen[at] = chosen[at - 1] + 1
    return done


@cached_njit()
def mark_votes(
    feature: NDArray[np.int32],  # shape (trees, nodes)
    threshold: NDArray[np.float64],  # shape (trees, nodes)
    votes: NDArray[np.int32],  # shape (trees, leaves)
    tests: NDArray[np.float64],  # shape (points, features)
    changes: int,
    found: NDArray[np.int32],  # shape (points, labels)
) -> None:
    """Lower the thresholds of the trees' votes to a number of changes."""
    for tree in range(len(votes)):
        leaves = leaves_of(feature[tree], threshold[tree], tests)
        for point in range(len(tests)):
            vote = votes[tree, leaves[point]]
            if found[point, vote] > changes:
                found[point, vote] = changes
