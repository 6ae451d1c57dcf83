"""Splitting of a node: a function of its key, its depth and its rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from leaveout.compiling import subroutine
from leaveout.models.forest.chance import attribute_key, draw_between, midpoint
from leaveout.models.forest.table import Table
from leaveout.models.forest.thresholds import sample
from leaveout.models.forest.tree_arrays import SMALL, Rules, Scratch, total

_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_PLACES = np.zeros(64, np.int64)
for _i in range(64):
    _PLACES[((int(_DE_BRUIJN) << _i) & 0xFFFFFFFFFFFFFFFF) >> 58] = _i


@subroutine
def _insert(scratch: Scratch, found: int, wanted: int, key: np.uint64, attribute: int) -> int:
    """Insert an attribute into the list of first priorities; return its length."""
    hashed = attribute_key(key, attribute)
    if found == wanted:
        if hashed > scratch.pick_hash[found - 1]:
            return found
        found -= 1
    at = found
    while at > 0 and scratch.pick_hash[at - 1] > hashed:
        scratch.pick_hash[at] = scratch.pick_hash[at - 1]
        scratch.pick[at] = scratch.pick[at - 1]
        at -= 1
    scratch.pick_hash[at] = hashed
    scratch.pick[at] = attribute
    return found + 1


@subroutine
def _collect(table: Table, scratch: Scratch, rows: Any, begin: int, n: int) -> None:
    """Gather the rows' bits side by side and mark the two-valued attributes that vary."""
    for w in range(table.bits.shape[1]):
        some, every = np.uint64(0), ~np.uint64(0)
        words, bits, mine = scratch.words[w], table.bits[:, w], rows[begin : begin + n]
        for i in range(len(mine)):
            word = bits[np.uint32(mine[i])]
            words[i] = word
            some |= word
            every &= word
        scratch.mask[w] = some & ~every


@subroutine
def _constant(table: Table, g: int, rows: Any, begin: int, n: int) -> bool:
    codes, mine = table.codes[g], rows[begin : begin + n]
    first = codes[mine[0]]
    same = 1
    while same < len(mine) and codes[np.uint32(mine[same])] == first:
        same += 1
    return same == len(mine)


@subroutine
def pick(
    table: Table, scratch: Scratch, rows: Any, begin: int, n: int, key: np.uint64, wanted: int
) -> int:
    """Store attributes by priority in ``scratch.pick``, bits of rows in ``words``; how many."""
    _collect(table, scratch, rows, begin, n)
    general = len(table.codes)
    scratch.constant[:] = 2
    while True:
        found = 0
        for w in range(table.bits.shape[1]):
            mask = scratch.mask[w]
            while mask:
                lowest = mask & (~mask + np.uint64(1))
                bit = _PLACES[(lowest * _DE_BRUIJN) >> np.uint64(58)]
                attribute = table.bit_attribute[64 * w + bit]
                found = _insert(scratch, found, wanted, key, attribute)
                mask ^= lowest
        for g in range(general):
            if scratch.constant[g] != 1:
                found = _insert(scratch, found, wanted, key, table.general_attribute[g])
        settled = True
        for i in range(found):
            kind = table.kind[scratch.pick[i]]
            if kind < 0 and scratch.constant[-1 - kind] == 2:
                scratch.constant[-1 - kind] = _constant(table, -1 - kind, rows, begin, n)
                settled = settled and scratch.constant[-1 - kind] == 0
        if settled:
            return found


_INVERSE_LN2 = 1.4426950408889634
_TERMS = 13


@subroutine
def _times_log2(count: int) -> float:
    """Return count * log2(count), the same anywhere: a series of atanh up to terms of 1e-20."""
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
    return count * (exponent + 2.0 * ratio * series * _INVERSE_LN2)


@subroutine
def score(entropy: bool, left: Any, at: int, total: Any) -> float:
    """Return a split's quality: size less weighted Gini, or less entropy (equations 2, 3)."""
    first, second = 0, 0
    a, b = 0.0, 0.0
    for c in range(len(total)):
        x = left[at + c]
        y = total[c] - x
        first += x
        second += y
        if entropy:
            a += _times_log2(x)
            b += _times_log2(y)
        else:
            a += float(x) * float(x)
            b += float(y) * float(y)
    if entropy:
        return (a - _times_log2(first)) + (b - _times_log2(second))
    return a / first + b / second


@subroutine
def is_leaf(counts: Any, depth: int, rules: Rules) -> bool:
    """Return whether a node must be a leaf: too deep, too small, or pure."""
    n, present = 0, 0
    for c in range(len(counts)):
        n += counts[c]
        present += counts[c] > 0
    return depth >= rules.depth or n < rules.least or present < 2


