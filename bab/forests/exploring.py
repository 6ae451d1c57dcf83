"""The compiled search: boxes of one member after another, those with the greatest bound first."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.forests.bounding import begin, bound, narrow
from leaveout.bab.forests.descent import OPTIONS, subroutine
from leaveout.bab.forests.layout import Frontier, Listed, Scratch, Trees
from leaveout.compiling import kept

__all__ = ["DONE", "FOUND", "FULL", "STOPPED", "explore", "measure", "ranges"]

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
    trees: Trees, slot: int, front: Frontier, levels: int, cutoff: float, room: Scratch
) -> bool:
    """Bound a box, and keep it if it may hold a leak above the cutoff; return if it is one."""
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
        front.found[:] = front.box[slot, 0]
        return True
    front.values[0] = max(front.values[0], upper)
    return False


@subroutine
def _upper(front: Frontier) -> float:
    """Return what no leak of the member exceeds."""
    upper = max(front.values[0], front.values[1])
    return max(upper, front.upper[front.heap[0]]) if front.state[0] else upper


@subroutine
def _split(
    trees: Trees, listed: Listed, slot: int, front: Frontier, levels: int, cutoff: float,
    room: Scratch,
) -> bool:  # fmt: skip
    """Split a box that is not in the heap any more; return whether there is a leak in it."""
    found = False
    feature, cut = front.split[slot, 0], front.split[slot, 1]
    front.state[1] -= 1
    other = front.free[front.state[1]]
    front.box[other] = front.box[slot]
    front.at[other] = front.at[slot]
    for side in range(2):
        each = slot if side == 0 else other
        if side == 0:
            front.box[each, 1, feature] = cut
        else:
            front.box[each, 0, feature] = cut + 1
        if narrow(listed, front.box[each], feature):
            found = _consider(trees, each, front, levels, cutoff, room) or found
        else:
            front.free[front.state[1]] = each
            front.state[1] += 1
    return found


@subroutine
def _root(trees: Trees, most: Any, front: Frontier) -> int:
    """Write the whole set of inputs into a slot."""
    front.state[1] -= 1
    slot = front.free[front.state[1]]
    front.box[slot, 0] = 0
    front.box[slot, 1] = most
    for t in range(front.at.shape[2]):
        front.at[slot, 0, t] = front.at[slot, 1, t] = trees.roots[t]
    return int(slot)


def _compile(stamp: int) -> tuple[Callable[..., Any], ...]:
    """Compile anew when a source of this package changes: the stamp tells kept ones apart."""

    @kept(**OPTIONS)
    def ranges(
        nodes: NDArray[np.int32], shares: NDArray[np.float64], first: NDArray[np.int64], label: int,
        low: NDArray[np.float64], high: NDArray[np.float64], done: NDArray[np.bool_],
    ) -> None:  # fmt: skip
        """Set least and greatest margins below each node that some of the first lead to."""
        _ = stamp
        for begun in first:
            stack = [(begun, 0)]
            while len(stack):
                node, turn = stack.pop()
                if done[node]:
                    continue
                left, right = nodes[node, 2], nodes[node, 3]
                if nodes[node, 0] < 0:
                    for d in range(shares.shape[1]):
                        low[node, d] = high[node, d] = shares[left, label] - shares[left, d]
                    done[node] = True
                elif turn == 0:
                    stack.append((node, 1))
                    stack.append((np.int64(left), 0))
                    stack.append((np.int64(right), 0))
                else:
                    for d in range(shares.shape[1]):
                        low[node, d] = min(low[left, d], low[right, d])
                        high[node, d] = max(high[left, d], high[right, d])
                    done[node] = True

    @kept(**OPTIONS)
    def measure(
        trees: Trees, most: NDArray[np.int32], members: NDArray[np.int64], levels: int,
        padding: float, room: Scratch, upper: NDArray[np.float64], stop: NDArray[np.int64],
    ) -> None:  # fmt: skip
        """Bound the leaks of each of some members in the whole set of inputs."""
        _ = stamp
        box = np.zeros((2, len(most)), np.int32)
        at = np.empty((2, len(trees.roots) - 1), np.int32)
        split = np.zeros(2, np.int32)
        for member in members:
            if stop[0]:
                return
            begin(trees, member, room)
            box[1] = most
            at[0] = at[1] = trees.roots[:-1]
            found, _exact = bound(trees, box, at, split, levels, padding, room)
            upper[member] = min(upper[member], found)

    @kept(**OPTIONS)
    def explore(
        trees: Trees, listed: Listed, most: NDArray[np.int32], members: NDArray[np.int64],
        budget: int, levels: int, cutoff: NDArray[np.float64], stop: NDArray[np.int64],
        upper: NDArray[np.float64], front: Frontier, room: Scratch,
    ) -> int:  # fmt: skip
        """Search members one after another, each with a budget of boxes, until there is news.

        Parameters
        ----------
        trees : Trees
        listed : Listed
        most : ndarray of int32, shape (features,)
        members : ndarray of int64
            Those that cannot exceed the cutoff are left out.
        budget : int
        levels : int
        cutoff : ndarray of float64, shape (1,)
            Only leaks above it are looked for; others may raise it meanwhile.
        stop : ndarray of int64, shape (1,)
            Not 0: return.
        upper : ndarray of float64, shape (members of the family,)
            Lowered.
        front : Frontier
        room : Scratch

        Returns
        -------
        int
            `DONE`, `FOUND`, `FULL` or `STOPPED`; after `FOUND` or `FULL`, called again, it goes on.
        """
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
                found = _consider(trees, slot, front, levels, cutoff[0], room)
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

    return ranges, measure, explore


def _stamp() -> int:
    """Return a digest of this package's sources."""
    sources = [each for each in files(__package__).iterdir() if each.name.endswith(".py")]
    every = b"".join(each.read_bytes() for each in sorted(sources, key=lambda each: each.name))
    return int.from_bytes(hashlib.sha256(every).digest()[:6], "big")


ranges, measure, explore = _compile(_stamp())
