"""Removal or addition of one row in a tree: the nodes on its path, top down."""

from __future__ import annotations

from typing import Any

import numpy as np

from leaveout.compiling import subroutine
from leaveout.models.forest.chance import attribute_key, child_key, draw_between, mix
from leaveout.models.forest.splits import best_of, decide, is_leaf
from leaveout.models.forest.subtrees import by_label, goes_right, same_parts
from leaveout.models.forest.table import Table
from leaveout.models.forest.thresholds import sample
from leaveout.models.forest.tree_arrays import (
    PENDING,
    SMALL,
    Rules,
    Scratch,
    Tree,
    attribute_of,
    total,
)


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
def _has_like(table: Table, tree: Tree, node: int, g: int, code: int, label: int, row: int) -> bool:
    """Return whether another row of a node has a value, and the label unless that is -1."""
    start, span = tree.nodes[node].start, tree.nodes[node].span
    place = table.level_start[g] + g + code
    first, last = table.group[place], table.group[place + 1]
    # The shorter of both lists is searched.
    if last - first <= span:
        for i in range(first, last):
            other = table.order[g, i]
            inside = start <= tree.where[other] < start + span
            if inside and other != row and (label < 0 or table.labels[other] == label):
                return True
        return False
    for i in range(start, start + span):
        other = tree.rows[i]
        alike = other >= 0 and table.codes[g, other] == code
        if alike and other != row and (label < 0 or table.labels[other] == label):
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
    """Return whether no new threshold enters after a row left a value next to no kept one."""
    # A new one can only arise if the value is gone; it then begins at the value before.
    if _has_like(table, tree, node, g, code, -1, -1):
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
def same_thresholds(
    table: Table, tree: Tree, node: int, gone: Any, begin: int, end: int, g: int,
    own: np.uint64, at: int, many: int, k: int, labels: int,
) -> bool:  # fmt: skip
    """Return whether an attribute keeps its thresholds without rows that are counted no more."""
    # False may be a false alarm.
    width = 2 + 3 * labels
    for i in range(begin, end):
        code = table.codes[g, gone[i]]
        beside = False
        for j in range(many):
            pair = at + j * width
            if code == tree.arena[pair] or code == tree.arena[pair + 1]:
                beside = True
                if not is_valid_threshold(
                    tree.arena, pair + 2 + labels, pair + 2 + 2 * labels, labels
                ):
                    return False
        # With fewer than k all valid thresholds are kept, and no deletion makes another one.
        out = beside or many < k
        if not out and not stays_out(table, tree, node, g, code, own, at, k, labels):
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
    table: Table, rules: Rules, tree: Tree, scratch: Scratch, node: int, gone: Any, counts: Any,
    key: np.uint64, by: int,
) -> bool:  # fmt: skip
    """Return whether a greedy node's record still holds, the row counted; True is never wrong."""
    arena, record, labels, row = tree.arena, tree.nodes[node].record, len(counts), gone[0]
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
        g, k = -1 - kind, rules.thresholds
        own = attribute_key(key, attribute)
        if by < 0:
            # After a deletion, sampling one attribute is no faster than deciding the node.
            if not same_thresholds(table, tree, node, gone, 0, 1, g, own, at, many, k, labels):
                return False
        elif not _has_like(table, tree, node, g, table.codes[g, row], table.labels[row], row):
            if not listed:
                here = tree.nodes[node]
                by_label(table, tree.rows, here.start, here.span, counts, scratch.live)
                listed = True
            if not _sample_again(table, scratch, arena, at, many, counts, g, own, k):
                return False
        at += many * width
    return True


@subroutine
def random_without(
    table: Table, tree: Tree, node: int, gone: Any, begin: int, end: int, key: np.uint64,
    probing: bool,
) -> tuple[bool, float]:  # fmt: skip
    """Return whether a random node keeps its attribute without some rows; its threshold."""
    here = tree.nodes[node]
    kind = table.kind[here.feature]
    if kind >= 0:
        left, right = total(tree.counts[here.left]), total(tree.counts[here.right])
        for i in range(begin, end):
            if goes_right(table, gone[i], here.feature, here.threshold):
                right -= 1
            else:
                left -= 1
        return left > 0 and right > 0, here.threshold
    if here.record < 0:
        return False, 0.0
    g = -1 - kind
    low, high = tree.arena[here.record], tree.arena[here.record + 1]
    inside = True
    for i in range(begin, end):
        code = table.codes[g, gone[i]]
        inside = inside and code != low and code != high
    if inside:
        return True, here.threshold
    least, greatest = high, low
    for i in range(here.start, here.start + here.span):
        if tree.rows[i] >= 0:
            other = table.codes[g, tree.rows[i]]
            least, greatest = min(least, other), max(greatest, other)
    if least >= greatest:
        return False, 0.0
    if not probing:
        tree.arena[here.record], tree.arena[here.record + 1] = least, greatest
    start = table.level_start[g]
    own = attribute_key(key, here.feature)
    return True, draw_between(own, table.levels[start + least], table.levels[start + greatest])


@subroutine
def store(tree: Tree, scratch: Scratch, node: int, old: int) -> None:
    """Store the new record over the old one of ``old`` words, or at the end."""
    length, record = scratch.size[0], tree.nodes[node].record
    if length == 0:
        tree.nodes[node].record = -1
        return
    if length > old:
        record = tree.used[1]
        tree.used[1] = record + length
        tree.nodes[node].record = record
    for i in range(length):
        tree.arena[record + i] = scratch.record[i]


