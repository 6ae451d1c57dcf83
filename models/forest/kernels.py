"""The compiled entry points, kept on disk between runs."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from leaveout.models.forest import (
    caches,
    compiling,
    deciding,
    growing,
    keys,
    layout,
    picking,
    scores,
    thresholds,
    walking,
)  # fmt: skip
from leaveout.models.forest.compiling import kept, stamp_of
from leaveout.models.forest.growing import grow
from leaveout.models.forest.keys import root_key
from leaveout.models.forest.layout import Rules, Scratch, Tree
from leaveout.models.forest.table import Table
from leaveout.models.forest.walking import (
    insert,
    record_words,
    recorded_on_path,
    restore,
    walk,
)

__all__ = ["COST", "GROW", "JOIN", "REMOVE", "entries"]

GROW, REMOVE, JOIN, COST = 0, 1, 2, 3

_MODULES = (
    caches, compiling, deciding, growing, keys, layout, picking, scores, thresholds, walking,
)  # fmt: skip


@lru_cache(maxsize=1)
def entries() -> tuple[Any, Any]:
    """Return the entry points: work and pack."""
    stamp = stamp_of(*_MODULES, sys.modules[__name__])

    @kept
    def work(
        table: Table, rules: Rules, tree: Tree, scratch: Scratch, task: int, rows: Any, first: int,
        seed: int, index: int,
    ) -> tuple[int, int]:  # fmt: skip
        """Do one of four tasks on a tree; one function, so that it is compiled once.

        GROW: grow what is below node ``first`` from its rows; its depth is in ``scratch.size``,
        its key in ``scratch.key`` (the root's is put there). Returns 1, or 0 where room ran out.

        REMOVE, JOIN: take rows out or in, one after another. Returns how many of them are done
        with, and the node at which the last one stopped for lack of room, which is still to be
        regrown; or -1 less the words the next row may need; or -1.

        COST: returns how many rows the node holds that deleting ``rows[0]`` would regrow, or 0.
        """
        _ = stamp
        done, left = len(rows), -1
        if task == COST:
            row = rows[0]
            place = tree.where[row]
            tree.rows[place] = -1
            tree.where[row] = -1
        for i in range(0 if task == GROW else first, 1 if task == GROW else done):
            key = root_key(seed, index)
            node, depth = -1, 0
            if task == GROW:
                node, depth = first, scratch.size[1]
                if node > 0:
                    key = scratch.key[0]
            else:
                row = rows[i]
                by = 1 if task == JOIN else -1
                if task != COST:
                    longest = len(scratch.record) * recorded_on_path(table, tree, row)
                    if tree.used[1] + longest > len(tree.arena):
                        return i, -1 - longest
                if task == REMOVE:
                    tree.rows[tree.where[row]] = -1
                    tree.where[row] = -1
                elif task == JOIN:
                    insert(table, tree, row, tree.nodes[0].span)
                node = walk(table, rules, tree, scratch, row, by, key, task == COST)
                depth, key = scratch.size[1], scratch.key[0]
            if task == COST:
                left = scratch.size[2] if node >= 0 else 0
            elif node >= 0 and not grow(table, rules, tree, scratch, node, key, depth):
                # grow leaves size and key alone: they still say where it stopped.
                return (0, -1) if task == GROW else (i + 1, node)
        if task == COST:
            restore(table, rules, tree, scratch, row, scratch.size[1])
            tree.rows[place] = row
            tree.where[row] = place
            return 0, left
        return (1, -1) if task == GROW else (done, -1)

    @kept
    def pack(table: Table, rules: Rules, tree: Tree, out: Tree, stack: Any, leaf: int) -> int:
        """Copy the nodes reached from the root in preorder; return where node ``leaf`` went.

        What is below ``leaf`` is left out. If ``out`` has no nodes, only what is used is counted.
        """
        _ = stamp
        nodes, labels = tree.nodes, tree.counts.shape[1]
        counting = len(out.nodes) == 0
        stack[0, 0], stack[0, 2], stack[0, 3] = 0, 0, 0
        stack[0, 1] = -1
        top, used, words, moved = 1, 0, 0, -1
        while top > 0:
            top -= 1
            node, parent, depth, right = stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3]
            here = used
            used += 1
            if node == leaf:
                moved = here
            inner = nodes[node].feature >= 0 and node != leaf
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
                if not inner:
                    out.nodes[here].feature = -1
            words += length
            if inner:
                for side in range(1, -1, -1):
                    stack[top, 0] = nodes[node].right if side else nodes[node].left
                    stack[top, 1], stack[top, 2], stack[top, 3] = here, depth + 1, side
                    top += 1
        out.used[0], out.used[1] = used, words
        return moved

    return work, pack
