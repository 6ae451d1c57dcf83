"""The compiled search of boxes, one member after another, highest bound first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.forests.tree_answers import (
    Frontier,
    Listed,
    Longs,
    Scratch,
    Trees,
    borrow,
    bound_tree,
    copy_into,
    frontier_at,
    settle,
)
from leaveout.compiling import kernel, subroutine

_STEEP = 3.0
"""Weight of the member's margin, while it answers the label, relative to the whole forest's."""


@subroutine
def merit(trees: Trees, box: Any, reward: float, room: Scratch) -> tuple[float, bool]:
    """Return a cell's confidence if it is a leak, else its distance from one; and which it is."""
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
    """Set a feature's code, and its group to the nearest row; return False if there is none."""
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
    """Move a feature, and keep the move if it is an improvement."""
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
    """Move features of a cell one at a time while that is an improvement."""
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
    """Set a box to the inputs at which as many trees as possible change, considered in order."""
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
    """Set a box to a cell in its middle, and listed features to the best-fitting row."""
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
    """Tighten a box to its listed rows after a range changed; return False if none is left."""
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
    """Return the leak's confidence at leaves, summed as in forests; -inf if it is not one."""
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
    # A leak's confidence is at most the margin over any label, whichever the member answers.
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
    """Choose, among the first splits, the one that lowers the bound most on both sides."""
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


DONE, FOUND, FULL, STOPPED = 0, 1, 2, 3
"""Why `explore` returns: all members done; a leak found; no free slot; told to stop."""


@subroutine
def _push(front: Frontier, slot: int) -> None:
    heap, upper = front.heap, front.upper
    at = front.state[0]
    front.state[0] += 1
    while at > 0:
        parent = (at - 1) // 2
        if upper[heap[parent]] >= upper[slot]:
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = slot


@subroutine
def _pop(front: Frontier) -> int:
    heap, upper = front.heap, front.upper
    front.state[0] -= 1
    size = front.state[0]
    top, last = heap[0], heap[size]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and upper[heap[child + 1]] > upper[heap[child]]:
            child += 1
        if upper[last] >= upper[heap[child]]:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = last
    return int(top)


@subroutine
def _clear(front: Frontier) -> None:
    for i in range(front.state[0]):
        front.free[front.state[1]] = front.heap[i]
        front.state[1] += 1
    front.state[0] = 0


@subroutine
def _consider(
    trees: Trees, listed: Listed, slot: int, front: Frontier, levels: int, cutoff: float,
    room: Scratch,
) -> bool:  # fmt: skip
    """Bound a box, and keep it if a leak above the cutoff may exist; return whether it is one."""
    upper, exact = bound(
        trees, front.box[slot], front.at[slot], front.split[slot], levels, front.values[2], room
    )
    front.state[3] += 1
    front.state[4] += 1
    front.upper[slot] = upper
    if upper > cutoff and not exact:
        _push(front, slot)
        return False
    front.free[front.state[1]] = slot
    front.state[1] += 1
    if exact and upper > cutoff and upper > front.values[1]:
        front.values[1] = upper
        settle_on(listed, front.box[slot])
        for f in range(len(front.found)):
            front.found[f] = front.box[slot, 0, f]
        return True
    front.values[0] = max(front.values[0], upper)
    return False


@subroutine
def _upper(front: Frontier) -> float:
    """Return the upper bound of the member's leaks."""
    upper = max(front.values[0], front.values[1])
    return float(max(upper, front.upper[front.heap[0]]) if front.state[0] else upper)


@subroutine
def _split(
    trees: Trees, listed: Listed, slot: int, front: Frontier, levels: int, cutoff: float,
    room: Scratch,
) -> bool:  # fmt: skip
    """Split a box taken from the heap; return whether it contains a leak."""
    found = False
    feature, cut = front.split[slot, 0], front.split[slot, 1]
    front.state[1] -= 1
    other = front.free[front.state[1]]
    copy_into(front.box[other], front.box[slot])
    copy_into(front.at[other], front.at[slot])
    for side in range(2):
        each = slot if side == 0 else other
        if side == 0:
            front.box[each, 1, feature] = cut
        else:
            front.box[each, 0, feature] = cut + 1
        if narrow(listed, front.box[each], feature):
            found = _consider(trees, listed, each, front, levels, cutoff, room) or found
        else:
            front.free[front.state[1]] = each
            front.state[1] += 1
    return found


