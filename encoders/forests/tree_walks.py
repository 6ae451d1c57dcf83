"""Compiled walks of trees over cells: what a box leaves of them, and what a leaf weighs.

One file, since a compiled function is made anew only if its own file changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from leaveout.compiling import kernel, subroutine


@subroutine
def open_sides(
    low: Any, high: Any, bits: Any, v: int, cut: int, masks: Any, mask: int
) -> tuple[bool, bool]:  # fmt: skip
    """Return whether some of a box goes left at a question, and whether some goes right."""
    goes = low[v] <= min(high[v], cut)
    stays = max(low[v], cut + 1) <= high[v]
    for w in range(bits.shape[1]):
        goes |= (bits[v, w] & masks[mask, w]) != 0
        stays |= (bits[v, w] & ~masks[mask, w]) != 0
    return goes, stays


@kernel
def walk(
    feature: Any, cut: Any, mask: Any, left: Any, right: Any, masks: Any, one: int, other: int,
    first: Any, special: Any, less: Any, levels: int, out: Any,
) -> int:  # fmt: skip
    """Write a tree in preorder; return its size, or -1."""
    # Columns: -1 for a leaf, else 0; the node that asks; the right child; the leaves' rows, or how
    # many questions are above.
    words = special.shape[1]
    low = np.empty((levels, len(first)), np.int32)
    high = np.empty((levels, len(first)), np.int32)
    bits = np.empty((levels, len(first), words), np.uint64)
    ends = np.empty((levels, 2), np.int64)
    asked = np.empty(levels, np.int64)
    place = np.empty(levels, np.int64)
    side = np.zeros(levels, np.int64)
    low[0], high[0], bits[0] = first[:, 0], first[:, 1], special
    ends[0, 0], ends[0, 1] = one, other
    size, level = 0, 0
    while True:
        if size == len(out):
            return -1
        question = -1
        for k in range(2):
            node = ends[level, k]
            while node >= 0 and feature[node] >= 0:
                v, m = feature[node], mask[node]
                goes, stays = open_sides(
                    low[level], high[level], bits[level], v, cut[node], masks, m
                )
                if goes and stays:
                    break
                node = left[node] if goes else right[node]
            ends[level, k] = node
            if question < 0 and node >= 0 and feature[node] >= 0:
                question = node
        if question >= 0:
            if level + 1 == levels:
                return -1
            out[size, 0], out[size, 1], out[size, 2], out[size, 3] = 0, question, -1, level
            asked[level], place[level], side[level] = question, size, 0
            size += 1
        else:
            out[size, 0], out[size, 1], out[size, 2] = -1, 0, -1
            out[size, 3] = left[ends[level, 0]]
            out[size, 4] = left[ends[level, 1]] if ends[level, 1] >= 0 else -1
            size += 1
            while level > 0 and side[level - 1] == 1:
                level -= 1
            if level == 0:
                return size
            level -= 1
            side[level] = 1
            out[place[level], 2] = size
        node = asked[level]
        v, m = feature[node], mask[node]
        low[level + 1], high[level + 1], bits[level + 1] = low[level], high[level], bits[level]
        ends[level + 1] = ends[level]
        if side[level] == 0:
            high[level + 1, v] = min(high[level, v], cut[node])
            for w in range(words):
                bits[level + 1, v, w] = bits[level, v, w] & masks[m, w]
        else:
            low[level + 1, v] = max(low[level, v], cut[node] + 1)
            for w in range(words):
                bits[level + 1, v, w] = bits[level, v, w] & ~masks[m, w]
        level += 1
        for i in range(len(less)):
            v, k = less[i]
            high[level, v] = min(high[level, v], high[level, k])
            low[level, k] = max(low[level, k], low[level, v])


@subroutine
def reach(
    feature: Any, cut: Any, mask: Any, left: Any, right: Any, masks: Any, box: Any, bits: Any,
    stack: Any, size: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Return a leaf below the last node of a stack, the first open question, and the new size."""
    size -= 1
    node, first = stack[size], -1
    while feature[node] >= 0:
        goes, stays = open_sides(box[0], box[1], bits, feature[node], cut[node], masks, mask[node])
        if goes and stays:
            first = node if first < 0 else first
            stack[size] = right[node]
            size += 1
        node = left[node] if goes else right[node]
    return node, node if first < 0 else first, size


@kernel
def refine(
    feature: Any, cut: Any, mask: Any, left: Any, right: Any, masks: Any, deep: int, weights: Any,
    box: Any, bits: Any, which: Any, at: Any, top: Any,
) -> None:  # fmt: skip
    """Find the open question of some trees in a box, and their greatest weights there."""
    columns = weights.shape[1]
    stack = np.empty(deep, np.int64)
    for t in range(len(at)):
        if not which[t]:
            continue
        for k in range(columns):
            top[t, k] = -np.inf
        size, is_first = 1, True
        stack[0] = at[t]
        while size > 0:
            node, first, size = reach(
                feature, cut, mask, left, right, masks, box, bits, stack, size
            )
            if is_first:
                at[t] = first
                is_first = False
            for k in range(columns):
                top[t, k] = max(top[t, k], weights[left[node], k])


@kernel
def weigh_splits(
    feature: Any, cut: Any, mask: Any, left: Any, right: Any, masks: Any, deep: int, weights: Any,
    box: Any, bits: Any, at: Any, trees: Any, column: int, gains: Any,
) -> None:  # fmt: skip
    """Find how far the greatest weights below the open question of trees are apart."""
    stack = np.empty(deep, np.int64)
    for i in range(len(trees)):
        found = np.full(2, -np.inf)
        for side in range(2):
            stack[0] = left[at[trees[i]]] if side == 0 else right[at[trees[i]]]
            size = 1
            while size > 0:
                node, _, size = reach(
                    feature, cut, mask, left, right, masks, box, bits, stack, size
                )
                found[side] = max(found[side], weights[left[node], column])
        gains[i] = abs(found[0] - found[1])
