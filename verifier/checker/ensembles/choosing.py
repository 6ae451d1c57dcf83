"""Splitting of a node: a function of its key, its level and its rows."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])

PLAIN: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
"""No fast-math: scores must be the numbers that the definition gives."""

STEP = np.uint64(0x9E3779B97F4A7C15)
_ATTRIBUTE = np.uint64(0x8CB92BA72F3D8DD7)
_DRAWN = np.uint64(0xF1357AEA2E62A9C5)
_SIDES = np.uint64(0xD1B54A32D192ED03), np.uint64(0xABC98388FB8FAC03)
_DRAWS = 128


def compiled_in(function: Function) -> Function:
    """Inline a function into compiled functions that call it."""
    return register_jitable(**PLAIN)(function)


def package_stamp() -> int:
    """Return a digest of this package's sources, which identifies compiled code in the cache."""
    sources = [each for each in files(__package__).iterdir() if each.name.endswith(".py")]
    every = b"".join(each.read_bytes() for each in sorted(sources, key=lambda each: each.name))
    return int.from_bytes(hashlib.sha256(every).digest()[:6], "big")


@compiled_in
def mix_bits(x: np.uint64) -> np.uint64:
    """Return SplitMix64's finaliser of 64 bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled_in
def root_key(seed: int, tree: int) -> np.uint64:
    """Return the random key of a tree's root."""
    return mix_bits(mix_bits(np.uint64(seed) + STEP) + np.uint64(tree + 1) * STEP)


@compiled_in
def child_key(key: np.uint64, side: int) -> np.uint64:
    """Return the key of a child; side 0 is left."""
    return mix_bits(key + (_SIDES[0] if side == 0 else _SIDES[1]))


@compiled_in
def attribute_key(key: np.uint64, attribute: int) -> np.uint64:
    """Return an attribute's priority in a node."""
    return mix_bits((key ^ _ATTRIBUTE) + np.uint64(attribute + 1) * STEP)


@compiled_in
def between(low: float, high: float) -> float:
    """Return the threshold of adjacent values: their middle; the lower if that rounds up.

    Missing values are minus infinity; the threshold minus infinity separates them from others.
    """
    if low == -np.inf:
        return low
    middle = low + (high - low) * 0.5
    return middle if low <= middle < high else low


@compiled_in
def threshold_between(key: np.uint64, low: float, high: float) -> float:
    """Return a random node's threshold in [low, high): the first point of a grid inside it."""
    if low == -np.inf:
        return low
    exponent = math.frexp(high - low)[1]
    side = math.ldexp(1.0, exponent)
    cell = math.floor(low / side)
    start = mix_bits(key ^ _DRAWN)
    start = mix_bits(start + np.uint64(np.int64(cell)) * STEP)
    start = mix_bits(start + np.uint64(exponent + 2000) * STEP)
    for i in range(_DRAWS):
        share = np.float64(mix_bits(start + np.uint64(i + 1) * STEP) >> np.uint64(11)) * 2.0**-53
        point = (cell + 2.0 * share) * side
        if low <= point < high:
            return point
    return low


_TERMS = 13


class Data(NamedTuple):
    """Rows."""

    columns: NDArray[np.float64]  # shape (attributes, rows)
    bits: NDArray[np.uint64]  # shape (attributes, rows): the same numbers as bits
    labels: NDArray[np.int64]  # shape (rows,)


class Rules(NamedTuple):
    """The settings that nodes depend on; see the page on forests."""

    thresholds: int
    attributes: int
    depth: int
    random_depth: int
    least: int
    entropy: bool


class Room(NamedTuple):
    """Work space; after `choose`, the splits that a node considered."""

    counts: NDArray[np.int64]  # shape (labels,): counts of the node's rows
    tallies: NDArray[np.int64]  # shape (3, labels): of rows up to a value, at it, and at the next
    picked: NDArray[np.int64]  # shape (attributes,)
    keys: NDArray[np.uint64]  # shape (attributes,)
    kept: NDArray[np.float64]  # shape (attributes, thresholds, 2)
    counted: NDArray[np.int64]  # shape (attributes, thresholds, 3, labels)
    priority: NDArray[np.uint64]  # shape (attributes, thresholds)
    many: NDArray[np.int64]  # shape (attributes + 1,)


def room_for(rules: Rules, labels: int) -> Room:
    """Return work space for one node at a time."""
    m, k = rules.attributes, rules.thresholds
    return Room(
        np.zeros(labels, np.int64), np.zeros((3, labels), np.int64), np.zeros(m, np.int64),
        np.zeros(m, np.uint64), np.zeros((m, k, 2)), np.zeros((m, k, 3, labels), np.int64),
        np.zeros((m, k), np.uint64), np.zeros(m + 1, np.int64),
    )  # fmt: skip


@compiled_in
def _count_log(count: int) -> float:
    """Return count log2 count, by atanh's series in basic arithmetic."""
    if count < 2:
        return 0.0
    fraction, exponent = math.frexp(float(count))
    if fraction < 0.7071067811865476:
        fraction *= 2.0
        exponent -= 1
    ratio = (fraction - 1.0) / (fraction + 1.0)
    square = ratio * ratio
    series = 0.0
    for j in range(_TERMS, -1, -1):
        series = series * square + 1.0 / (2 * j + 1)
    return count * (exponent + 2.0 * ratio * series * 1.4426950408889634)


