"""A subtree grown from the rows of its root."""

from __future__ import annotations

from typing import Any

import numpy as np

from leaveout.models.forest.compiling import subroutine
from leaveout.models.forest.keys import child_key
from leaveout.models.forest.layout import Rules, Scratch, Tree
from leaveout.models.forest.splits import decide, is_leaf
from leaveout.models.forest.table import Table

__all__ = ["by_label", "goes_right", "grow"]


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
    """Write the rows of a node that are not deleted to ``out``, by label; return how many."""
    n = 0
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
    """Put the rows of the left child first, each side in its order; count labels; how many left.

    ``scratch.words`` holds the rows' bits. Each row is written to both sides, and only the one it
    belongs to moves on: a branch would be mispredicted about as often as the smaller side is met.
    """
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
def grow(
    table: Table, rules: Rules, tree: Tree, scratch: Scratch, node: int, depth: int, key: np.uint64
) -> bool:
    """Grow the subtree below a node from its rows; False where the arrays are too small.

    Then it can be called again with the same node on greater arrays: only the order of the
    node's rows has changed, and nothing depends on it.
    """
    nodes, rows = tree.nodes, tree.rows
    root = nodes[node]
    start, span = root.start, root.span
    n = by_label(table, rows, start, span, tree.counts[node], scratch.live)
    for i in range(n):
        rows[start + i] = scratch.live[i]
    for i in range(start + n, start + span):
        rows[i] = -1
    scratch.stack_node[0], scratch.stack_key[0], scratch.stack_depth[0] = node, key, depth
    top = 1
    while top > 0:
        top -= 1
        index, own = scratch.stack_node[top], scratch.stack_key[top]
        level = scratch.stack_depth[top]
        begin, counts = nodes[index].start, tree.counts[index]
        n = 0
        for c in range(len(counts)):
            n += counts[c]
        attribute, threshold = -1, 0.0
        if not is_leaf(counts, level, rules):
            attribute, threshold = decide(table, rules, scratch, rows, begin, counts, own, level)
        nodes[index].feature = attribute
        nodes[index].threshold = threshold
        nodes[index].record = -1
        if attribute < 0:
            nodes[index].left = -1
            nodes[index].right = -1
            for i in range(begin, begin + n):
                tree.where[rows[i]] = i
            continue
        length = scratch.size[0]
        left, arena_used = tree.used[0], tree.used[1]
        if left + 2 > len(nodes) or arena_used + length > len(tree.arena):
            return False
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
        nodes[index].left = left
        nodes[index].right = left + 1
        nodes[left].start = begin
        nodes[left].span = stay
        nodes[left + 1].start = begin + stay
        # Holes of the subtree's root stay with its last leaf.
        nodes[left + 1].span = n - stay
        for right in range(1, -1, -1):
            scratch.stack_node[top] = left + right
            scratch.stack_key[top] = child_key(own, right == 1)
            scratch.stack_depth[top] = level + 1
            top += 1
    return True
