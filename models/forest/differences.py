"""How each deletion changes a tree's answers, found without changing the tree."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.compiling import kernel, stamp, subroutine
from leaveout.models.forest.family import of_tree
from leaveout.models.forest.keys import root_key
from leaveout.models.forest.layout import PENDING, Scratch, Tree, Work
from leaveout.models.forest.paths import restore, walk
from leaveout.models.forest.subtrees import by_label, grow
from leaveout.models.forest.views import borrow, tree_at

DONE, SHORT, SPARE = 0, 1, 2
"""Why `find_differences` returns: all rows are done; the lists are full; the spare tree is."""


class Differences(NamedTuple):
    """How deletions change one tree: lists with spare capacity."""

    member: NDArray[np.int32]  # shape (changes,): which of the rows asked about
    node: NDArray[np.int32]  # shape (changes,)
    root: NDArray[np.int64]  # shape (changes,)
    feature: NDArray[np.int32]  # shape (nodes,)
    threshold: NDArray[np.float64]  # shape (nodes,)
    left: NDArray[np.int64]  # shape (nodes,)
    right: NDArray[np.int64]  # shape (nodes,)
    counts: NDArray[np.int32]  # shape (nodes, labels): rows of each label in a leaf
    used: NDArray[np.int64]  # shape (2,): changes and nodes in use


@subroutine
def _changed_levels(tree: Tree, scratch: Scratch, depth: int) -> tuple[int, int]:
    """Return the first and last level above ``depth`` whose split changed, or -1."""
    first, last = -1, -1
    for level in range(depth):
        node = tree.nodes[scratch.path[level]]
        same = node.feature == scratch.path_feature[level]
        if not (same and node.threshold == scratch.path_threshold[level]):
            first = level if first < 0 else first
            last = level
    return first, last


@subroutine
def _answers_alike(counts: Any, label: int) -> bool:
    """Return whether a leaf that lost a row still holds rows, all of that row's label."""
    others = 0
    for c in range(len(counts)):
        others += counts[c] if c != label else 0
    return others == 0 and counts[label] > 0


@subroutine
def _write(
    tree: Tree, spare: Tree, scratch: Scratch, out: Differences, first: int, last: int,
    grown: int, leaf: int, gone: int,
) -> int:  # fmt: skip
    """Write the nodes that replace the path from level ``first``; return the first one."""
    nodes, labels = tree.nodes, tree.counts.shape[1]
    root = at = int(out.used[1])
    for level in range(first, last + (grown == 0 and leaf < 0)):
        node, child = nodes[scratch.path[level]], scratch.path[level + 1]
        below = at + 1 if level < last else np.int64(of_tree(child))
        out.feature[at] = scratch.path_feature[level]
        out.threshold[at] = scratch.path_threshold[level]
        out.left[at] = below if node.left == child else np.int64(of_tree(node.left))
        out.right[at] = below if node.right == child else np.int64(of_tree(node.right))
        at += 1
    for i in range(grown):
        node = spare.nodes[i]
        inner = node.feature >= 0
        out.feature[at + i] = node.feature
        out.threshold[at + i] = node.threshold if inner else 0.0
        out.left[at + i] = at + node.left if inner else -1
        out.right[at + i] = at + node.right if inner else -1
        for c in range(labels):
            out.counts[at + i, c] = spare.counts[i, c]
    at += grown
    if leaf >= 0:
        out.feature[at], out.threshold[at], out.left[at], out.right[at] = -1, 0.0, -1, -1
        held = 0
        for c in range(labels):
            held += tree.counts[leaf, c]
        for c in range(labels):
            out.counts[at, c] = tree.counts[leaf, c] if held > 0 else c != gone
        at += 1
    out.used[1] = at
    return root


def _compile(edition: int) -> Any:
    @kernel
    def find_differences(
        work: Work, address: NDArray[np.int64], index: int, rows: NDArray[np.int32], begin: int,
        only: NDArray[np.bool_], spare: Tree, out: Differences,
    ) -> tuple[int, int, int]:  # fmt: skip
        """List how each deletion changes a tree, until done or out of space."""
        _ = edition
        table, rules, scratch = borrow(work)
        tree = tree_at(address)
        labels = tree.counts.shape[1]
        for i in range(begin, len(rows)):
            row = rows[i]
            place = tree.where[row]
            if place < 0:
                continue
            tree.rows[place], tree.where[row] = -1, -1
            key = root_key(work.seed, index)
            grown, depth, n, key = walk(table, rules, tree, scratch, row, -1, key, True)
            end = scratch.path[depth]
            fits, size = True, 0
            if grown >= 0:
                for c in range(labels):
                    spare.counts[0, c] = tree.counts[end, c]
                here = tree.nodes[end]
                by_label(table, tree.rows, here.start, here.span, spare.counts[0], spare.rows)
                spare.nodes[0].start, spare.nodes[0].span = 0, n
                spare.nodes[0].feature = PENDING
                spare.used[0], spare.used[1], spare.used[2] = 1, 0, 0
                fits = grow(table, rules, spare, scratch, 0, depth, key, True)
                size = spare.used[0] if fits else 0
            why, leaf = (DONE if fits else SPARE), -1
            first, last = _changed_levels(tree, scratch, depth)
            if grown < 0 and not _answers_alike(tree.counts[end], table.labels[row]):
                leaf = end
            if size > 0 or leaf >= 0:
                first, last = (depth if first < 0 else first), depth
            if fits and last >= 0:
                change = out.used[0]
                if change == len(out.node) or out.used[1] + size + depth + 1 > len(out.feature):
                    why = SHORT
                else:
                    out.member[change], out.node[change] = i, scratch.path[first]
                    gone = table.labels[row] if only[i] else -1
                    out.root[change] = _write(
                        tree, spare, scratch, out, first, last, size, leaf, gone
                    )
                    out.used[0] += 1
            restore(table, rules, tree, scratch, row, depth)
            tree.rows[place], tree.where[row] = row, place
            if why != DONE:
                return i, why, n
        return len(rows), DONE, 0

    return find_differences


find_differences = _compile(stamp())
