"""Trees that are grown, revised row by row, and moved to larger arrays when full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest import kernels
from leaveout.models.forest.kernels import UNLIMITED, Place
from leaveout.models.forest.keys import root_key
from leaveout.models.forest.layout import NODE, PENDING, Rules, Tree, Work, record_length
from leaveout.models.forest.leaving import Todo
from leaveout.models.forest.table import Table
from leaveout.models.forest.views import ADDRESS, address_of

_NO_INPUTS = np.empty((0, 0))
_BEGIN = Place(tree=0, done=0, rows=0, words=0)
_LISTED = 1024


class Trees:
    """The trees of a forest and their addresses, for kernels that visit them all.

    Passing a tree's arrays would take about as long as removing a row.
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

    def with_trees(self, new: Mapping[int, Tree]) -> Trees:
        """Return these trees with some replaced."""
        out = Trees(())
        out._trees, out.addresses = self._trees.copy(), self.addresses.copy()
        for i, tree in new.items():
            out[i] = tree
        return out


def _empty(
    nodes: int, words: int, labels: int, rows: NDArray[np.int32], where: NDArray[np.int32]
) -> Tree:
    return Tree(
        np.empty(nodes, NODE), np.empty((nodes, labels), np.int32), np.empty(words, np.int32),
        rows, where, np.zeros(3, np.int64),
    )  # fmt: skip


def _room(rules: Rules, rows: int, labels: int) -> tuple[int, int]:
    """Return the most nodes a tree can have, and a probable size of its records."""
    return 2 * rows + 1, 4 * rows * rules.attributes + 2 * record_length(rules, labels, rows)


def _todo(size: int) -> Todo:
    """Return an empty list of nodes to be grown."""
    trees, nodes, depths, rows = (np.empty(size, np.int32) for _ in range(4))
    return Todo(trees, nodes, depths, np.empty(size, np.uint64), rows)


def _first(todo: Todo, found: int) -> Todo:
    tree, node, depth, key, rows = todo
    return Todo(tree[:found], node[:found], depth[:found], key[:found], rows[:found])


_NOTHING = _todo(0)


def slack(used: int) -> int:
    """Return how much spare capacity a tree gets beyond what it uses."""
    return used // 2 + 64


def root(work: Work, labels: int, live: NDArray[np.int32]) -> Tree:
    """Return the ungrown tree of some rows of a table."""
    where = np.full(len(work.table.labels), -1, np.int32)
    where[live] = np.arange(len(live), dtype=np.int32)
    tree = _empty(1, 0, labels, live.copy(), where)
    tree.nodes["feature"], tree.nodes["record"] = PENDING, -1
    tree.nodes["left"], tree.nodes["right"] = -1, -1
    tree.nodes["start"], tree.nodes["span"], tree.nodes["threshold"] = 0, len(live), 0.0
    tree.counts[0] = np.bincount(work.table.labels[live], minlength=labels)
    tree.used[0], tree.used[2] = 1, 1
    return tree


def grow(work: Work, labels: int, index: int, live: NDArray[np.int32]) -> Tree:
    """Return the grown tree of some rows of a table, with some spare capacity."""
    room = _room(work.rules, len(live), labels)
    tree = _move(work.table, work.rules, root(work, labels, live), room)
    todo = _todo(1)
    with np.errstate(over="ignore"):
        todo.key[0] = root_key(work.seed, index)
    todo.node[0], todo.tree[0], todo.depth[0], todo.rows[0] = 0, 0, 0, len(live)
    if kernels.deepen(work, Trees([tree]).addresses, todo, _NO_INPUTS, 0, UNLIMITED) < 0:
        tree = _settle_fully(work, tree, index)
    tree.used[2] = 0
    return pack(work.table, work.rules, tree)


def _settle_fully(work: Work, tree: Tree, index: int) -> Tree:
    """Grow everything pending in a tree; return the tree."""
    trees = Trees([tree])
    while True:
        is_done, roomier = settle(work, trees, 0, UNLIMITED, index)
        if is_done:
            return trees[0]
        if roomier is not None:
            trees[0] = roomier


