"""The kernels that work on trees, kept on disk between runs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.compiling import kernel, stamp
from leaveout.models.forest.keys import root_key
from leaveout.models.forest.layout import Rules, Tree, Work
from leaveout.models.forest.paths import insert, record_words, records_on_path, restore, walk
from leaveout.models.forest.subtrees import grow
from leaveout.models.forest.table import Table
from leaveout.models.forest.views import borrow, tree_at

__all__ = ["Place", "pack", "revise", "vote"]


class Place(NamedTuple):
    """How far trees have been revised.

    Attributes
    ----------
    tree : int
        The first that is not done with.
    done : int
        Rows it has been revised by.
    node : int
        What is still to be grown below, for the last of these rows; -1: nothing.
    depth, key : int, uint64
        Of that node: its level, and what chance is drawn from there.
    rows : int
        How many it holds; of rows that are probed, how many would be regrown so far.
    words : int
        What the tree's arena must have room for before the next row; 0: its room is unknown.
    """

    tree: int
    done: int
    node: int
    depth: int
    key: np.uint64
    rows: int
    words: int


def _compile(edition: int) -> tuple[Any, Any, Any]:
    @kernel
    def revise(
        work: Work, trees: NDArray[np.int64], rows: NDArray[np.int32], by: int, start: Place,
        end: int,
    ) -> Place:  # fmt: skip
        """Take rows out of trees (``by`` -1), in (1), or see what one costs (0), one by one.

        First what is left to be grown is. Nothing is written where rows are probed.

        Parameters
        ----------
        work : Work
        trees : ndarray of int64, shape (trees, ADDRESS)
        rows : ndarray of int32
            Slots of the table.
        by : int
        start : Place
        end : int
            The first tree that is left alone.

        Returns
        -------
        Place
            Where a tree needs greater arrays, or ``end``.
        """
        _ = edition
        table, rules, scratch = borrow(work)
        done, node, depth, key, n = start.done, start.node, start.depth, start.key, start.rows
        total = 0
        for i in range(start.tree, end):
            tree = tree_at(trees[i])
            while True:
                if node >= 0 and by != 0:
                    if not grow(table, rules, tree, scratch, node, depth, key):
                        return Place(i, done, node, depth, key, n, 0)
                    node = -1
                if done == len(rows):
                    break
                row = rows[done]
                place = tree.where[row]
                if by <= 0 and place < 0:
                    done += 1
                    continue
                if by != 0:
                    words = len(scratch.record) * records_on_path(table, tree, row)
                    if tree.used[1] + words > len(tree.arena):
                        return Place(i, done, -1, 0, key, 0, words)
                if by > 0:
                    insert(table, tree, row, tree.nodes[0].span)
                else:
                    tree.rows[place], tree.where[row] = -1, -1
                key = root_key(work.seed, i)
                side = 1 if by > 0 else -1
                node, depth, n, key = walk(table, rules, tree, scratch, row, side, key, by == 0)
                if by == 0:
                    restore(table, rules, tree, scratch, row, depth)
                    tree.rows[place], tree.where[row] = row, place
                    total += n if node >= 0 else 0
                    node = -1
                done += 1
            done = 0
        return Place(end, 0, -1, 0, key, total, 0)

    @kernel
    def pack(table: Table, rules: Rules, tree: Tree, out: Tree, leaf: int) -> int:
        """Copy the nodes reached from the root in preorder; return where node ``leaf`` went.

        What is below ``leaf`` is left out. If ``out`` has no nodes, only what is used is counted.
        """
        _ = edition
        nodes, labels = tree.nodes, tree.counts.shape[1]
        counting = len(out.nodes) == 0
        # Of each node still to be copied: its number, its parent's new one, its level, its side.
        stack = np.empty((tree.used[0] + 1, 4), np.int64)
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, -1, 0, 0
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

    @kernel
    def vote(trees: NDArray[np.int64], X: NDArray[np.float64], out: NDArray[np.float64]) -> None:
        """Add, tree by tree, each row's shares of labels in the leaf it falls into."""
        _ = edition
        for i in range(len(trees)):
            tree = tree_at(trees[i])
            nodes, counts = tree.nodes, tree.counts
            labels = counts.shape[1]
            for j in range(len(X)):
                node = 0
                while nodes[node].feature >= 0:
                    right = X[j, nodes[node].feature] > nodes[node].threshold
                    node = nodes[node].right if right else nodes[node].left
                n = 0
                for c in range(labels):
                    n += counts[node, c]
                for c in range(labels):
                    out[j, c] += counts[node, c] / n if n > 0 else 1.0 / labels

    return revise, pack, vote


revise, pack, vote = _compile(stamp())
