"""Splits of a node without each of its rows in turn, for all rows at once.

Without a row only the group of rows of its value is another: the thresholds beside it may become
invalid or go, and where the group goes, one between its neighbours may come. All others stay, with
their priorities. So of the thresholds first by priority two more than are kept are enough.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.ensembles.chance import (
    attribute_key,
    between,
    compiled_in,
    mix_bits,
    threshold_between,
)
from leaveout.verifier.checker.ensembles.choosing import Data, Rules, worth


class Each(NamedTuple):
    """Each row's split of its node without it, and working memory."""

    feature: NDArray[np.int64]  # shape (rows,): -1: it is a leaf then
    threshold: NDArray[np.float64]  # shape (rows,): the threshold, and what the split is worth
    value: NDArray[np.float64]  # shape (rows,): the threshold, and what the split is worth
    considered: NDArray[np.int64]  # shape (rows,): how many attributes
    group: NDArray[np.int64]  # shape (rows,): which of the groups of equal value a row is in
    at: NDArray[np.float64]  # shape (rows,): the value of each group
    bits: NDArray[np.uint64]  # shape (rows,)
    counts: NDArray[np.int64]  # shape (rows, labels): rows of each label in a group, and up to it
    sums: NDArray[np.int64]  # shape (rows, labels): rows of each label in a group, and up to it
    priority: NDArray[np.uint64]  # shape (thresholds + 2,)
    first: NDArray[np.int64]  # shape (thresholds + 2,)
    whole: NDArray[np.int64]  # shape (labels,)
    rest: NDArray[np.int64]  # shape (labels,)
    low: NDArray[np.int64]  # shape (labels,)
    attributes: NDArray[np.int64]  # shape (attributes,)
    keys: NDArray[np.uint64]  # shape (attributes,)


def each_for(data: Data, rules: Rules, labels: int) -> Each:
    """Return room for the rows of a node."""
    rows, whole = len(data.labels), np.int64
    k, d = rules.thresholds + 2, len(data.columns)
    return Each(
        np.empty(rows, whole), np.empty(rows), np.empty(rows), np.empty(rows, whole),
        np.empty(rows, whole), np.empty(rows), np.empty(rows, np.uint64),
        np.empty((rows, labels), whole), np.empty((rows, labels), whole), np.empty(k, np.uint64),
        np.empty(k, whole), np.empty(labels, whole), np.empty(labels, whole),
        np.empty(labels, whole), np.empty(d, whole), np.empty(d, np.uint64),
    )  # fmt: skip


@compiled_in
def _begin(
    data: Data, order: Any, begin: int, end: int, depth: int, rules: Rules, waits: Any, each: Each
) -> int:
    """Count the node's rows; return for how many waiting rows it stays an inner node."""
    whole, n, asked = each.whole, end - begin, 0
    for c in range(len(whole)):
        whole[c] = 0
    for i in range(begin, end):
        whole[data.labels[order[0, i]]] += 1
    for i in range(begin, end):
        row = order[0, i]
        if not waits[row]:
            continue
        present = 0
        for c in range(len(whole)):
            present += whole[c] - (c == data.labels[row]) > 0
        each.feature[row], each.threshold[row], each.value[row] = -1, 0.0, -np.inf
        is_leaf = depth >= rules.depth or n - 1 < rules.least or present < 2
        each.considered[row] = rules.attributes if is_leaf else 0
        asked += not is_leaf
    return asked


@compiled_in
def _by_priority(
    data: Data, order: Any, begin: int, end: int, key: np.uint64, each: Each
) -> tuple[int, Any]:
    """Leave the attributes that are not constant, and return how many, and their order."""
    found = 0
    for a in range(len(data.columns)):
        if data.columns[a, order[a, begin]] != data.columns[a, order[a, end - 1]]:
            each.attributes[found], each.keys[found] = a, attribute_key(key, a)
            found += 1
    return found, np.argsort(each.keys[:found])


@compiled_in
def _several(one: Any, other: Any, gone: int) -> bool:
    """Return whether two groups have several labels, even without a row of ``gone``."""
    present = 0
    for c in range(len(one)):
        present += one[c] + other[c] - (c == gone) > 0
    return present > 1


