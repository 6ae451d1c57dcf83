"""Source of randomness: keyed hashes of the seed, the tree, the path and the purpose.

The mixing function is the finaliser of SplitMix64 (Steele, Lea and Flood, *Fast splittable
pseudorandom number generators*, OOPSLA 2014). It is a bijection, so two attributes of a node, or
two values of an attribute, never have the same priority.
"""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import kernel, subroutine

STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_LEFT = np.uint64(0xD1B54A32D192ED03)
_RIGHT = np.uint64(0xABC98388FB8FAC03)
_ATTRIBUTE = np.uint64(0x8CB92BA72F3D8DD7)
_SHARE = np.uint64(0xE7037ED1A0B428DB)
_THRESHOLD = np.uint64(0xF1357AEA2E62A9C5)
_TRIES = 128


@subroutine
def mix(x: np.uint64) -> np.uint64:
    """Return 64 pseudorandom bits, a bijection of ``x``."""
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


@subroutine
def root_key(seed: int, tree: int) -> np.uint64:
    """Return the key of a tree's root."""
    return mix(mix(np.uint64(seed) + STEP) + np.uint64(tree + 1) * STEP)


@subroutine
def share_key(seed: int) -> np.uint64:
    """Return the key that decides which trees hold a row."""
    return mix(mix(np.uint64(seed) + STEP) ^ _SHARE)


@subroutine
def child_key(key: np.uint64, right: bool) -> np.uint64:
    """Return the key of a child, a function of seed, tree and path alone."""
    return mix(key + _RIGHT) if right else mix(key + _LEFT)


@subroutine
def attribute_key(key: np.uint64, attribute: int) -> np.uint64:
    """Return an attribute's priority at a node, which also keys its draws there."""
    return mix((key ^ _ATTRIBUTE) + np.uint64(attribute + 1) * STEP)


@subroutine
def midpoint(low: float, high: float) -> float:
    """Return a threshold t with low <= t < high despite rounding; -inf if ``low`` is missing."""
    if low == -np.inf:
        return low
    middle = low + (high - low) * 0.5
    if middle < low or middle >= high:
        return low
    return middle


@subroutine
def draw_between(key: np.uint64, low: float, high: float) -> float:
    """Return a threshold in [low, high), on a grid: most deletions of an end keep it."""
    # It is ``low`` after 128 misses, or if ``low`` is missing (-inf).
    if low == -np.inf:
        return low
    _, exponent = math.frexp(high - low)
    side = math.ldexp(1.0, exponent)
    cell = math.floor(low / side)
    base = mix(key ^ _THRESHOLD)
    base = mix(base + np.uint64(np.int64(cell)) * STEP)
    base = mix(base + np.uint64(exponent + 2000) * STEP)
    for i in range(_TRIES):
        unit = np.float64(mix(base + np.uint64(i + 1) * STEP) >> np.uint64(11)) * 2.0**-53
        point = (cell + 2.0 * unit) * side
        if low <= point < high:
            return point
    return low


Bits = NDArray[np.uint64]


class Copies(NamedTuple):
    """Rows of equal values and label, of ranks 0, 1, ...: whichever is deleted, the last leaves."""

    group: NDArray[np.int32]  # shape (slots,) or (0,)
    start: NDArray[np.int64]  # shape (groups + 1,): where in ``slots`` a group begins
    slots: NDArray[np.int32]  # the slots of each group, by rank
    size: NDArray[np.int32]  # shape (groups,): how many of a group are left


def trees_a_row(share: float, trees: int) -> int:
    """Return how many trees hold a row: the decimal share of them, rounded up."""
    return math.ceil(Fraction(repr(float(share))) * trees)


def label_key(label: Any) -> int:
    """Return a hash of a label that is equal for equal labels of different types."""
    text = f"text {label}" if isinstance(label, str) else f"number {Fraction(label)}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


@kernel
def _content(X: NDArray[np.float64], y: NDArray[np.int32], own: Bits, seed: int) -> Bits:
    bits = X.view(np.uint64)
    key = share_key(seed)
    out = np.empty(len(X), np.uint64)
    for i in range(len(X)):
        hashed = mix(key ^ own[y[i]])
        for j in range(X.shape[1]):
            hashed = mix((hashed ^ bits[i, j]) + STEP)
        out[i] = hashed
    return out


