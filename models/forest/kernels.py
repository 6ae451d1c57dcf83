"""The kernels that work on trees, cached on disk between runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Integers
from leaveout.compiling import kernel
from leaveout.models.forest.chance import child_key, root_key
from leaveout.models.forest.leaving import Todo, leave
from leaveout.models.forest.paths import insert, record_words, records_on_path, restore, walk
from leaveout.models.forest.subtrees import grow, pend
from leaveout.models.forest.table import Table
from leaveout.models.forest.tree_arrays import (
    PENDING,
    Rules,
    Tree,
    attribute_of,
    borrow,
    tree_at,
)

WHOLE = 4096  # subtrees of at most so many rows are grown in one go

UNLIMITED = 2**62


class Place(NamedTuple):
    """How far the trees have been revised."""

    tree: int  # the first that is not done with
    done: int  # rows it has been revised by
    rows: int  # of rows that are probed, how many would be regrown so far
    words: int  # what the tree's arena must have room for before the next row


@kernel
def revise(
    work: Integers, trees: Integers, rows: NDArray[np.int32], by: int, start: Place, end: int
) -> Place:  # fmt: skip
    """Add rows to trees (``by`` 1), or probe the cost of deletions (0), writing nothing."""
    table, rules, scratch, seed = borrow(work)
    done, cost = start.done, start.rows
    for i in range(start.tree, end):
        tree = tree_at(trees[i], 0)
        while done < len(rows):
            row = rows[done]
            place = tree.where[row]
            if by == 0 and place < 0:
                done += 1
                continue
            if by > 0:
                words = len(scratch.record) * records_on_path(table, tree, row)
                if tree.used[1] + words > len(tree.arena):
                    return Place(i, done, cost, words)
                insert(table, tree, row, tree.nodes[0].span)
            else:
                tree.rows[place], tree.where[row] = -1, -1
            key = root_key(seed, i)
            side = 1 if by > 0 else -1
            node, depth, n, key = walk(table, rules, tree, scratch, row, side, key)
            if by == 0:
                restore(table, rules, tree, scratch, row, depth)
                tree.rows[place], tree.where[row] = row, place
                cost += n if node >= 0 else 0
            elif node >= 0:
                pend(tree, node)
            done += 1
        done = 0
    return Place(end, 0, cost, 0)


@kernel
def forget(
    work: Integers, trees: Integers, rows: NDArray[np.int32], begin: int, end: int,
    lazy: bool, todo: Todo,
) -> int:  # fmt: skip
    """Remove rows from trees ``begin`` to ``end``; return how many nodes are listed."""
    table, rules, scratch, seed = borrow(work)
    gone, spare = np.empty(len(rows), np.int32), np.empty(len(rows), np.int32)
    levels = len(scratch.path) + 2
    stack, keys = np.empty((levels, 4), np.int64), np.empty(levels, np.uint64)
    found = 0
    for i in range(begin, end):
        tree = tree_at(trees[i], 0)
        many = 0
        for j in range(len(rows)):
            place = tree.where[rows[j]]
            if place >= 0:
                tree.rows[place], tree.where[rows[j]] = -1, -1
                gone[many] = rows[j]
                many += 1
        if many:
            found = leave(
                table, rules, tree, scratch, i, gone[:many], spare, stack, keys,
                root_key(seed, i), lazy, todo, found,
            )  # fmt: skip
    return found


@kernel
def deepen(
    work: Integers, trees: Integers, todo: Todo, X: NDArray[np.float64], start: int,
    budget: int,
) -> int:  # fmt: skip
    """Grow pending and open nodes; return the first left, or -1 - it if space ran out."""
    table, rules, scratch, seed = borrow(work)
    for t in range(start, len(todo.tree)):
        if budget <= 0:
            return t
        tree = tree_at(trees[todo.tree[t]], 0)
        nodes = tree.nodes
        whole = len(X) == 0 and (budget == UNLIMITED or todo.rows[t] <= WHOLE)
        for j in range(max(len(X), 1)):
            node, depth, key = todo.node[t], todo.depth[t], todo.key[t]
            if len(X):
                node, depth, key = 0, 0, root_key(seed, todo.tree[t])
            while True:
                while nodes[node].feature >= 0 and len(X):
                    right = X[j, nodes[node].feature] > nodes[node].threshold
                    node = nodes[node].right if right else nodes[node].left
                    key = child_key(key, right)
                    depth += 1
                if nodes[node].feature > PENDING:
                    break
                if not grow(table, rules, tree, scratch, node, depth, key, whole):
                    return -1 - t
        if budget != UNLIMITED:
            budget -= todo.rows[t] * (8 if whole else 1)
    return len(todo.tree)


@kernel
def list_pending(trees: Integers, at: int, index: int, seed: int, todo: Todo) -> int:
    """List as many pending and open nodes of a tree as fit; return their number."""
    tree = tree_at(trees[at], 0)
    nodes, room = tree.nodes, tree.used[0] + 1
    stack, keys = np.empty((room, 2), np.int64), np.empty(room, np.uint64)
    stack[0, 0], stack[0, 1], keys[0] = 0, 0, root_key(seed, index)
    top, found = 1, 0
    while top > 0:
        top -= 1
        node, depth, key = stack[top, 0], stack[top, 1], keys[top]
        if nodes[node].feature <= PENDING:
            if found == len(todo.tree):
                return found
            todo.tree[found], todo.node[found], todo.depth[found] = at, node, depth
            todo.key[found], todo.rows[found] = key, nodes[node].span
            found += 1
        elif nodes[node].feature >= 0:
            for right in range(1, -1, -1):
                stack[top, 0] = nodes[node].right if right else nodes[node].left
                stack[top, 1], keys[top] = depth + 1, child_key(key, right == 1)
                top += 1
    if found == 0:
        tree.used[2] = 0
    return found


@kernel
def pack(table: Table, rules: Rules, tree: Tree, out: Tree) -> None:
    """Copy reachable nodes in preorder; only count them if ``out`` has no nodes."""
    nodes, labels = tree.nodes, tree.counts.shape[1]
    counting = len(out.nodes) == 0
    # Of each node still to be copied: its number, its parent's new one, its level, its side.
    stack = np.empty((tree.used[0] + 1, 4), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, -1, 0, 0
    top, used, words = 1, 0, 0
    while top > 0:
        top -= 1
        node, parent, depth, right = stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3]
        here = used
        used += 1
        inner = attribute_of(nodes[node].feature) >= 0
        record = nodes[node].record if inner else -1
        length = record_words(table, rules, tree.arena, record, labels, depth)
        if not counting:
            out.nodes[here] = nodes[node]
            for c in range(labels):
                out.counts[here, c] = tree.counts[node, c]
            if parent >= 0:
                if right:
                    out.nodes[parent].right = here
                else:
                    out.nodes[parent].left = here
            out.nodes[here].record = words if length else -1
            for i in range(length):
                out.arena[words + i] = tree.arena[record + i]
        words += length
        if inner:
            for side in range(1, -1, -1):
                stack[top, 0] = nodes[node].right if side else nodes[node].left
                stack[top, 1], stack[top, 2], stack[top, 3] = here, depth + 1, side
                top += 1
    out.used[0], out.used[1], out.used[2] = used, words, tree.used[2]


@kernel
def vote(trees: Integers, X: NDArray[np.float64], out: NDArray[np.float64]) -> bool:
    """Add each row's label shares, tree by tree; False at a pending or open node."""
    for i in range(len(trees)):
        tree = tree_at(trees[i], 0)
        nodes, counts = tree.nodes, tree.counts
        labels = counts.shape[1]
        for j in range(len(X)):
            node = 0
            while nodes[node].feature >= 0:
                right = X[j, nodes[node].feature] > nodes[node].threshold
                node = nodes[node].right if right else nodes[node].left
            if nodes[node].feature <= PENDING:
                return False
            n = 0
            for c in range(labels):
                n += counts[node, c]
            for c in range(labels):
                out[j, c] += counts[node, c] / n if n > 0 else 1.0 / labels
    return True
