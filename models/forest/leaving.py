"""Removal of several rows from a tree at once, visiting each node once, top down."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import subroutine
from leaveout.models.forest.chance import attribute_key, child_key
from leaveout.models.forest.paths import (
    random_without,
    record_words,
    same_thresholds,
    shift,
    store,
    varies,
)
from leaveout.models.forest.splits import best_of, decide, is_leaf
from leaveout.models.forest.subtrees import by_label, close, divide, goes_right, pend, same_parts
from leaveout.models.forest.table import Table
from leaveout.models.forest.thresholds import sample
from leaveout.models.forest.tree_arrays import (
    OPEN,
    PENDING,
    SMALL,
    Rules,
    Scratch,
    Tree,
    attribute_of,
    total,
)

_MANY = 8
"""Where more than one in so many rows of a node leaves it, its thresholds are sampled again."""


class Todo(NamedTuple):
    """Nodes yet to be grown."""

    tree: NDArray[np.int32]
    node: NDArray[np.int32]
    depth: NDArray[np.int32]
    key: NDArray[np.uint64]  # what chance is drawn from there
    rows: NDArray[np.int32]  # how many rows it holds


@subroutine
def _keeps_up(
    table: Table, rules: Rules, tree: Tree, scratch: Scratch, node: int, gone: Any, begin: int,
    end: int, counts: Any, key: np.uint64,
) -> bool:  # fmt: skip
    """Update a greedy node's record for removed rows; False if it must be decided again."""
    arena, record, labels = tree.arena, tree.nodes[node].record, len(counts)
    width, k = 2 + 3 * labels, rules.thresholds
    n = total(counts)
    listed = False
    at, to = record + 1, record + 1
    for _ in range(arena[record]):
        attribute, many = arena[at], arena[at + 1]
        kind = table.kind[attribute]
        size = labels if kind >= 0 else many * width
        same = True
        if kind >= 0:
            if not varies(arena, at + 2, counts):
                return False
        else:
            own = attribute_key(key, attribute)
            same = (end - begin) * _MANY <= n and same_thresholds(
                table, tree, node, gone, begin, end, -1 - kind, own, at + 2, many, k, labels
            )
        found = many
        if not same:
            if not listed:
                here = tree.nodes[node]
                by_label(table, tree.rows, here.start, here.span, counts, scratch.live)
                listed = True
            own = attribute_key(key, attribute)
            found = sample(table, scratch, scratch.live, 0, counts, -1 - kind, own, k)
            # No deletion makes a threshold valid in place of none.
            if found == 0 or found > many:
                return False
        arena[to], arena[to + 1] = attribute, found
        if same:
            for i in range(2, 2 + size):
                arena[to + i] = arena[at + i]
            to += 2 + size
        else:
            for i in range(found):
                for c in range(width):
                    arena[to + 2 + i * width + c] = scratch.chosen[i, c]
            to += 2 + found * width
        at += 2 + size
    return True


@subroutine
def _list(tree: Tree, todo: Todo, found: int, index: int, node: int, depth: int, key: Any) -> int:
    if tree.nodes[node].feature != PENDING or found >= len(todo.tree):
        return found
    todo.tree[found], todo.node[found], todo.depth[found] = index, node, depth
    todo.key[found], todo.rows[found] = key, tree.nodes[node].span
    return found + 1


@subroutine
def leave(
    table: Table, rules: Rules, tree: Tree, scratch: Scratch, index: int, gone: Any, spare: Any,
    stack: Any, keys: Any, root: np.uint64, lazy: bool, todo: Todo, found: int,
) -> int:  # fmt: skip
    """Remove rows from a tree; return how many nodes are to be grown."""
    nodes, labels = tree.nodes, tree.counts.shape[1]
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3], keys[0] = 0, 0, 0, len(gone), root
    top = 1
    while top > 0:
        top -= 1
        node, depth, begin, end = stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3]
        key, counts = keys[top], tree.counts[node]
        for i in range(begin, end):
            counts[table.labels[gone[i]]] -= 1
        feature, old = attribute_of(nodes[node].feature), nodes[node].threshold
        if feature < 0:
            continue
        if is_leaf(counts, depth, rules):
            close(tree, node)
            continue
        n, record = total(counts), nodes[node].record
        old_words = record_words(table, rules, tree.arena, record, labels, depth)
        cached = record >= 0 and depth >= rules.random_depth
        known, attribute, threshold = False, feature, 0.0
        is_open, waits = lazy and n <= SMALL, False
        if is_open:
            nodes[node].feature, nodes[node].record = OPEN - feature, -1
            tree.used[2] = 1
        elif nodes[node].feature <= OPEN:
            known = False
        elif depth < rules.random_depth:
            known, threshold = random_without(table, tree, node, gone, begin, end, key, False)
        elif cached and n > SMALL:
            for i in range(begin, end):
                row = gone[i]
                shift(table, tree.arena, record, row, table.labels[row], labels, -1)
            known = _keeps_up(
                table, rules, tree, scratch, node, gone, begin, end, counts, key
            )  # fmt: skip
            if known:
                attribute, threshold = best_of(table, rules, tree.arena, record, counts)
        if not known and not is_open:
            by_label(table, tree.rows, nodes[node].start, nodes[node].span, counts, scratch.live)
            attribute, threshold = decide(
                table, rules, scratch, scratch.live, 0, counts, key, depth
            )
            if attribute < 0:
                close(tree, node)
                continue
            length = scratch.size[0]
            waits = length > old_words and tree.used[1] + length > len(tree.arena)
            if not waits:
                store(tree, scratch, node, old_words)
        elif n <= SMALL:
            nodes[node].record = -1
        if not waits and not is_open and (attribute != nodes[node].feature or threshold != old):
            if same_parts(table, tree, node, attribute, threshold):
                nodes[node].feature, nodes[node].threshold = attribute, threshold
            elif divide(table, rules, tree, node, depth, attribute, threshold, scratch.rows):
                left, right = nodes[node].left, nodes[node].right
                found = _list(tree, todo, found, index, left, depth + 1, child_key(key, False))
                found = _list(tree, todo, found, index, right, depth + 1, child_key(key, True))
                continue
            else:
                waits = True
        if waits:
            pend(tree, node)
            found = _list(tree, todo, found, index, node, depth, key)
            continue
        stay, go = begin, 0
        for i in range(begin, end):
            row = gone[i]
            if goes_right(table, row, feature, old):
                spare[go] = row
                go += 1
            else:
                gone[stay] = row
                stay += 1
        for i in range(go):
            gone[stay + i] = spare[i]
        for right in range(2):
            first, last = (stay, end) if right else (begin, stay)
            if first == last:
                continue
            stack[top, 0] = nodes[node].right if right else nodes[node].left
            stack[top, 1], stack[top, 2], stack[top, 3] = depth + 1, first, last
            keys[top] = child_key(key, right == 1)
            top += 1
    return found
