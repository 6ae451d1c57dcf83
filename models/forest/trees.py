"""Trees that are grown, revised row by row, and moved to greater arrays when they need them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest import kernels
from leaveout.models.forest.kernels import Place
from leaveout.models.forest.keys import root_key
from leaveout.models.forest.layout import NODE, Rules, Tree, Work, record_length
from leaveout.models.forest.table import Table
from leaveout.models.forest.views import ADDRESS, address_of

__all__ = ["Trees", "cost_of", "grow", "pack", "revise", "slack"]

_NO_ROWS = np.empty(0, np.int32)
_BEGIN = Place(tree=0, done=0, node=-1, depth=0, key=np.uint64(0), rows=0, words=0)


class Trees:
    """The trees of a forest, and where they are, so that one call of a kernel reaches all of them.

    Handing the arrays of a tree over takes about as long as taking a row out of it.

    Attributes
    ----------
    addresses : ndarray of int64, shape (trees, ADDRESS)
    """

    def __init__(self, trees: Iterable[Tree]) -> None:
        self._trees = list(trees)
        self.addresses = np.empty((len(self._trees), ADDRESS), np.int64)
        for i, tree in enumerate(self._trees):
            self[i] = tree

    def __len__(self) -> int:
        return len(self._trees)

    def __iter__(self) -> Iterator[Tree]:
        return iter(self._trees)

    def __getitem__(self, i: int) -> Tree:
        return self._trees[i]

    def __setitem__(self, i: int, tree: Tree) -> None:
        self._trees[i] = tree
        self.addresses[i] = address_of(tree)


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


def grow(work: Work, labels: int, index: int, live: NDArray[np.int32]) -> Tree:
    """Return the tree of some rows of a table, in arrays with a little room."""
    table = work.table
    where = np.full(len(table.labels), -1, np.int32)
    tree = _empty(1, 0, labels, live.copy(), where)
    tree.nodes["feature"], tree.nodes["start"], tree.nodes["span"] = -1, 0, len(live)
    tree.counts[0] = np.bincount(table.labels[live], minlength=labels)
    tree.used[0] = 1
    with np.errstate(over="ignore"):
        key = root_key(work.seed, index)
    return _grow_on(work, tree, Place(0, 0, 0, 0, key, len(live), 0))


def _grow_on(work: Work, tree: Tree, at: Place) -> Tree:
    """Return a tree in arrays that do, grown below a node, with a little room."""
    labels, attempt, node = tree.counts.shape[1], 0, at.node
    start = at._replace(tree=0, done=0, key=np.uint64(at.key))
    while True:
        room = _room(work.rules, at.rows, labels, attempt)
        tree, node = _move(work.table, work.rules, tree, leaf=node, room=room)
        start = start._replace(node=node)
        trees = Trees([tree])
        if kernels.revise(work, trees.addresses, _NO_ROWS, by=1, start=start, end=1).tree:
            return pack(work.table, work.rules, tree)
        attempt += 1


def pack(table: Table, rules: Rules, tree: Tree) -> Tree:
    """Return a tree without the nodes it no longer reaches, with a little room."""
    return _move(table, rules, tree, leaf=-1, room=(0, 0))[0]


def _move(
    table: Table, rules: Rules, tree: Tree, leaf: int, room: tuple[int, int]
) -> tuple[Tree, int]:
    """Return the tree in new arrays with at least so much room, and where a node went."""
    labels = tree.counts.shape[1]
    none = _empty(0, 0, labels, tree.rows, tree.where)
    kernels.pack(table, rules, tree, out=none, leaf=leaf)
    nodes, words = int(none.used[0]), int(none.used[1])
    out = _empty(
        nodes + max(slack(nodes), room[0]), words + max(slack(words), room[1]), labels,
        tree.rows, tree.where,
    )  # fmt: skip
    return out, int(kernels.pack(table, rules, tree, out=out, leaf=leaf))


def revise(
    work: Work, trees: Trees, slots: NDArray[np.int32], by: int, begin: int, end: int
) -> None:
    """Take rows out of the trees ``begin`` to ``end`` (``by`` -1) or in (1).

    A tree that needs more room is moved to other arrays.
    """
    at = _BEGIN._replace(tree=begin)
    while True:
        at = kernels.revise(work, trees.addresses, slots, by=by, start=at, end=end)
        if at.tree == end:
            return
        tree = trees[at.tree]
        if at.node >= 0:
            trees[at.tree] = _grow_on(work, tree, at)
        else:
            trees[at.tree] = _move(work.table, work.rules, tree, leaf=-1, room=(0, at.words))[0]
        at = at._replace(node=-1, key=_BEGIN.key)


def cost_of(work: Work, trees: Trees, slot: int) -> int:
    """Return how many rows would be regrown, over all trees, if a row were deleted."""
    rows, end = np.array([slot], np.int32), len(trees)
    return int(kernels.revise(work, trees.addresses, rows, by=0, start=_BEGIN, end=end).rows)