@subroutine
def record_words(
    table: Table, rules: Rules, arena: Any, record: int, labels: int, depth: int
) -> int:
    """Return the length in words of a node's record; 0 if it has none."""
    if record < 0:
        return 0
    if depth < rules.random_depth:
        return 2
    at = record + 1
    for _ in range(arena[record]):
        general = table.kind[arena[at]] < 0
        at += 2 + (arena[at + 1] * (2 + 3 * labels) if general else labels)
    return at - record


@subroutine
def walk(
    table: Table, rules: Rules, tree: Tree, scratch: Scratch, row: int, by: int, key: np.uint64
) -> tuple[int, int, int, np.uint64]:
    """Count a row into its path (``by`` 1), or out of it to probe a deletion (-1).

    Return where to regrow, a node or -1, and its depth, number of rows and key. The row's place in
    ``tree.rows`` is updated before. Where only a threshold's value moved, children stay.
    """
    nodes, arena = tree.nodes, tree.arena
    label, labels = table.labels[row], tree.counts.shape[1]
    moved = np.empty(1, np.int32)
    moved[0] = row
    node, depth, probing = 0, 0, by < 0
    while True:
        counts = tree.counts[node]
        counts[label] += by
        n = total(counts)
        scratch.path[depth] = node
        record = nodes[node].record
        cached = record >= 0 and depth >= rules.random_depth
        if cached:
            shift(table, arena, record, row, label, labels, by)
        if nodes[node].feature == PENDING:
            return -1, depth, n, key
        feature = attribute_of(nodes[node].feature)
        is_open = feature != nodes[node].feature
        if feature < 0:
            return (-1 if by < 0 or is_leaf(counts, depth, rules) else node), depth, n, key
        if is_leaf(counts, depth, rules):
            return node, depth, n, key
        right = goes_right(table, row, feature, nodes[node].threshold)
        known, attribute, threshold = False, feature, 0.0
        if probing and depth < rules.random_depth:
            known, threshold = random_without(table, tree, node, moved, 0, 1, key, True)
        elif cached:
            known = n > SMALL and keep_up(table, rules, tree, scratch, node, moved, counts, key, by)
            if known:
                attribute, threshold = best_of(table, rules, arena, record, counts)
        if not known:
            by_label(table, tree.rows, nodes[node].start, nodes[node].span, counts, scratch.live)
            attribute, threshold = decide(
                table, rules, scratch, scratch.live, 0, counts, key, depth
            )
            if attribute < 0:
                return node, depth, n, key
            if not probing:
                old = record_words(table, rules, arena, record, labels, depth)
                store(tree, scratch, node, old)
        elif n <= SMALL and not probing:
            nodes[node].record = -1
        if is_open or attribute != feature or threshold != nodes[node].threshold:
            if not same_parts(table, tree, node, attribute, threshold):
                return node, depth, n, key
            if not probing:
                nodes[node].feature = attribute
                nodes[node].threshold = threshold
        scratch.path_feature[depth] = attribute
        scratch.path_threshold[depth] = threshold
        node = nodes[node].right if right else nodes[node].left
        key = child_key(key, right)
        depth += 1


@subroutine
def restore(table: Table, rules: Rules, tree: Tree, scratch: Scratch, row: int, depth: int) -> None:
    """Undo the counts of a walk that probed a deletion and stopped at ``depth``."""
    label, labels = table.labels[row], tree.counts.shape[1]
    for level in range(depth + 1):
        node = scratch.path[level]
        tree.counts[node, label] += 1
        record = tree.nodes[node].record
        if record >= 0 and level >= rules.random_depth:
            shift(table, tree.arena, record, row, label, labels, 1)


@subroutine
def insert(table: Table, tree: Tree, row: int, end: int) -> None:
    """Insert a row into its leaf; places from ``end`` on are free."""
    nodes, rows = tree.nodes, tree.rows
    node = 0
    nodes[node].span += 1
    while attribute_of(nodes[node].feature) >= 0:
        feature = attribute_of(nodes[node].feature)
        right = goes_right(table, row, feature, nodes[node].threshold)
        node = nodes[node].right if right else nodes[node].left
        nodes[node].span += 1
    place = nodes[node].start + nodes[node].span - 1
    for i in range(end, place, -1):
        rows[i] = rows[i - 1]
        if rows[i] >= 0:
            tree.where[rows[i]] = i
    rows[place] = row
    tree.where[row] = place
    for other in range(tree.used[0]):
        # Only a root without rows begins where its first row is put.
        if nodes[other].start >= place and other != node:
            nodes[other].start += 1


@subroutine
def records_on_path(table: Table, tree: Tree, row: int) -> int:
    """Return how many nodes on a row's path may need a new record."""
    nodes = tree.nodes
    node, deep = 0, 0
    while attribute_of(nodes[node].feature) >= 0:
        deep += total(tree.counts[node]) >= SMALL
        feature = attribute_of(nodes[node].feature)
        right = goes_right(table, row, feature, nodes[node].threshold)
        node = nodes[node].right if right else nodes[node].left
    return deep
