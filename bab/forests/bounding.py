"""Bounds of the leaks of one label and one member in a box."""

from __future__ import annotations

from typing import Any

import numpy as np

from leaveout.bab.forests.descent import bound_tree, settle, subroutine
from leaveout.bab.forests.layout import Listed, Scratch, Trees


@subroutine
def begin(trees: Trees, member: int, room: Scratch) -> None:
    """Mark the nodes that a member changes."""
    for t in range(room.changed.shape[1]):
        room.changed[0, t] = room.changed[1, t] = -1
    for i in range(trees.start[member], trees.start[member + 1]):
        room.changed[0, trees.tree[i]] = trees.node[i]
        room.changed[1, trees.tree[i]] = trees.instead[i]


@subroutine
def narrow(listed: Listed, box: Any, feature: int) -> bool:
    """Tighten a box to its listed rows after a range changed; False if none is left."""
    group = listed.of[feature]
    if group < 0:
        return True
    first, last = listed.column_start[group], listed.column_start[group + 1]
    width = last - first
    columns = listed.columns[first:last]
    found = False
    low = np.empty(width, np.int32)
    high = np.empty(width, np.int32)
    for start in range(listed.row_start[group], listed.row_start[group + 1], width):
        inside = True
        for j in range(width):
            code = listed.rows[start + j]
            if code < box[0, columns[j]] or code > box[1, columns[j]]:
                inside = False
                break
        if not inside:
            continue
        for j in range(width):
            code = listed.rows[start + j]
            low[j] = min(low[j], code) if found else code
            high[j] = max(high[j], code) if found else code
        found = True
    if found:
        for j in range(width):
            box[0, columns[j]], box[1, columns[j]] = low[j], high[j]
    return found


@subroutine
def value(trees: Trees, at: Any, room: Scratch) -> float:
    """Return the confidence of the leak with all trees at leaves; -inf if none.

    Summed in the trees' order and divided once, as the forests do.
    """
    labels, c = trees.shares.shape[1], trees.numbers[0]
    best = np.zeros(2, np.int64)
    for side in range(2):
        means = room.means[side]
        for d in range(labels):
            means[d] = 0.0
        for t in range(at.shape[1]):
            leaf = trees.nodes[at[side, t], 2]
            for d in range(labels):
                means[d] += trees.shares[leaf, d]
        for d in range(labels):
            means[d] /= trees.numbers[1 + side]
            if means[d] > means[best[side]]:
                best[side] = d
    if best[0] != c or best[1] == c:
        return -np.inf
    means = room.means[0]
    other = -np.inf
    for d in range(labels):
        if d != c:
            other = max(other, means[d])
    return float(means[c] - other)


@subroutine
def bound(
    trees: Trees, box: Any, at: Any, split: Any, levels: int, padding: float, room: Scratch
) -> tuple[float, bool]:
    """Bound the leaks in a box, and choose the feature to split."""
    count, labels, c = at.shape[1], trees.shares.shape[1], trees.numbers[0]
    kinds = room.sums.shape[1]
    for d in range(labels):
        room.worse[d] = False
        for i in range(kinds):
            room.sums[d, i] = 0.0
    is_open = False
    for t in range(count):
        a, b = settle(trees.nodes, box, at[0, t], at[1, t], room.changed[0, t], room.changed[1, t])
        at[0, t], at[1, t] = a, b
        bound_tree(trees, box, a, b, t, levels, room)
        is_open = is_open or trees.nodes[a, 0] >= 0 or trees.nodes[b, 0] >= 0
        parts = room.parts[t]
        for d in range(labels):
            room.sums[d, 0] += max(parts[0, d, 0], parts[1, d, 0])
            room.sums[d, 1] += min(parts[0, d, 1], parts[1, d, 1])
            for i in range(2, kinds):
                room.sums[d, i] += max(parts[0, d, i], parts[1, d, i])
    if not is_open:
        found = value(trees, at, room)
        return found, found >= 0.0
    # A leak's confidence is at most the margin to any label, whichever the member answers.
    cap = np.inf
    for d in range(labels):
        if d != c:
            cap = min(cap, room.sums[d, 0])
    best, rival, kind = -np.inf, -1, 0
    for d in range(labels):
        if d == c or not room.worse[d] or room.sums[d, 1] > padding:
            continue
        least, which = room.sums[d, 2], 2
        for i in range(3, kinds):
            if room.sums[d, i] < least:
                least, which = room.sums[d, i], i
        upper = min(cap, least)
        if upper > best:
            best, rival, kind = upper, d, which
    if best < -padding:
        return -np.inf, False
    _choose(trees, at, rival, kind, split, room)
    return best + padding, False


@subroutine
def _choose(trees: Trees, at: Any, rival: int, kind: int, split: Any, room: Scratch) -> None:
    """Choose the split that lowers the bound most on both sides, by first splits."""
    drops, nodes = room.drops, trees.nodes
    best = -1.0
    for turn in range(2):
        for t in range(at.shape[1]):
            first = at[0, t] if nodes[at[0, t], 0] >= 0 else at[1, t]
            f = nodes[first, 0]
            if f < 0:
                continue
            if turn == 1:
                score = _score(drops[f])
                if score > best:
                    best = score
                    split[0], split[1] = f, int(drops[f, 3])
                continue
            left, right = room.parts[t, 0, rival, kind], room.parts[t, 1, rival, kind]
            most = max(left, right)
            drop = max(most - left, most - right)
            if drops[f, 2] == 0.0 or drop >= drops[f, 2] - 1.0:
                drops[f, 2], drops[f, 3] = drop + 1.0, nodes[first, 1]
            drops[f, 0] += most - left
            drops[f, 1] += most - right
    for t in range(at.shape[1]):
        first = at[0, t] if nodes[at[0, t], 0] >= 0 else at[1, t]
        f = nodes[first, 0]
        if f >= 0:
            for i in range(4):
                drops[f, i] = 0.0


@subroutine
def _score(drop: Any) -> float:
    return float(drop[0] + drop[1] + 2.0 * min(drop[0], drop[1]))
