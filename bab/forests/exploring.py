"""The compiled search of boxes, one member after another, highest bound first."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.forests.ascent import ascend, near, settle_on, surround
from leaveout.bab.forests.bounding import begin, bound, narrow
from leaveout.bab.forests.descent import OPTIONS, copy_into, subroutine
from leaveout.bab.forests.layout import Frontier, Listed, Scratch, Trees
from leaveout.compiling import cached_njit

DONE, FOUND, FULL, STOPPED = 0, 1, 2, 3
"""Why `explore` returns: all members are done; a leak; no slot is free; it was told to stop."""


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
    """Bound a box, and keep it if a leak above the cutoff may exist; return if it is one."""
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
    """Split a box taken from the heap; return whether there is a leak in it."""
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
    """Write the whole input set into a slot."""
    front.state[1] -= 1
    slot = front.free[front.state[1]]
    for f in range(len(most)):
        front.box[slot, 0, f] = 0
        front.box[slot, 1, f] = most[f]
    for t in range(front.at.shape[2]):
        front.at[slot, 0, t] = front.at[slot, 1, t] = trees.roots[t]
    return int(slot)


def _compile(stamp: int) -> tuple[Callable[..., Any], ...]:
    """Compile anew if a source of this package changes: the stamp keys the cache."""

    @cached_njit(**OPTIONS)
    def ranges(
        nodes: NDArray[np.int32], shares: NDArray[np.float64], first: NDArray[np.int64], label: int,
        low: NDArray[np.float64], high: NDArray[np.float64], done: NDArray[np.bool_],
    ) -> None:  # fmt: skip
        """Set the range of margins below each node reached by some of the first."""
        _ = stamp
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

    @cached_njit(**OPTIONS)
    def explore(
        trees: Trees, listed: Listed, most: NDArray[np.int32], members: NDArray[np.int64],
        budget: int, levels: int, cutoff: NDArray[np.float64], stop: NDArray[np.int64],
        upper: NDArray[np.float64], front: Frontier, room: Scratch,
    ) -> int:  # fmt: skip
        """Search members in turn, each with a budget of boxes, until there is news."""
        _ = stamp
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

    @cached_njit(**OPTIONS)
    def ascend_near(
        trees: Trees, listed: Listed, most: NDArray[np.int32], member: int, rounds: int,
        reward: float, cells: NDArray[np.int32], room: Scratch, found: NDArray[np.int32],
    ) -> float:  # fmt: skip
        """Attack with a member near a cell, or near its changes."""
        _ = stamp
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

    return ranges, explore, ascend_near


def package_stamp() -> int:
    """Return a digest of this package's sources."""
    sources = [each for each in files(__package__).iterdir() if each.name.endswith(".py")]
    every = b"".join(each.read_bytes() for each in sorted(sources, key=lambda each: each.name))
    return int.from_bytes(hashlib.sha256(every).digest()[:6], "big")


ranges, explore, ascend_near = _compile(package_stamp())
