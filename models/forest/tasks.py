"""What is done to one tree: it is grown, a row leaves it or joins it, or a deletion is probed."""

from __future__ import annotations

from typing import Any

from leaveout.models.forest.compiling import compiled
from leaveout.models.forest.keys import root_key
from leaveout.models.forest.layout import Rules, Scratch, Tree
from leaveout.models.forest.paths import insert, recorded_on_path, restore, walk
from leaveout.models.forest.subtrees import grow
from leaveout.models.forest.table import Table

__all__ = ["COST", "GROW", "JOIN", "REMOVE", "on_tree"]

GROW, REMOVE, JOIN, COST = 0, 1, 2, 3


@compiled
def on_tree(
    table: Table, rules: Rules, tree: Tree, scratch: Scratch, task: int, rows: Any, first: int,
    seed: int, index: int,
) -> tuple[int, int]:  # fmt: skip
    """Do one of four tasks on a tree; one function, so that it is compiled once.

    GROW: grow what is below node ``first`` from its rows; its depth is in ``scratch.size``,
    its key in ``scratch.key`` (the root's is put there). Returns 1 and -1,
    or 0 and the node where room ran out.

    REMOVE, JOIN: take rows out or in, one after another. Returns how many of them are done
    with, and the node at which the last one stopped for lack of room, which is still to be
    regrown; or -1 less the words the next row may need; or -1.

    COST: returns 0 and how many rows the node holds that deleting ``rows[0]`` would regrow, or 0.
    """
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
            return (0, node) if task == GROW else (i + 1, node)
    if task == COST:
        restore(table, rules, tree, scratch, row, scratch.size[1])
        tree.rows[place] = row
        tree.where[row] = place
        return 0, left
    return (1, -1) if task == GROW else (done, -1)