def settle(
    work: Work, trees: Trees, at: int, budget: int, index: int | None = None
) -> tuple[bool, Tree | None]:
    """Grow some of what is pending in a tree."""
    todo = _todo(_LISTED)
    own = at if index is None else index
    found = int(kernels.pending(trees.addresses, at, own, work.seed, todo))
    if not found:
        return True, None
    listed = _first(todo, found)
    if kernels.deepen(work, trees.addresses, listed, _NO_INPUTS, 0, budget) < 0:
        return False, _roomier(work, trees[at])
    return False, None


def pending_trees(trees: Trees) -> list[int]:
    """Return the trees that may have pending nodes."""
    return [i for i, tree in enumerate(trees) if tree.used[2]]


def ask(work: Work, trees: Trees, X: NDArray[np.float64]) -> dict[int, Tree]:
    """Grow the pending nodes on the paths of inputs."""
    found = pending_trees(trees)
    todo = _todo(len(found))
    todo.tree[:] = found
    stopped = int(kernels.deepen(work, trees.addresses, todo, X, 0, UNLIMITED))
    if stopped >= 0:
        return {}
    at = found[-1 - stopped]
    return {at: _roomier(work, trees[at])}


def pack(table: Table, rules: Rules, tree: Tree) -> Tree:
    """Return a tree without unreachable nodes, with some spare capacity."""
    return _move(table, rules, tree, (0, 0))


def _roomier(work: Work, tree: Tree) -> Tree:
    """Return a tree with capacity for a few more nodes."""
    return _move(work.table, work.rules, tree, (0, 4 * len(work.scratch.record)))


def _move(table: Table, rules: Rules, tree: Tree, room: tuple[int, int]) -> Tree:
    """Return a tree in new arrays with at least the given capacity."""
    labels = tree.counts.shape[1]
    none = _empty(0, 0, labels, tree.rows, tree.where)
    kernels.pack(table, rules, tree, none)
    nodes, words = int(none.used[0]), int(none.used[1])
    out = _empty(
        nodes + max(slack(nodes), room[0]), words + max(slack(words), room[1]), labels,
        tree.rows, tree.where,
    )  # fmt: skip
    kernels.pack(table, rules, tree, out)
    return out


def forget(
    work: Work, trees: Trees, slots: NDArray[np.int32], begin: int, end: int, lazy: bool
) -> None:
    """Remove rows from trees ``begin`` to ``end``, all at once."""
    if lazy:
        kernels.forget(work, trees.addresses, slots, begin, end, True, _NOTHING)
        return
    todo = _todo(2 * len(slots) * (end - begin))
    found = int(kernels.forget(work, trees.addresses, slots, begin, end, False, todo))
    listed, at = _first(todo, found), 0
    while at < found:
        at = int(kernels.deepen(work, trees.addresses, listed, _NO_INPUTS, at, UNLIMITED))
        if at < 0:
            at = -1 - at
            tree = int(listed.tree[at])
            trees[tree] = _settle_fully(work, trees[tree], tree)
            at = int(np.searchsorted(listed.tree, tree, side="right"))


def learn(work: Work, trees: Trees, slots: NDArray[np.int32], at: int, lazy: bool) -> None:
    """Add rows to a tree."""
    place = _BEGIN._replace(tree=at)
    while True:
        place = kernels.revise(work, trees.addresses, slots, by=1, start=place, end=at + 1)
        if place.tree > at:
            break
        trees[at] = _move(work.table, work.rules, trees[at], (0, place.words))
    if not lazy and trees[at].used[2]:
        trees[at] = _settle_fully(work, trees[at], at)


def cost_of(work: Work, trees: Trees, slot: int) -> int:
    """Return how many rows, over all trees, a row's deletion would regrow."""
    rows, end = np.array([slot], np.int32), len(trees)
    return int(kernels.revise(work, trees.addresses, rows, by=0, start=_BEGIN, end=end).rows)
