"""Trees as shared nodes, so that equal subtrees are recognised immediately.

A node represents its answers over one set of inputs: thresholds not separated by any input are
merged, and a node is omitted if its children are equal or no input reaches one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit
from leaveout.verifier.checker.ensembles.choosing import PLAIN, compiled_in, mix_bits, package_stamp

_INNER = np.uint64(0x9E6C63D0876A9A35)
_LEAF = np.uint64(0x5851F42D4C957F2D)


class Listed(NamedTuple):
    """The parts of an input set that nodes depend on."""

    lower: NDArray[np.float64]  # shape (features,)
    upper: NDArray[np.float64]  # shape (features,)
    start: NDArray[np.int64]  # shape (features + 1,)
    values: NDArray[np.float64]  # ascending


class Pool(NamedTuple):
    """Nodes, each stored once."""

    slots: NDArray[np.int64]  # shape (a power of two,): nodes by their hash; -1 is free
    feature: NDArray[np.int32]  # shape (room,): -1 for a leaf
    threshold: NDArray[np.float64]  # shape (room,)
    left: NDArray[np.int64]  # shape (room,): child; for a leaf, its row of ``shares``
    right: NDArray[np.int64]  # shape (room,): right child
    mask: NDArray[np.uint64]  # shape (room,)
    shares: NDArray[np.float64]  # shape (room, labels)
    used: NDArray[np.int64]  # shape (2,): numbers of nodes and leaves
    listed: Listed


def new_pool(room: int, labels: int, listed: Listed) -> Pool:
    """Return an empty pool with the given capacity."""
    slots = 1
    while slots < 2 * room:
        slots *= 2
    return Pool(
        np.full(slots, -1, np.int64), np.empty(room, np.int32), np.empty(room),
        np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.uint64),
        np.empty((room, labels)), np.zeros(2, np.int64), listed,
    )  # fmt: skip


@compiled_in
def is_full(pool: Pool, more: int) -> bool:
    """Return whether there is no space for ``more`` nodes."""
    return bool(pool.used[0] + more > len(pool.feature))


@compiled_in
def _bits(value: float) -> np.uint64:
    one = np.empty(1)
    one[0] = value + 0.0
    return np.uint64(one.view(np.uint64)[0])


@compiled_in
def split(pool: Pool, feature: int, threshold: float, left: int, right: int) -> int:
    """Return the node that splits inputs at a threshold, or the child to which all of them go."""
    listed = pool.listed
    if threshold >= listed.upper[feature]:
        return left
    if threshold < listed.lower[feature]:
        return right
    begin, end = listed.start[feature], listed.start[feature + 1]
    if begin < end:
        # No listed value is between the greatest one up to the threshold and the threshold.
        at = np.searchsorted(listed.values[begin:end], threshold, side="right")
        if at == 0:
            return right
        threshold = listed.values[begin + at - 1]
        if at == end - begin:
            return left
    if left == right:
        return left
    key = mix_bits(
        mix_bits(mix_bits(_INNER + np.uint64(feature)) ^ _bits(threshold)) + np.uint64(left)
    )
    key = mix_bits(key ^ np.uint64(right))
    last = len(pool.slots) - 1
    at = np.int64(key & np.uint64(last))
    while pool.slots[at] >= 0:
        node = pool.slots[at]
        if (
            pool.feature[node] == feature
            and pool.threshold[node] == threshold
            and pool.left[node] == left
            and pool.right[node] == right
        ):
            return int(node)
        at = (at + 1) & last
    node = pool.used[0]
    pool.slots[at] = node
    pool.used[0] += 1
    pool.feature[node], pool.threshold[node] = feature, threshold
    pool.left[node], pool.right[node] = left, right
    pool.mask[node] = pool.mask[left] | pool.mask[right] | np.uint64(1) << np.uint64(feature & 63)
    return int(node)


@compiled_in
def answer(pool: Pool, shares: Any) -> int:
    """Return the leaf with the given shares of labels."""
    key = _LEAF
    for c in range(len(shares)):
        key = mix_bits(key ^ _bits(shares[c]))
    last = len(pool.slots) - 1
    at = np.int64(key & np.uint64(last))
    while pool.slots[at] >= 0:
        node = pool.slots[at]
        same = pool.feature[node] < 0
        for c in range(len(shares)):
            same = same and pool.shares[pool.left[node], c] == shares[c]
        if same:
            return int(node)
        at = (at + 1) & last
    node, leaf = pool.used[0], pool.used[1]
    pool.slots[at] = node
    pool.used[0] += 1
    pool.used[1] += 1
    pool.feature[node], pool.threshold[node] = -1, 0.0
    pool.left[node], pool.right[node], pool.mask[node] = leaf, -1, np.uint64(0)
    for c in range(len(shares)):
        pool.shares[leaf, c] = shares[c]
    return int(node)


def _compile_refill(stamp: int) -> Callable[..., None]:
    """Compile with a stamp of this package's sources, which invalidates stale kernels."""

    @cached_njit(**PLAIN)
    def _refill(old: Pool, new: Pool) -> None:
        """Copy every node of one pool into another, with the same number."""
        _ = stamp
        for node in range(old.used[0]):
            if old.feature[node] < 0:
                answer(new, old.shares[old.left[node]])
            else:
                split(
                    new, old.feature[node], old.threshold[node], old.left[node], old.right[node]
                )  # fmt: skip

    return cast("Callable[..., None]", _refill)


_refill = _compile_refill(package_stamp())


def enlarge(pool: Pool) -> Pool:
    """Return a pool with four times the capacity and the same node numbers."""
    new = new_pool(4 * len(pool.feature), pool.shares.shape[1], pool.listed)
    _refill(pool, new)
    return new
