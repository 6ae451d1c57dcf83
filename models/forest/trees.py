"""Trees that are grown, revised row by row, and moved to greater arrays when they need them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.addresses import Trees
from leaveout.models.forest.kernels import entries
from leaveout.models.forest.layout import NODE, Rules, Scratch, Tree, record_length
from leaveout.models.forest.table import Table
from leaveout.models.forest.tasks import COST, GROW, JOIN, REMOVE

__all__ = ["cost_of", "grown", "packed", "revise", "slack"]


def _empty(
    nodes: int, words: int, labels: int, rows: NDArray[np.int32], where: NDArray[np.int32]
) -> Tree:
    return Tree(
        np.empty(nodes, NODE), np.empty((nodes, labels), np.int32), np.empty(words, np.int32),
        rows, where, np.zeros(2, np.int64),
    )  # fmt: skip


def _room(rules: Rules, rows: int, labels: int, attempt: int) -> tuple[int, int]:
    """Return the most nodes a subtree of so many rows has, and words that may do for its records.

    Where they do not, the next attempt has twice as many. What is never written takes no memory.
    """
    words = 4 * rows * rules.attributes + 2 * record_length(rules, labels, rows)
    return 2 * rows + 1, words << attempt


def slack(used: int) -> int:
    """Return how much more room a tree is given than it uses."""
    return used // 2 + 64


def grown(table: Table, rules: Rules, labels: int, scratch: Scratch, seed: int, index: int) -> Tree:
    """Return the tree of all rows of a table, in arrays with a little room."""
    rows = len(table.labels)
    live = np.flatnonzero(table.labels >= 0).astype(np.int32)
    places = np.full(rows, -1, np.int32)
    places[: len(live)] = live
    where = np.full(rows, -1, np.int32)
    attempt = 0
    while True:
        tree = _empty(*_room(rules, len(live), labels, attempt), labels, places, where)
        root = tree.nodes[:1]
        root["start"], root["span"] = 0, len(live)
        tree.counts[0] = np.bincount(table.labels[live], minlength=labels)
        tree.used[0] = 1
        scratch.size[1] = 0
        one = Trees([tree], index)
        if entries()[0](table, rules, one.handles, scratch, GROW, live[:0], 0, seed, 0, 1)[0]:
            return packed(table, rules, tree)
        attempt += 1


def packed(table: Table, rules: Rules, tree: Tree) -> Tree:
    """Return a tree without the nodes it no longer reaches, with a little room."""
    return _moved(table, rules, tree, -1, (0, 0))[0]


def _moved(
    table: Table, rules: Rules, tree: Tree, leaf: int, room: tuple[int, int]
) -> tuple[Tree, int]:
    """Return the tree in new arrays with at least so much room, and where a node went."""
    pack = entries()[1]
    labels = tree.counts.shape[1]
    none = _empty(0, 0, labels, tree.rows, tree.where)
    stack = np.empty((int(tree.used[0]) + 1, 4), np.int64)
    pack(table, rules, tree, none, stack, leaf)
    nodes, words = int(none.used[0]), int(none.used[1])
    out = _empty(
        nodes + max(slack(nodes), room[0]), words + max(slack(words), room[1]), labels,
        tree.rows, tree.where,
    )  # fmt: skip
    return out, int(pack(table, rules, tree, out, stack, leaf))


def revise(
    table: Table, rules: Rules, trees: Trees, scratch: Scratch, slots: NDArray[np.int32], by: int,
    seed: int, begin: int, end: int,
) -> None:  # fmt: skip
    """Take rows out of the trees ``begin`` to ``end`` (``by`` -1) or in (1).

    A tree that needs more room is moved to other arrays.
    """
    work = entries()[0]
    task = REMOVE if by < 0 else JOIN
    done = 0
    while begin < end:
        begin, done, node = work(
            table, rules, trees.handles, scratch, task, slots, done, seed, begin, end
        )
        if begin == end:
            return
        tree = trees[begin]
        if node < 0:
            trees[begin] = _moved(table, rules, tree, -1, (0, -1 - node))[0]
            continue
        depth, n, key = int(scratch.size[1]), int(scratch.size[2]), scratch.key[0]
        labels, attempt, grown_again = tree.counts.shape[1], 0, False
        while not grown_again:
            tree, node = _moved(table, rules, tree, node, _room(rules, n, labels, attempt))
            scratch.size[1], scratch.key[0] = depth, key
            one = Trees([tree], begin)
            again = work(table, rules, one.handles, scratch, GROW, slots[:0], node, seed, 0, 1)
            grown_again = bool(again[0])
            attempt += 1
        trees[begin] = packed(table, rules, tree)


def cost_of(
    table: Table, rules: Rules, trees: Trees, scratch: Scratch, slot: int, seed: int
) -> int:
    """Return how many rows would be regrown, over all trees, if a row were deleted."""
    rows = np.array([slot], np.int32)
    end = len(trees)
    work = entries()[0]
    return int(work(table, rules, trees.handles, scratch, COST, rows, 0, seed, 0, end)[2])
