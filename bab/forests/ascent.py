"""Attacks near an input: one feature at a time moves across nearby thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np

from leaveout.bab.forests.descent import copy_into, settle, subroutine
from leaveout.bab.forests.layout import Listed, Scratch, Trees

_STEEP = 3.0
"""How much more the member's margin weighs, while it answers the label, than the whole's."""


@subroutine
def merit(trees: Trees, box: Any, reward: float, room: Scratch) -> tuple[float, bool]:
    """Return a cell's confidence if it is a leak, else its distance from one; and which."""
    labels, c = trees.shares.shape[1], trees.numbers[0]
    means = room.means
    for d in range(labels):
        means[0, d] = means[1, d] = 0.0
    for t in range(len(trees.roots) - 1):
        root = trees.roots[t]
        a, b = settle(trees.nodes, box, root, root, room.changed[0, t], room.changed[1, t])
        x, y = trees.nodes[a, 2], trees.nodes[b, 2]
        for d in range(labels):
            means[0, d] += trees.shares[x, d]
            means[1, d] += trees.shares[y, d]
    best_one, best_two = 0, 0
    one, two = -np.inf, -np.inf
    for d in range(labels):
        means[0, d] /= trees.numbers[1]
        means[1, d] /= trees.numbers[2]
        if means[0, d] > means[0, best_one]:
            best_one = d
        if means[1, d] > means[1, best_two]:
            best_two = d
        if d != c:
            one, two = max(one, means[0, d]), max(two, means[1, d])
    margin, other = means[0, c] - one, means[1, c] - two
    if best_one == c and best_two != c:
        return margin, True
    short = max(-margin, 0.0) + max(other, 0.0)
    return reward * max(margin, 0.0) - _STEEP * short - 1e-9, False


@subroutine
def _move(listed: Listed, box: Any, feature: int, code: int) -> bool:
    """Set a feature's code, and its group to the nearest row; False if there is none."""
    group = listed.of[feature]
    if group < 0:
        box[0, feature] = box[1, feature] = code
        return True
    first, last = listed.column_start[group], listed.column_start[group + 1]
    width = last - first
    best, fewest = -1, width + 1
    for start in range(listed.row_start[group], listed.row_start[group + 1], width):
        away = 0
        fits = True
        for j in range(width):
            column, each = listed.columns[first + j], listed.rows[start + j]
            if column == feature and each != code:
                fits = False
                break
            away += each != box[0, column]
        if fits and away < fewest:
            best, fewest = start, away
    if best < 0:
        return False
    for j in range(width):
        column = listed.columns[first + j]
        box[0, column] = box[1, column] = listed.rows[best + j]
    return True


@subroutine
def _try(
    trees: Trees, listed: Listed, box: Any, trial: Any, feature: int, code: int, now: float,
    reward: float, room: Scratch,
) -> tuple[float, bool]:  # fmt: skip
    """Move a feature, and keep the move if it is better."""
    copy_into(trial, box)
    if not _move(listed, trial, feature, code):
        return now, False
    found, leaks = merit(trees, trial, reward, room)
    if found > now:
        copy_into(box, trial)
        return found, leaks
    return now, False


@subroutine
def ascend(
    trees: Trees, listed: Listed, most: Any, box: Any, rounds: int, reward: float, room: Scratch
) -> tuple[float, bool]:
    """Move features of a cell one at a time while that is better."""
    trial = np.empty(box.shape, np.int32)
    nodes = trees.nodes
    now, leaks = merit(trees, box, reward, room)
    for _ in range(rounds):
        before = now
        for t in range(len(trees.roots) - 1):
            for side in range(2):
                node = trees.roots[t]
                if side == 1 and room.changed[0, t] < 0:
                    break
                while True:
                    if side == 1 and node == room.changed[0, t]:
                        node = room.changed[1, t]
                    f = nodes[node, 0]
                    if f < 0:
                        break
                    k = nodes[node, 1]
                    goes_left = box[0, f] <= k
                    code = k + 1 if goes_left else k
                    if 0 <= code <= most[f]:
                        found, leaky = _try(trees, listed, box, trial, f, code, now, reward, room)
                        if found > now:
                            now, leaks = found, leaky
                            goes_left = not goes_left
                    node = np.int64(nodes[node, 2] if goes_left else nodes[node, 3])
        if now <= before:
            break
    return now, leaks


@subroutine
def surround(trees: Trees, most: Any, box: Any, room: Scratch) -> None:
    """Set a box to the inputs at which as many trees as possible change, in order."""
    for f in range(len(most)):
        box[0, f] = 0
        box[1, f] = most[f]
    trial = np.empty(box.shape, np.int32)
    for t in range(len(trees.roots) - 1):
        changed = room.changed[0, t]
        node = trees.roots[t]
        copy_into(trial, box)
        fits = changed >= 0
        while fits and node != changed:
            f, k = trees.nodes[node, 0], trees.nodes[node, 1]
            right = np.int64(trees.nodes[node, 3])
            if changed < right:
                trial[1, f] = min(trial[1, f], k)
                node = np.int64(trees.nodes[node, 2])
            else:
                trial[0, f] = max(trial[0, f], k + 1)
                node = right
            fits = trial[0, f] <= trial[1, f]
        if fits:
            copy_into(box, trial)


@subroutine
def near(cells: Any, box: Any) -> int:
    """Return the cell that is outside a box in the fewest features."""
    best, fewest = 0, box.shape[1] + 1
    for i in range(len(cells)):
        out = 0
        for f in range(box.shape[1]):
            out += cells[i, f] < box[0, f] or cells[i, f] > box[1, f]
            if out >= fewest:
                break
        if out < fewest:
            best, fewest = i, out
            if out == 0:
                break
    return best


@subroutine
def settle_on(listed: Listed, box: Any) -> None:
    """Set a box to a cell in its middle, listed rows to the best fitting one."""
    for g in range(len(listed.column_start) - 1):
        first, last = listed.column_start[g], listed.column_start[g + 1]
        width = last - first
        best, fewest = listed.row_start[g], width + 1
        for start in range(listed.row_start[g], listed.row_start[g + 1], width):
            out = 0
            for j in range(width):
                column, code = listed.columns[first + j], listed.rows[start + j]
                out += code < box[0, column] or code > box[1, column]
            if out < fewest:
                best, fewest = start, out
        for j in range(width):
            column = listed.columns[first + j]
            box[0, column] = box[1, column] = listed.rows[best + j]
    for f in range(box.shape[1]):
        box[0, f] = box[1, f] = (box[0, f] + box[1, f]) // 2