@compiled_in
def worth(entropy: bool, left: Any, counts: Any) -> float:
    """Return the quality of a split, from the left side's rows per label."""
    left_size, right_size = 0, 0
    first, second = 0.0, 0.0
    for c in range(len(counts)):
        x, y = left[c], counts[c] - left[c]
        left_size += x
        right_size += y
        if entropy:
            first += _count_log(x)
            second += _count_log(y)
        else:
            first += float(x) * float(x)
            second += float(y) * float(y)
    if entropy:
        return (first - _count_log(left_size)) + (second - _count_log(right_size))
    return first / left_size + second / right_size


@compiled_in
def _pick(
    data: Data, order: Any, begin: int, end: int, key: np.uint64, wanted: int, room: Room
) -> int:
    """Store the first non-constant attributes by priority; return their number."""
    found = 0
    for a in range(len(data.columns)):
        if data.columns[a, order[a, begin]] == data.columns[a, order[a, end - 1]]:
            continue
        own = attribute_key(key, a)
        if found == wanted:
            if own > room.keys[found - 1]:
                continue
            found -= 1
        at = found
        while at > 0 and room.keys[at - 1] > own:
            room.keys[at], room.picked[at] = room.keys[at - 1], room.picked[at - 1]
            at -= 1
        room.keys[at], room.picked[at] = own, a
        found += 1
    return found


@compiled_in
def _keep(low: float, high: float, priority: np.uint64, i: int, k: int, room: Room) -> np.uint64:
    """Keep a threshold among the first k by priority; return the priority to beat."""
    at = room.many[i]
    if at == k:
        at = 0
        for j in range(1, k):
            if room.priority[i, j] > room.priority[i, at]:
                at = j
    else:
        room.many[i] += 1
    room.priority[i, at] = priority
    room.kept[i, at, 0], room.kept[i, at, 1] = low, high
    for part in range(3):
        for c in range(room.tallies.shape[1]):
            room.counted[i, at, part, c] = room.tallies[part, c]
    if room.many[i] < k:
        return ~np.uint64(0)
    last = room.priority[i, 0]
    for j in range(1, k):
        last = max(last, room.priority[i, j])
    return np.uint64(last)


@compiled_in
def _scan(data: Data, order: Any, begin: int, end: int, i: int, k: int, room: Room) -> None:
    """Scan the values of the i-th considered attribute, and keep thresholds."""
    a, tallies, own = room.picked[i], room.tallies, room.keys[i]
    labels = tallies.shape[1]
    for part in range(3):
        for c in range(labels):
            tallies[part, c] = 0
    room.many[i] = 0
    last, low, bits = ~np.uint64(0), 0.0, np.uint64(0)
    at = begin
    while at < end:
        row = order[a, at]
        value = data.columns[a, row]
        for c in range(labels):
            tallies[2, c] = 0
        first = at
        while at < end and data.columns[a, order[a, at]] == value:
            tallies[2, data.labels[order[a, at]]] += 1
            at += 1
        if first > begin:
            several = 0
            for c in range(labels):
                several += tallies[1, c] + tallies[2, c] > 0
            if several > 1:
                priority = mix_bits(own ^ bits)
                if priority < last or room.many[i] < k:
                    last = _keep(low, value, priority, i, k, room)
        for c in range(labels):
            tallies[0, c] += tallies[2, c]
            tallies[1, c] = tallies[2, c]
        low, bits = value, data.bits[a, row]


@compiled_in
def choose(
    data: Data, order: Any, begin: int, end: int, key: np.uint64, depth: int, rules: Rules,
    room: Room,
) -> tuple[int, float]:  # fmt: skip
    """Return the attribute and threshold of a node, -1 for a leaf."""
    counts, n, present = room.counts, 0, 0
    for c in range(len(counts)):
        counts[c] = 0
    for i in range(begin, end):
        counts[data.labels[order[0, i]]] += 1
    for c in range(len(counts)):
        n += counts[c]
        present += counts[c] > 0
    room.many[-1] = 0
    if depth >= rules.depth or n < rules.least or present < 2:
        return -1, 0.0
    at_random = depth < rules.random_depth
    found = _pick(data, order, begin, end, key, 1 if at_random else rules.attributes, room)
    if found == 0:
        return -1, 0.0
    room.many[-1] = found
    if at_random:
        a = room.picked[0]
        low, high = data.columns[a, order[a, begin]], data.columns[a, order[a, end - 1]]
        room.many[0] = 1
        room.kept[0, 0, 0], room.kept[0, 0, 1] = low, high
        for part in range(3):
            for c in range(len(counts)):
                room.counted[0, 0, part, c] = 0
        return a, threshold_between(room.keys[0], low, high)
    best, attribute, threshold = -np.inf, -1, 0.0
    for i in range(found):
        _scan(data, order, begin, end, i, rules.thresholds, room)
        a = room.picked[i]
        for j in range(room.many[i]):
            value = worth(rules.entropy, room.counted[i, j, 0], counts)
            cut = between(room.kept[i, j, 0], room.kept[i, j, 1])
            first = a < attribute or (a == attribute and cut < threshold)
            if value > best or (value == best and first):
                best, attribute, threshold = value, a, cut
    return attribute, threshold


@compiled_in
def kept_in_order(room: Room, i: int, place: Any) -> None:
    """Store in ``place`` the i-th attribute's thresholds in order of value."""
    for j in range(room.many[i]):
        at = j
        while at > 0 and room.kept[i, place[at - 1], 0] > room.kept[i, j, 0]:
            place[at] = place[at - 1]
            at -= 1
        place[at] = j