@subroutine
def _random(
    table: Table, scratch: Scratch, rows: Any, begin: int, n: int, key: np.uint64
) -> tuple[int, float]:
    """Return a random node's attribute and threshold (paper, section 3.3)."""
    attribute = scratch.pick[0]
    kind = table.kind[attribute]
    own = attribute_key(key, attribute)
    if kind >= 0:
        return attribute, draw_between(own, table.lows[attribute], table.highs[attribute])
    codes = table.codes[-1 - kind]
    low, high = codes[rows[begin]], codes[rows[begin]]
    for i in range(begin, begin + n):
        code = codes[rows[i]]
        low, high = min(low, code), max(high, code)
    if n > SMALL:
        scratch.size[0] = 2
        scratch.record[0], scratch.record[1] = low, high
    start = table.level_start[-1 - kind]
    return attribute, draw_between(own, table.levels[start + low], table.levels[start + high])


@subroutine
def _count_bit(scratch: Scratch, kind: int, counts: Any) -> None:
    """Count in ``scratch.low`` the rows of each label with the lesser value."""
    words, shift = scratch.words[kind >> 6], np.uint64(kind & 63)
    at = 0
    for c in range(len(counts)):
        ones = np.uint64(0)
        mine = words[at : at + counts[c]]
        for i in range(len(mine)):
            ones += (mine[i] >> shift) & np.uint64(1)
        scratch.low[c] = counts[c] - np.int32(ones)
        at += counts[c]


@subroutine
def _note(scratch: Scratch, attribute: int, kind: int, found: int, labels: int) -> None:
    """Append an attribute's thresholds to the record."""
    record, at = scratch.record, scratch.size[0]
    record[at], record[at + 1] = attribute, found
    at += 2
    if kind >= 0:
        for c in range(labels):
            record[at + c] = scratch.low[c]
        scratch.size[0] = at + labels
        return
    for i in range(found):
        for c in range(2 + 3 * labels):
            record[at + c] = scratch.chosen[i, c]
        at += 2 + 3 * labels
    scratch.size[0] = at


@subroutine
def best_of(table: Table, rules: Rules, arena: Any, record: int, counts: Any) -> tuple[int, float]:
    """Return the best attribute and threshold in a greedy node's record.

    Of splits that score alike the least attribute, then the least threshold, is taken.
    """
    labels = len(counts)
    best, best_attribute, best_threshold = -np.inf, -1, 0.0
    at = record + 1
    for _ in range(arena[record]):
        attribute, many = arena[at], arena[at + 1]
        kind = table.kind[attribute]
        at += 2
        if kind >= 0:
            value = score(rules.entropy, arena, at, counts)
            if value > best or (value == best and attribute < best_attribute):
                best, best_attribute = value, attribute
                best_threshold = midpoint(table.lows[attribute], table.highs[attribute])
            at += labels
            continue
        start = table.level_start[-1 - kind]
        for _ in range(many):
            value = score(rules.entropy, arena, at + 2, counts)
            if value > best or (value == best and attribute < best_attribute):
                best, best_attribute = value, attribute
                best_threshold = midpoint(
                    table.levels[start + arena[at]], table.levels[start + arena[at + 1]]
                )
            at += 2 + 3 * labels
    return best_attribute, best_threshold


@subroutine
def decide(
    table: Table, rules: Rules, scratch: Scratch, rows: Any, begin: int, counts: Any,
    key: np.uint64, depth: int,
) -> tuple[int, float]:  # fmt: skip
    """Return a node's attribute and threshold; -1 if all attributes are constant.

    The record of a node of more than ``SMALL`` rows is left in ``scratch.record``.
    """
    labels, n = len(counts), total(counts)
    scratch.size[0] = 0
    at_random = depth < rules.random_depth
    found = pick(table, scratch, rows, begin, n, key, 1 if at_random else rules.attributes)
    if found == 0:
        return -1, 0.0
    if at_random:
        return _random(table, scratch, rows, begin, n, key)
    scratch.size[0] = 1
    scratch.record[0] = found
    for i in range(found):
        attribute = scratch.pick[i]
        kind = table.kind[attribute]
        if kind >= 0:
            _count_bit(scratch, kind, counts)
            _note(scratch, attribute, kind, 1, labels)
        else:
            own = scratch.pick_hash[i]
            many = sample(table, scratch, rows, begin, counts, -1 - kind, own, rules.thresholds)
            _note(scratch, attribute, kind, many, labels)
    if n <= SMALL:
        scratch.size[0] = 0
    return best_of(table, rules, scratch.record, 0, counts)
