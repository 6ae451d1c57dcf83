"""Cached statistics of greedy nodes: kept in step with a deletion, and when they say too little."""

from __future__ import annotations

from typing import Any

import numpy as np

from leaveout.models.forest.compiling import compiled
from leaveout.models.forest.keys import attribute_key, mixed
from leaveout.models.forest.layout import Rules, Tree
from leaveout.models.forest.table import Table

__all__ = ["shift", "still_sampled"]


@compiled
def shift(
    table: Table, arena: Any, record: int, row: int, label: int, labels: int, by: int
) -> None:
    """Count a row in (``by`` 1) or out (-1) of everything a greedy node's record counts."""
    at = record + 1
    for _ in range(arena[record]):
        kind, many = table.kind[arena[at]], arena[at + 1]
        at += 2
        if kind >= 0:
            bit = (table.bits[row, kind >> 6] >> np.uint64(kind & 63)) & np.uint64(1)
            if bit == 0:
                arena[at + label] += by
            at += labels
            continue
        code = table.codes[-1 - kind, row]
        for _ in range(many):
            if code <= arena[at]:
                arena[at + 2 + label] += by
                if code == arena[at]:
                    arena[at + 2 + labels + label] += by
            elif code == arena[at + 1]:
                arena[at + 2 + 2 * labels + label] += by
            at += 2 + 3 * labels


@compiled
def _varies(arena: Any, at: int, counts: Any) -> bool:
    low, n = 0, 0
    for c in range(len(counts)):
        low += arena[at + c]
        n += counts[c]
    return 0 < low < n


@compiled
def _valid(arena: Any, first: int, second: int, labels: int) -> bool:
    """Return whether two groups of rows are not empty and not all of one label."""
    a, b, several, last = 0, 0, 0, -1
    for c in range(labels):
        x, y = arena[first + c], arena[second + c]
        a += x
        b += y
        if x + y > 0:
            several += last >= 0
            last = c
    return a > 0 and b > 0 and several > 0


@compiled
def _has_code(table: Table, tree: Tree, node: int, g: int, code: int) -> bool:
    """Return whether a row of a node has a value, by whichever list is the shorter."""
    start, span = tree.nodes[node].start, tree.nodes[node].span
    place = table.level_start[g] + g + code
    first, last = table.group[place], table.group[place + 1]
    if last - first <= span:
        for i in range(first, last):
            if start <= tree.where[table.order[g, i]] < start + span:
                return True
        return False
    for i in range(start, start + span):
        if tree.rows[i] >= 0 and table.codes[g, tree.rows[i]] == code:
            return True
    return False


@compiled
def _code_before(table: Table, tree: Tree, node: int, g: int, code: int) -> int:
    """Return the greatest code below another that a row of a node has, or -1."""
    start, span = tree.nodes[node].start, tree.nodes[node].span
    at = table.group[table.level_start[g] + g + code] - 1
    slots = table.order.shape[1]
    if span * span >= slots:
        # Rows of the node are met every slots / span steps.
        for i in range(at, max(at - span, -1), -1):
            row = table.order[g, i]
            if start <= tree.where[row] < start + span:
                return int(table.codes[g, row])
        if at - span < 0:
            return -1
    best = -1
    for i in range(start, start + span):
        if tree.rows[i] >= 0:
            other = table.codes[g, tree.rows[i]]
            if best < other < code:
                best = other
    return best


@compiled
def _kept_out(
    table: Table, tree: Tree, node: int, g: int, code: int, key: np.uint64, record: int,
    k: int, labels: int,
) -> bool:  # fmt: skip
    """Return whether no new threshold comes in where a value beside no kept one lost a row.

    A new one can only come up if the value is gone, and it then begins at the value before.
    """
    if _has_code(table, tree, node, g, code):
        return True
    before = _code_before(table, tree, node, g, code)
    if before < 0:
        return True
    start = table.level_start[g]
    priority = mixed(key ^ table.level_bits[start + before])
    for i in range(k):
        at = record + i * (2 + 3 * labels)
        if mixed(key ^ table.level_bits[start + tree.arena[at]]) > priority:
            return False
    return True


@compiled
def still_sampled(
    table: Table, rules: Rules, tree: Tree, node: int, row: int, counts: Any, key: np.uint64
) -> bool:
    """Return whether a greedy node would still choose the attributes and thresholds of its record.

    ``row`` was deleted from the node and counted out of the record. False may be said in vain.
    """
    arena, record, labels = tree.arena, tree.nodes[node].record, len(counts)
    width = 2 + 3 * labels
    at = record + 1
    for _ in range(arena[record]):
        attribute, many = arena[at], arena[at + 1]
        kind = table.kind[attribute]
        at += 2
        if kind >= 0:
            if not _varies(arena, at, counts):
                return False
            at += labels
            continue
        g = -1 - kind
        code = table.codes[g, row]
        beside = False
        for i in range(many):
            here = at + i * width
            if code == arena[here] or code == arena[here + 1]:
                beside = True
                if not _valid(arena, here + 2 + labels, here + 2 + 2 * labels, labels):
                    return False
        # With fewer than k all valid thresholds are kept, and no deletion makes another one.
        if not beside and many == rules.thresholds:
            own = attribute_key(key, attribute)
            if not _kept_out(table, tree, node, g, code, own, at, many, labels):
                return False
        at += many * width
    return True
