"""Growth of a subtree from the rows of its root."""

from __future__ import annotations

from typing import Any

import numpy as np

from leaveout.compiling import subroutine
from leaveout.models.forest.chance import child_key
from leaveout.models.forest.splits import decide, is_leaf
from leaveout.models.forest.table import Table
from leaveout.models.forest.tree_arrays import LEAF, OPEN, PENDING, Rules, Scratch, Tree, total


@subroutine
def goes_right(table: Table, row: int, attribute: int, threshold: float) -> bool:
    """Return whether a row's value is above a threshold."""
    kind = table.kind[attribute]
    if kind >= 0:
        bit = (table.bits[row, kind >> 6] >> np.uint64(kind & 63)) & np.uint64(1)
        value = table.highs[attribute] if bit else table.lows[attribute]
        return bool(value > threshold)
    start = table.level_start[-1 - kind]
    return bool(table.levels[start + table.codes[-1 - kind, row]] > threshold)


@subroutine
def by_label(table: Table, rows: Any, start: int, span: int, counts: Any, out: Any) -> int:
    """Write a node's undeleted rows to ``out`` grouped by label; return how many."""
    n = 0
    if len(counts) == 2:
        # In one pass: where a row goes is computed, for a branch would be mispredicted.
        first, second = 0, counts[0]
        for i in range(start, start + span):
            row = rows[i]
            if row >= 0:
                label = table.labels[row]
                out[first + label * (second - first)] = row
                first += 1 - label
                second += label
        return int(second)
    for c in range(len(counts)):
        for i in range(start, start + span):
            row = rows[i]
            if row >= 0 and table.labels[row] == c:
                out[n] = row
                n += 1
    return n


@subroutine
def _part(
    table: Table, scratch: Scratch, rows: Any, begin: int, counts: Any, attribute: int,
    threshold: float, left: Any, right: Any,
) -> int:  # fmt: skip
    """Move the left child's rows first, in order; count labels; ``scratch.words`` has the bits."""
    # Each row is written to both sides: a branch would be mispredicted too often.
    kind = table.kind[attribute]
    at, stay, go = 0, 0, 0
    for c in range(len(counts)):
        before = stay
        mine = rows[begin + at : begin + at + counts[c]]
        if kind >= 0:
            words, shift = scratch.words[kind >> 6, at : at + counts[c]], np.uint64(kind & 63)
            for i in range(len(mine)):
                row = mine[i]
                above = int((words[i] >> shift) & np.uint64(1))
                rows[begin + stay] = row
                scratch.rows[go] = row
                stay += 1 - above
                go += above
        else:
            codes, start = table.codes[-1 - kind], table.level_start[-1 - kind]
            for i in range(len(mine)):
                row = mine[i]
                above = int(table.levels[start + codes[np.uint32(row)]] > threshold)
                rows[begin + stay] = row
                scratch.rows[go] = row
                stay += 1 - above
                go += above
        at += counts[c]
        left[c] = stay - before
        right[c] = counts[c] - left[c]
    for i in range(go):
        rows[begin + stay + i] = scratch.rows[i]
    return stay


@subroutine
def _end_path(tree: Tree, node: int, feature: int) -> None:
    """Cut off what is below a node, and say of its rows where they are listed."""
    nodes, rows = tree.nodes, tree.rows
    nodes[node].feature, nodes[node].record = feature, -1
    nodes[node].left, nodes[node].right = -1, -1
    for i in range(nodes[node].start, nodes[node].start + nodes[node].span):
        if rows[i] >= 0:
            tree.where[rows[i]] = i


@subroutine
def pend(tree: Tree, node: int) -> None:
    """Mark a node to be grown from its rows when a query reaches it."""
    _end_path(tree, node, PENDING)
    tree.used[2] = 1


@subroutine
def close(tree: Tree, node: int) -> None:
    """Make a node a leaf."""
    _end_path(tree, node, LEAF)
    tree.nodes[node].threshold = 0.0


@subroutine
def _child(tree: Tree, rules: Rules, node: int, depth: int) -> bool:
    """Make a counted new node a leaf or pending; return whether it is pending."""
    if is_leaf(tree.counts[node], depth, rules):
        close(tree, node)
        return False
    pend(tree, node)
    return True