@compiled_in
def _gather(
    data: Data, order: Any, begin: int, end: int, a: int, own: np.uint64, each: Each
) -> tuple[int, int]:
    """Leave an attribute's groups and the thresholds first by priority; return how many of each."""
    groups, labels = -1, each.counts.shape[1]
    last = 0.0
    for i in range(begin, end):
        row = order[a, i]
        value = data.columns[a, row]
        if groups < 0 or value != last:
            groups += 1
            last = value
            each.at[groups], each.bits[groups] = value, data.bits[a, row]
            for c in range(labels):
                each.counts[groups, c] = 0
                each.sums[groups, c] = each.sums[groups - 1, c] if groups else 0
        each.group[row] = groups
        each.counts[groups, data.labels[row]] += 1
        each.sums[groups, data.labels[row]] += 1
    groups += 1
    many = 0
    for g in range(groups - 1):
        if not _several(each.counts[g], each.counts[g + 1], -1):
            continue
        priority = mix_bits(own ^ each.bits[g])
        if many == len(each.first):
            if priority > each.priority[many - 1]:
                continue
            many -= 1
        at = many
        while at > 0 and each.priority[at - 1] > priority:
            each.priority[at], each.first[at] = each.priority[at - 1], each.first[at - 1]
            at -= 1
        each.priority[at], each.first[at] = priority, g
        many += 1
    return groups, many


@compiled_in
def _take(each: Each, row: int, label: int, a: int, g: int, following: int, entropy: bool) -> None:
    """Consider the threshold behind group g for a node without a row."""
    for c in range(len(each.low)):
        each.low[c] = each.sums[g, c] - (c == label and each.group[row] <= g)
    value, cut = worth(entropy, each.low, each.rest), between(each.at[g], each.at[following])
    earlier = a < each.feature[row] or (a == each.feature[row] and cut < each.threshold[row])
    if value > each.value[row] or (value == each.value[row] and earlier):
        each.feature[row], each.threshold[row], each.value[row] = a, cut, value


@compiled_in
def _consider(
    data: Data, row: int, a: int, own: np.uint64, groups: int, many: int, rules: Rules, each: Each
) -> None:
    """Consider an attribute's thresholds for a node without a row."""
    label, g = data.labels[row], each.group[row]
    size = 0
    for c in range(len(each.rest)):
        each.rest[c] = each.whole[c] - (c == label)
        size += each.counts[g, c]
    goes = size == 1
    # Where the group goes there may be a threshold between its neighbours.
    pending = goes and 0 < g < groups - 1
    pending = pending and _several(each.counts[g - 1], each.counts[g + 1], -1)
    new = mix_bits(own ^ each.bits[g - 1]) if pending else np.uint64(0)
    taken, i = 0, 0
    while taken < rules.thresholds:
        if pending and (i == many or new < each.priority[i]):
            pending = False
            _take(each, row, label, a, g - 1, g + 1, rules.entropy)
            taken += 1
            continue
        if i == many:
            break
        first, at = each.first[i], each.priority[i]
        i += 1
        if first == g or first == g - 1:
            if pending and new == at:
                pending = False
                _take(each, row, label, a, g - 1, g + 1, rules.entropy)
                taken += 1
                continue
            if goes or not _several(each.counts[first], each.counts[first + 1], label):
                continue
        _take(each, row, label, a, first, first + 1, rules.entropy)
        taken += 1


@compiled_in
def choose_each(
    data: Data, order: Any, begin: int, end: int, key: np.uint64, depth: int, rules: Rules,
    waits: Any, each: Each,
) -> None:  # fmt: skip
    """Leave in ``each`` what a node splits on without each of its rows that wait."""
    asked = _begin(data, order, begin, end, depth, rules, waits, each)
    if asked == 0:
        return
    found, place = _by_priority(data, order, begin, end, key, each)
    at_random = depth < rules.random_depth
    wanted = 1 if at_random else rules.attributes
    n = end - begin
    for j in range(found):
        if asked == 0:
            return
        a, own = each.attributes[place[j]], each.keys[place[j]]
        ordered, column = order[a, begin:end], data.columns[a]
        groups, many = 0, 0
        if not at_random:
            groups, many = _gather(data, order, begin, end, a, own, each)
        for i in range(n):
            row = ordered[i]
            if not waits[row] or each.considered[row] >= wanted:
                continue
            low = column[ordered[1 if i == 0 else 0]]
            high = column[ordered[n - 2 if i == n - 1 else n - 1]]
            if low == high:
                continue
            each.considered[row] += 1
            asked -= each.considered[row] == wanted
            if at_random:
                each.feature[row], each.threshold[row] = a, threshold_between(own, low, high)
            else:
                _consider(data, row, a, own, groups, many, rules, each)
