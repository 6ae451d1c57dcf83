"""Updates of the cached statistics of greedy nodes when a row is removed or added."""

from __future__ import annotations

from typing import Any

import numpy as np

from leaveout.models.forest.compiling import subroutine
from leaveout.models.forest.keys import attribute_key, mix
from leaveout.models.forest.layout import Rules, Scratch, Tree
from leaveout.models.forest.subtrees import by_label
from leaveout.models.forest.table import Table
from leaveout.models.forest.thresholds import sample


@subroutine
def shift(
    table: Table, arena: Any, record: int, row: int, label: int, labels: int, by: int
) -> None:
    """Add (``by`` 1) or subtract (-1) a row in all counts of a greedy node's record."""
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


@subroutine
def _has_like(table: Table, tree: Tree, node: int, g: int, row: int) -> bool:
    """Return whether another row of a node has the same label and attribute value."""
    start, span = tree.nodes[node].start, tree.nodes[node].span
    code, label = table.codes[g, row], table.labels[row]
    place = table.level_start[g] + g + code
    first, last = table.group[place], table.group[place + 1]
    if last - first <= span:
        for i in range(first, last):
            other = table.order[g, i]
            inside = start <= tree.where[other] < start + span
            if inside and other != row and table.labels[other] == label:
                return True
        return False
    for i in range(start, start + span):
        other = tree.rows[i]
        alike = other >= 0 and table.labels[other] == label and table.codes[g, other] == code
        if alike and other != row:
            return True
    return False


@subroutine
def _caches(table: Table, arena: Any, record: int, labels: int, attribute: int) -> bool:
    at = record + 1
    for _ in range(arena[record]):
        if arena[at] == attribute:
            return True
        general = table.kind[arena[at]] < 0
        at += 2 + (arena[at + 1] * (2 + 3 * labels) if general else labels)
    return False


@subroutine
def _same_attributes(
    table: Table, tree: Tree, node: int, row: int, labels: int, key: np.uint64, wanted: int
) -> bool:
    """Return whether a greedy node keeps its attributes after a row was added."""
    arena, record = tree.arena, tree.nodes[node].record
    latest, at = np.uint64(0), record + 1
    for _ in range(arena[record]):
        latest = attribute_key(key, arena[at])
        general = table.kind[arena[at]] < 0
        at += 2 + (arena[at + 1] * (2 + 3 * labels) if general else labels)
    room = arena[record] < wanted
    i = tree.nodes[node].start
    while tree.rows[i] < 0 or tree.rows[i] == row:
        i += 1
    other = tree.rows[i]
    for attribute in range(len(table.kind)):
        kind = table.kind[attribute]
        if kind >= 0:
            word = table.bits[row, kind >> 6] ^ table.bits[other, kind >> 6]
            differs = (word >> np.uint64(kind & 63)) & np.uint64(1) == 1
        else:
            differs = table.codes[-1 - kind, row] != table.codes[-1 - kind, other]
        enters = differs and (room or attribute_key(key, attribute) < latest)
        if enters and not _caches(table, arena, record, labels, attribute):
            return False
    return True


@subroutine
def varies(arena: Any, at: int, counts: Any) -> bool:
    """Return whether a two-valued attribute takes both values in a node."""
    low, n = 0, 0
    for c in range(len(counts)):
        low += arena[at + c]
        n += counts[c]
    return 0 < low < n


@subroutine
def is_valid_threshold(arena: Any, first: int, second: int, labels: int) -> bool:
    """Return whether two groups of rows are non-empty and not all of one label."""
    a, b, several, last = 0, 0, 0, -1
    for c in range(labels):
        x, y = arena[first + c], arena[second + c]
        a += x
        b += y
        if x + y > 0:
            several += last >= 0
            last = c
    return a > 0 and b > 0 and several > 0


@subroutine
def _has_code(table: Table, tree: Tree, node: int, g: int, code: int) -> bool:
    """Return whether any row of a node has a value, searching the shorter list."""
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


@subroutine
def _code_before(table: Table, tree: Tree, node: int, g: int, code: int) -> int:
    """Return the greatest smaller code that a row of a node has, or -1."""
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


@subroutine
def stays_out(
    table: Table, tree: Tree, node: int, g: int, code: int, key: np.uint64, record: int,
    k: int, labels: int,
) -> bool:  # fmt: skip
    """Return whether no new threshold enters after a row left a value next to no kept one.

    A new one can only arise if the value is gone; it then begins at the value before.
    """
    if _has_code(table, tree, node, g, code):
        return True
    before = _code_before(table, tree, node, g, code)
    if before < 0:
        return True
    start = table.level_start[g]
    priority = mix(key ^ table.level_bits[start + before])
    for i in range(k):
        at = record + i * (2 + 3 * labels)
        if mix(key ^ table.level_bits[start + tree.arena[at]]) > priority:
            return False
    return True


@subroutine
def _sample_again(
    table: Table, scratch: Scratch, arena: Any, at: int, many: int, counts: Any, g: int,
    key: np.uint64, k: int,
) -> bool:  # fmt: skip
    """Resample a general attribute's thresholds from ``scratch.live``; False if too few."""
    if sample(table, scratch, scratch.live, 0, counts, g, key, k) != many:
        return False
    width = scratch.chosen.shape[1]
    for i in range(many):
        for c in range(width):
            arena[at + i * width + c] = scratch.chosen[i, c]
    return True


@subroutine
def keep_up(
    table: Table, rules: Rules, tree: Tree, scratch: Scratch, node: int, row: int, counts: Any,
    key: np.uint64, by: int,
) -> bool:  # fmt: skip
    """Update a greedy node's record after a row changed; return whether it still holds.

    The row is already counted in the record. False may be a false alarm, True never is.
    """
    arena, record, labels = tree.arena, tree.nodes[node].record, len(counts)
    width = 2 + 3 * labels
    listed = False
    if by > 0 and not _same_attributes(table, tree, node, row, labels, key, rules.attributes):
        return False
    at = record + 1
    for _ in range(arena[record]):
        attribute, many = arena[at], arena[at + 1]
        kind = table.kind[attribute]
        at += 2
        if kind >= 0:
            if not varies(arena, at, counts):
                return False
            at += labels
            continue
        g = -1 - kind
        code = table.codes[g, row]
        own = attribute_key(key, attribute)
        beside, same = by > 0, by < 0 or _has_like(table, tree, node, g, row)
        for i in range(many if by < 0 else 0):
            pair = at + i * width
            if code == arena[pair] or code == arena[pair + 1]:
                beside = True
                same = same and is_valid_threshold(
                    arena, pair + 2 + labels, pair + 2 + 2 * labels, labels
                )
        # With fewer than k all valid thresholds are kept, and no deletion makes another one.
        if not beside and many == rules.thresholds:
            same = stays_out(table, tree, node, g, code, own, at, many, labels)
        if not same:
            # After a deletion, sampling one attribute is no faster than deciding the node.
            if by < 0:
                return False
            if not listed:
                here = tree.nodes[node]
                by_label(table, tree.rows, here.start, here.span, counts, scratch.live)
                listed = True
            if not _sample_again(table, scratch, arena, at, many, counts, g, own, rules.thresholds):
                return False
        at += many * width
    return True
