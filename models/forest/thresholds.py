"""Valid thresholds of an attribute with more than two values; which k are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from leaveout.compiling import subroutine
from leaveout.models.forest.chance import mix
from leaveout.models.forest.table import Table
from leaveout.models.forest.tree_arrays import Scratch

_FEW = 48
_LARGE = 512  # nodes of fewer rows are sorted at once
_MOST = 64  # as many values are candidates at most, about
_DIGIT = 256


@subroutine
def _insertion(keys: Any) -> None:
    for i in range(1, len(keys)):
        key = keys[i]
        j = i
        while j > 0 and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            j -= 1
        keys[j] = key


@subroutine
def _radix(keys: Any, spare: Any, starts: Any, width: int) -> None:
    """Sort integers below ``width``, eight bits at a time."""
    n = len(keys)
    shift = 0
    while (width - 1) >> shift:
        starts[:] = 0
        for i in range(n):
            starts[(keys[i] >> shift) & 255] += 1
        total = 0
        for d in range(_DIGIT):
            count = starts[d]
            starts[d] = total
            total += count
        for i in range(n):
            d = (keys[i] >> shift) & 255
            spare[starts[d]] = keys[i]
            starts[d] += 1
        for i in range(n):
            keys[i] = spare[i]
        shift += 8


@subroutine
def _label_of(scratch: Scratch, group: int, labels: int) -> int:
    """Return the only label of a group of rows, or -1 if there are several."""
    label = -1
    for c in range(labels):
        if scratch.group_counts[group * labels + c]:
            if label >= 0:
                return -1
            label = c
    return label


@subroutine
def _from_histogram(
    scratch: Scratch, keys: Any, low: int, width: int, labels: int, label_bits: int
) -> int:
    histogram = scratch.histogram
    for i in range(len(keys)):
        histogram[np.uint64(keys[i])] += 1
    groups = 0
    for code in range(width):
        some = 0
        here = code << label_bits
        for c in range(labels):
            some |= histogram[here + c]
        if some:
            for c in range(labels):
                scratch.group_counts[groups * labels + c] = histogram[here + c]
                histogram[here + c] = 0
            scratch.group_code[groups] = low + code
            groups += 1
    return groups


@subroutine
def _from_sorting(
    scratch: Scratch, keys: Any, low: int, width: int, labels: int, label_bits: int
) -> int:
    if len(keys) <= _FEW:
        _insertion(keys)
    else:
        _radix(keys, scratch.spare[: len(keys)], scratch.starts, width << label_bits)
    groups = -1
    last = -1
    for i in range(len(keys)):
        code = keys[i] >> label_bits
        if code != last:
            last = code
            groups += 1
            scratch.group_code[groups] = low + code
            for c in range(labels):
                scratch.group_counts[groups * labels + c] = 0
        scratch.group_counts[groups * labels + keys[i] - (code << label_bits)] += 1
    return groups + 1


@subroutine
def _groups(table: Table, scratch: Scratch, rows: Any, begin: int, counts: Any, g: int) -> int:
    """Store values, counts and labels of equal-value groups, ascending; return how many."""
    label_bits = 0
    while 1 << label_bits < len(counts):
        label_bits += 1
    codes, labels = table.codes[g], len(counts)
    low, high = codes[rows[begin]], codes[rows[begin]]
    n = 0
    for c in range(labels):
        mine = rows[begin + n : begin + n + counts[c]]
        keys = scratch.keys[n : n + counts[c]]
        for i in range(len(mine)):
            code = codes[np.uint32(mine[i])]
            low, high = min(low, code), max(high, code)
            keys[i] = (np.int64(code) << label_bits) | c
        n += counts[c]
    width = np.int64(high) - low + 1
    keys = scratch.keys[:n]
    first = np.int64(low) << label_bits
    for i in range(len(keys)):
        keys[i] -= first
    if width <= 2 * n:
        groups = _from_histogram(scratch, keys, low, width, labels, label_bits)
    else:
        groups = _from_sorting(scratch, keys, low, width, labels, label_bits)
    for i in range(groups):
        scratch.group_label[i] = _label_of(scratch, i, labels)
    return groups


@subroutine
def _worst(scratch: Scratch, k: int) -> int:
    worst = 0
    for i in range(1, k):
        if scratch.priority[i] > scratch.priority[worst]:
            worst = i
    return worst


@subroutine
def _copy(chosen: Any, source: int, target: int) -> None:
    for c in range(chosen.shape[1]):
        chosen[target, c] = chosen[source, c]


@subroutine
def _sort_chosen(scratch: Scratch, found: int) -> None:
    """Sort the chosen thresholds by value; the last row of ``chosen`` is spare."""
    chosen = scratch.chosen
    k = len(chosen) - 1
    for i in range(1, found):
        if chosen[i - 1, 0] > chosen[i, 0]:
            _copy(chosen, i, k)
            j = i
            while j > 0 and chosen[j - 1, 0] > chosen[k, 0]:
                _copy(chosen, j - 1, j)
                j -= 1
            _copy(chosen, k, j)


@subroutine
def _candidates(
    table: Table, scratch: Scratch, rows: Any, begin: int, counts: Any, g: int, key: np.uint64,
    k: int,
) -> int:  # fmt: skip
    """Store enough first-priority values in ``group_code``; -1 if sorting all is as fast."""
    # Probably enough for k valid thresholds. The rows' codes are left in ``keys``.
    n, most = 0, 0
    for c in range(len(counts)):
        n += counts[c]
        most = max(most, counts[c])
    # A threshold is valid at most twice for each row of the labels that are fewer.
    valid = 2.0 * (n - most) * most / n
    share = (2 * k + 6) / max(valid, 1.0)
    if n < _LARGE or share * n > _MOST:
        return -1
    cut = np.uint64(share * 2.0**63) * np.uint64(2)
    codes, bits = table.codes[g], table.level_bits[table.level_start[g] : table.level_start[g + 1]]
    chosen = scratch.group_code
    found = 0
    mine = rows[begin : begin + n]
    for i in range(n):
        code = codes[np.uint32(mine[i])]
        scratch.keys[i] = code
        if mix(key ^ bits[np.uint32(code)]) < cut:
            if found == 2 * _MOST:
                return -1
            chosen[found] = code
            found += 1
    _insertion(chosen[:found])
    distinct = min(found, 1)
    for i in range(1, found):
        if chosen[i] != chosen[i - 1]:
            chosen[distinct] = chosen[i]
            distinct += 1
    return distinct


@subroutine
def _between(scratch: Scratch, counts: Any, m: int) -> None:
    """Count the rows by the candidates between which their values lie.

    For candidate i, from 3 i labels on: rows above the previous candidate up to it, at it, and at
    the value after the previous one (left in ``group_label``, or -1).
    """
    labels, chosen, after = len(counts), scratch.group_code, scratch.group_label
    tally = scratch.group_counts
    for i in range(3 * (m + 1) * labels):
        tally[i] = 0
    for i in range(m + 1):
        after[i] = -1
    at = 0
    for c in range(labels):
        keys = scratch.keys[at : at + counts[c]]
        for i in range(len(keys)):
            code = keys[i]
            low, size = 0, m
            while size > 0:
                half = size >> 1
                below = chosen[low + half] < code
                low = low + half + 1 if below else low
                size = size - half - 1 if below else half
            place = 3 * low * labels + c
            tally[place] += 1
            if low < m and chosen[low] == code:
                tally[place + labels] += 1
            elif after[low] < 0 or code < after[low]:
                after[low] = code
                for d in range(labels):
                    tally[place - c + 2 * labels + d] = 0
                tally[place + 2 * labels] = 1
            elif code == after[low]:
                tally[place + 2 * labels] += 1
        at += counts[c]


@subroutine
def _enter(scratch: Scratch, priority: np.uint64, found: int, worst: int, k: int) -> int:
    """Return where a threshold stands among the k first by priority, or -1."""
    at = found if found < k else worst
    if found == k and priority >= scratch.priority[worst]:
        return -1
    scratch.priority[at] = priority
    return at


@subroutine
def _choose(
    scratch: Scratch, at: int, code: int, following: int, own: int, after: int, labels: int
) -> None:
    """Write a threshold: two adjacent codes, and where their rows of each label are counted."""
    chosen, counts = scratch.chosen, scratch.group_counts
    chosen[at, 0], chosen[at, 1] = code, following
    for c in range(labels):
        chosen[at, 2 + c] = scratch.low[c]
        chosen[at, 2 + labels + c] = counts[own + c]
        chosen[at, 2 + 2 * labels + c] = counts[after + c]


@subroutine
def _sample_candidates(
    table: Table, scratch: Scratch, counts: Any, g: int, key: np.uint64, k: int, m: int
) -> int:
    """Store the k valid thresholds first by priority; -1 if there are too few candidates."""
    labels = len(counts)
    _between(scratch, counts, m)
    low, tally = scratch.low, scratch.group_counts
    start = table.level_start[g]
    low[:] = 0
    found, worst, sorted_so_far = 0, 0, True
    for i in range(m):
        here, ahead = 3 * i * labels, 3 * (i + 1) * labels
        code, following = scratch.group_code[i], scratch.group_label[i + 1]
        next_at = ahead + 2 * labels
        if following < 0:
            if i + 1 == m:
                break
            following, next_at = scratch.group_code[i + 1], ahead + labels
        several = 0
        for c in range(labels):
            low[c] += tally[here + c]
            several += tally[here + labels + c] + tally[next_at + c] > 0
        if several < 2:
            continue
        at = _enter(scratch, mix(key ^ table.level_bits[start + code]), found, worst, k)
        if at < 0:
            continue
        sorted_so_far = sorted_so_far and at == found
        found += at == found
        _choose(scratch, at, code, following, here + labels, next_at, labels)
        if found == k:
            worst = _worst(scratch, k)
    if found < k:
        return -1
    if not sorted_so_far:
        _sort_chosen(scratch, found)
    return found


@subroutine
def sample(
    table: Table, scratch: Scratch, rows: Any, begin: int, counts: Any, g: int, key: np.uint64,
    k: int,
) -> int:  # fmt: skip
    """Store the k valid thresholds of attribute g first by hash in ``scratch.chosen``; how many."""
    # They lie between adjacent values whose rows have different labels (paper, section 3.2).
    labels = len(counts)
    candidates = _candidates(table, scratch, rows, begin, counts, g, key, k)
    if candidates > 0:
        found = _sample_candidates(table, scratch, counts, g, key, k, candidates)
        if found >= 0:
            return found
    groups = _groups(table, scratch, rows, begin, counts, g)
    start = table.level_start[g]
    group_counts, low = scratch.group_counts, scratch.low
    low[:] = 0
    found, worst, sorted_so_far = 0, 0, True
    for i in range(groups - 1):
        for c in range(labels):
            low[c] += group_counts[i * labels + c]
        label = scratch.group_label[i]
        if label >= 0 and label == scratch.group_label[i + 1]:
            continue
        code, following = scratch.group_code[i], scratch.group_code[i + 1]
        at = _enter(scratch, mix(key ^ table.level_bits[start + code]), found, worst, k)
        if at < 0:
            continue
        sorted_so_far = sorted_so_far and at == found
        found += at == found
        _choose(scratch, at, code, following, i * labels, (i + 1) * labels, labels)
        if found == k:
            worst = _worst(scratch, k)
    if not sorted_so_far:
        _sort_chosen(scratch, found)
    return found