def content_keys(
    X: NDArray[np.float64], y: NDArray[np.int32], classes: NDArray[np.generic], seed: int
) -> Bits:
    """Return a keyed hash of each row's values and label."""
    own = np.array([label_key(label) for label in classes.tolist()], np.uint64)
    return _content(
        np.require(X, requirements=("C", "W")), np.require(y, requirements=("C", "W")), own, seed
    )


def copies_of(
    keys: Bits, X: NDArray[np.float64], y: NDArray[np.int32], slots: NDArray[np.int64], room: int
) -> tuple[NDArray[np.int64], Copies]:
    """Return each row's rank among its copies, and the copies."""
    order = np.argsort(keys, kind="stable")
    same = keys[order[1:]] == keys[order[:-1]]
    one, other = order[1:][same], order[:-1][same]
    if np.any(y[one] != y[other]) or np.any(X[one] != X[other]):
        _, content = np.unique(np.column_stack((X, y)), axis=0, return_inverse=True)
        order = np.argsort(content.ravel(), kind="stable")
        same = np.diff(content.ravel()[order]) == 0
    first = np.concatenate(([True], ~same))
    begins = np.flatnonzero(first)
    sizes = np.diff(np.concatenate((begins, [len(order)])))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(begins, sizes)
    several = np.repeat(sizes > 1, sizes)
    group = np.full(room, -1, np.int32)
    mine = slots[order[several]]
    group[mine] = np.repeat(np.arange(int((sizes > 1).sum())), sizes[sizes > 1])
    start = np.concatenate(([0], np.cumsum(sizes[sizes > 1])))
    return rank, Copies(group, start, mine.astype(np.int32), sizes[sizes > 1].astype(np.int32))


def no_copies() -> Copies:
    """Return the empty `Copies`, for when every tree holds every row."""
    none = np.empty(0, np.int32)
    return Copies(none, np.zeros(1, np.int64), none.copy(), none.copy())


@kernel
def _members(keys: Bits, rank: NDArray[np.int64], trees: int, wanted: int) -> Bits:
    out = np.zeros((len(keys), (trees + 63) // 64), np.uint64)
    priority = np.empty(wanted + 1, np.uint64)
    chosen = np.empty(wanted + 1, np.int64)
    for i in range(len(keys)):
        own = mix(keys[i] + np.uint64(rank[i] + 1) * STEP)
        found = 0
        for tree in range(trees):
            hashed = mix(own + np.uint64(tree + 1) * STEP)
            if found == wanted and hashed > priority[found - 1]:
                continue
            at = found
            while at > 0 and priority[at - 1] > hashed:
                priority[at], chosen[at] = priority[at - 1], chosen[at - 1]
                at -= 1
            priority[at], chosen[at] = hashed, tree
            found = min(found + 1, wanted)
        for j in range(found):
            out[i, chosen[j] >> 6] |= np.uint64(1) << np.uint64(chosen[j] & 63)
    return out


def members(keys: Bits, rank: NDArray[np.int64], trees: int, wanted: int) -> Bits:
    """Return the trees that hold rows as bits, shape (rows, words)."""
    return np.asarray(_members(keys, rank, trees, wanted))


def in_tree(chosen: Bits | None, slots: int, tree: int, begin: int = 0) -> NDArray[np.int32]:
    """Return the slots from ``begin`` on that a tree holds, ascending; all if unrestricted."""
    if chosen is None:
        return np.arange(begin, slots, dtype=np.int32)
    mine = (chosen[begin:slots, tree // 64] >> np.uint64(tree % 64)) & np.uint64(1)
    return (begin + np.flatnonzero(mine)).astype(np.int32)


@kernel
def emptied_slots(copies: Copies, slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the slots that deleting the rows in some slots empties."""
    group, start, ranked, size = copies
    out = slots.copy()
    if len(group) == 0:
        return out
    if len(slots) == 1:
        g = group[slots[0]]
        if g >= 0:
            out[0] = ranked[start[g] + size[g] - 1]
        return out
    left = size.copy()
    for i in range(len(slots)):
        g = group[slots[i]]
        if g >= 0:
            left[g] -= 1
            out[i] = ranked[start[g] + left[g]]
    return out
