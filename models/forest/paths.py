"""Removal or addition of one row in a tree: the nodes on its path, top down."""

from __future__ import annotations

from typing import Any

import numpy as np

from leaveout.models.forest.caches import keep_up, shift
from leaveout.models.forest.compiling import subroutine
from leaveout.models.forest.keys import attribute_key, child_key, draw_between
from leaveout.models.forest.layout import PENDING, SMALL, Rules, Scratch, Tree, attribute_of
from leaveout.models.forest.splits import best_of, decide, is_leaf
from leaveout.models.forest.subtrees import by_label, goes_right, same_parts
from leaveout.models.forest.table import Table


@subroutine
def total(counts: Any) -> int:
    """Return the sum of counts by label."""
    n = 0
    for c in range(len(counts)):
        n += counts[c]
    return n


@subroutine
def _random_after(
    table: Table, tree: Tree, node: int, row: int, key: np.uint64, probing: bool
) -> tuple[bool, float]:
    """Return whether a random node keeps its attribute without ``row``; its threshold."""
    here = tree.nodes[node]
    kind = table.kind[here.feature]
    if kind >= 0:
        right = goes_right(table, row, here.feature, here.threshold)
        rest = total(tree.counts[here.right if right else here.left]) - 1
        return rest > 0, here.threshold
    if here.record < 0:
        return False, 0.0
    g = -1 - kind
    low, high = tree.arena[here.record], tree.arena[here.record + 1]
    code = table.codes[g, row]
    if code != low and code != high:
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
    table: Table, rules: Rules, tree: Tree, scratch: Scratch, row: int, by: int, key: np.uint64,
    probing: bool,
) -> tuple[int, int, int, np.uint64]:  # fmt: skip
    """Count a row out of (``by`` -1) or into (1) its path; return where to regrow.

    That is a node or -1, its depth, its number of rows, and its key. The row's place in
    ``tree.rows`` is updated before. Where only a threshold's value moved, children stay.
    """
    nodes, arena = tree.nodes, tree.arena
    label, labels = table.labels[row], tree.counts.shape[1]
    node, depth = 0, 0
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
        if by < 0 and depth < rules.random_depth:
            known, threshold = _random_after(table, tree, node, row, key, probing)
        elif cached:
            known = n > SMALL and keep_up(table, rules, tree, scratch, node, row, counts, key, by)
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