@subroutine
def divide(
    table: Table, rules: Rules, tree: Tree, node: int, depth: int, attribute: int, threshold: float,
    spare: Any,
) -> bool:  # fmt: skip
    """Split a node into leaf or pending children; False if space runs out."""
    nodes, rows = tree.nodes, tree.rows
    left = tree.used[0]
    if left + 2 > len(nodes):
        return False
    tree.used[0] = left + 2
    start, span = nodes[node].start, nodes[node].span
    for c in range(tree.counts.shape[1]):
        tree.counts[left, c] = 0
        tree.counts[left + 1, c] = 0
    stay, go = 0, 0
    for i in range(start, start + span):
        row = rows[i]
        if row < 0:
            continue
        above = goes_right(table, row, attribute, threshold)
        tree.counts[left + above, table.labels[row]] += 1
        if above:
            spare[go] = row
            go += 1
        else:
            rows[start + stay] = row
            stay += 1
    for i in range(go):
        rows[start + stay + i] = spare[i]
    for i in range(start + stay + go, start + span):
        rows[i] = -1
    nodes[node].feature, nodes[node].threshold = attribute, threshold
    nodes[node].left, nodes[node].right = left, left + 1
    nodes[left].start, nodes[left].span = start, stay
    nodes[left + 1].start, nodes[left + 1].span = start + stay, go
    _child(tree, rules, left, depth + 1)
    _child(tree, rules, left + 1, depth + 1)
    return True


@subroutine
def same_parts(table: Table, tree: Tree, node: int, attribute: int, threshold: float) -> bool:
    """Return whether a split keeps every row of a node in its present child."""
    for right in range(2):
        child = tree.nodes[node].right if right else tree.nodes[node].left
        start = tree.nodes[child].start
        for i in range(start, start + tree.nodes[child].span):
            row = tree.rows[i]
            if row >= 0 and goes_right(table, row, attribute, threshold) != (right == 1):
                return False
    return True


@subroutine
def grow(
    table: Table, rules: Rules, tree: Tree, scratch: Scratch, node: int, depth: int,
    key: np.uint64, whole: bool,
) -> bool:  # fmt: skip
    """Grow the subtree below a node from its rows; False if the arrays are too small.

    What is not grown by then stays pending. An open node with an unchanged split is otherwise kept.
    """
    nodes, rows = tree.nodes, tree.rows
    root = nodes[node]
    start, span = root.start, root.span
    n = by_label(table, rows, start, span, tree.counts[node], scratch.live)
    is_first, was_open = True, root.feature <= OPEN
    scratch.stack_node[0], scratch.stack_key[0], scratch.stack_depth[0] = node, key, depth
    top = 1
    while top > 0:
        top -= 1
        index, own = scratch.stack_node[top], scratch.stack_key[top]
        level = scratch.stack_depth[top]
        begin, counts = nodes[index].start, tree.counts[index]
        attribute, threshold = -1, 0.0
        if not is_leaf(counts, level, rules):
            source, first = (scratch.live, 0) if is_first else (rows, begin)
            attribute, threshold = decide(table, rules, scratch, source, first, counts, own, level)
        if is_first:
            if was_open and attribute >= 0 and same_parts(table, tree, node, attribute, threshold):
                nodes[node].feature, nodes[node].threshold = attribute, threshold
                return True
            for i in range(n):
                rows[start + i] = scratch.live[i]
            for i in range(start + n, start + span):
                rows[i] = -1
            is_first = False
        if attribute < 0:
            close(tree, index)
            continue
        length = scratch.size[0]
        left, arena_used = tree.used[0], tree.used[1]
        if left + 2 > len(nodes) or arena_used + length > len(tree.arena):
            for i in range(top + 1):
                pend(tree, scratch.stack_node[i])
            return False
        nodes[index].feature = attribute
        nodes[index].threshold = threshold
        nodes[index].record = -1
        if length > 0:
            nodes[index].record = arena_used
            for i in range(length):
                tree.arena[arena_used + i] = scratch.record[i]
            tree.used[1] = arena_used + length
        tree.used[0] = left + 2
        stay = _part(
            table, scratch, rows, begin, counts, attribute, threshold,
            tree.counts[left], tree.counts[left + 1],
        )  # fmt: skip
        n = total(counts)
        nodes[index].left = left
        nodes[index].right = left + 1
        nodes[left].start = begin
        nodes[left].span = stay
        nodes[left + 1].start = begin + stay
        # Holes of the subtree's root are of none of its leaves.
        nodes[left + 1].span = n - stay
        for right in range(1, -1, -1):
            if not whole:
                _child(tree, rules, left + right, level + 1)
                continue
            scratch.stack_node[top] = left + right
            scratch.stack_key[top] = child_key(own, right == 1)
            scratch.stack_depth[top] = level + 1
            top += 1
    return True
