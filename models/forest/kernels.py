"""The compiled entry points, kept on disk between runs."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from leaveout.models.forest import (
    addresses,
    attributes,
    caches,
    compiling,
    joining,
    keys,
    layout,
    paths,
    scores,
    splits,
    subtrees,
    tasks,
    thresholds,
)  # fmt: skip
from leaveout.models.forest.addresses import counts_at, nodes_at, used_at, words_at
from leaveout.models.forest.compiling import kept, stamp_of
from leaveout.models.forest.layout import Rules, Scratch, Tree
from leaveout.models.forest.paths import record_words
from leaveout.models.forest.table import Table
from leaveout.models.forest.tasks import COST, on_tree

__all__ = ["entries"]

_MODULES = (
    addresses, attributes, caches, compiling, joining, keys, layout, paths, scores, splits,
    subtrees, tasks, thresholds,
)  # fmt: skip


@lru_cache(maxsize=1)
def entries() -> tuple[Any, Any]:
    """Return the entry points: work and pack."""
    stamp = stamp_of(*_MODULES, sys.modules[__name__])

    @kept
    def work(
        table: Table, rules: Rules, handles: Any, scratch: Scratch, task: int, rows: Any,
        first: int, seed: int, begin: int, end: int,
    ) -> tuple[int, int, int]:  # fmt: skip
        """Do a task on the trees ``begin`` to ``end``, one after another.

        Returns the tree at which room ran out and what ``on_tree`` said of it; ``end`` if none.
        COST: the sum over the trees is last.
        """
        _ = stamp
        total = 0
        for i in range(begin, end):
            of = handles[i]
            tree = Tree(
                nodes_at(of[0], (of[6],)), counts_at(of[1], (of[6], of[7])),
                words_at(of[2], (of[8],)), words_at(of[3], (of[9],)), words_at(of[4], (of[9],)),
                used_at(of[5], (2,)),
            )  # fmt: skip
            done, node = on_tree(table, rules, tree, scratch, task, rows, first, seed, of[10])
            first = 0
            if task == COST:
                total += node
            elif node != -1:
                return i, done, node
        return end, len(rows), total

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