@subroutine
def _root(trees: Trees, most: Any, front: Frontier) -> int:
    """Store the whole input set in a slot."""
    front.state[1] -= 1
    slot = front.free[front.state[1]]
    for f in range(len(most)):
        front.box[slot, 0, f] = 0
        front.box[slot, 1, f] = most[f]
    for t in range(front.at.shape[2]):
        front.at[slot, 0, t] = front.at[slot, 1, t] = trees.roots[t]
    return int(slot)


@kernel
def ranges(
    nodes: NDArray[np.int32], shares: NDArray[np.float64], first: NDArray[np.int64], label: int,
    low: NDArray[np.float64], high: NDArray[np.float64], done: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Set the range of margins of every node at or below the nodes in ``first``."""
    stack = np.empty(256, np.int64)
    for begun in first:
        stack[0] = begun
        count = 1
        while count:
            node = stack[count - 1]
            left, right = nodes[node, 2], nodes[node, 3]
            if done[node]:
                count -= 1
            elif nodes[node, 0] < 0:
                for d in range(shares.shape[1]):
                    low[node, d] = high[node, d] = shares[left, label] - shares[left, d]
                done[node] = True
            elif done[left] and done[right]:
                for d in range(shares.shape[1]):
                    low[node, d] = min(low[left, d], low[right, d])
                    high[node, d] = max(high[left, d], high[right, d])
                done[node] = True
            else:
                if count + 2 > len(stack):
                    stack = np.concatenate((stack, stack))
                stack[count] = left if not done[left] else right
                count += 1


@kernel
def explore(
    work: Longs, open_boxes: Longs, most: NDArray[np.int32], members: NDArray[np.int64],
    budget: int, levels: int, cutoff: NDArray[np.float64], stop: NDArray[np.int64],
    upper: NDArray[np.float64],
) -> int:  # fmt: skip
    """Search members in turn, each with a budget of boxes, until there is a result."""
    trees, listed, room = borrow(work)
    front = frontier_at(open_boxes, 0)
    state, values = front.state, front.values
    while True:
        found = False
        if state[2] < 0:
            while state[5] < len(members) and upper[members[state[5]]] <= cutoff[0]:
                state[5] += 1
            if state[5] >= len(members):
                return DONE
            if stop[0]:
                return STOPPED
            state[2], state[4] = members[state[5]], 0
            values[0] = values[1] = -np.inf
            begin(trees, state[2], room)
            slot = _root(trees, most, front)
            found = _consider(trees, listed, slot, front, levels, cutoff[0], room)
        elif state[1] < 2:
            return FULL
        else:
            begin(trees, state[2], room)
        while state[0] and not found:
            top = front.upper[front.heap[0]]
            if top <= cutoff[0] or state[4] >= budget or stop[0]:
                break
            if state[1] < 2:
                upper[state[2]] = min(upper[state[2]], _upper(front))
                return FULL
            found = _split(trees, listed, _pop(front), front, levels, cutoff[0], room)
        upper[state[2]] = min(upper[state[2]], _upper(front))
        if found:
            return FOUND
        _clear(front)
        state[2] = -1
        state[5] += 1


@kernel
def ascend_near(
    work: Longs, most: NDArray[np.int32], member: int, rounds: int, reward: float,
    cells: NDArray[np.int32], found: NDArray[np.int32],
) -> float:  # fmt: skip
    """Attack with a member near a cell, or near its changes."""
    trees, listed, room = borrow(work)
    best = -np.inf
    begin(trees, member, room)
    box = np.empty((2, len(most)), np.int32)
    nearest = 0
    for turn in range(2):
        if turn == 0:
            if len(cells) == 1:
                continue
            surround(trees, most, box, room)
            nearest = near(cells, box)
            settle_on(listed, box)
        elif len(cells):
            for f in range(len(most)):
                box[0, f] = box[1, f] = cells[nearest, f]
        else:
            break
        value, leaks = ascend(trees, listed, most, box, rounds, reward, room)
        if leaks and value > best:
            best = value
            for f in range(len(most)):
                found[f] = box[0, f]
    return best
