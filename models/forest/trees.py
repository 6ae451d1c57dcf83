"""Trees that are grown, revised row by row, and moved to larger arrays when full."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import kernel
from leaveout.errors import ForestError
from leaveout.models.forest import kernels
from leaveout.models.forest.chance import (
    Bits,
    Copies,
    content_keys,
    copies_of,
    in_tree,
    members,
    no_copies,
    root_key,
)
from leaveout.models.forest.kernels import UNLIMITED, Place
from leaveout.models.forest.leaving import Todo
from leaveout.models.forest.plain import Ensemble, Groups, Settings, plain_tree, recode
from leaveout.models.forest.table import Table, decode, erase, public
from leaveout.models.forest.tree_arrays import (
    NODE,
    PENDING,
    TREE,
    Rules,
    Tree,
    Work,
    record_length,
)

_NO_INPUTS = np.empty((0, 0))
_BEGIN = Place(tree=0, done=0, rows=0, words=0)
_LISTED = 1024


class Trees:
    """The trees of a forest and their addresses, for kernels that visit them all.

    Passing a tree's arrays would take about as long as removing a row.
    """

    def __init__(self, trees: Iterable[Tree]) -> None:
        self._trees = list(trees)
        self.addresses = np.empty((len(self._trees), TREE.length), np.int64)
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
        self.addresses[i] = TREE.words(tree)

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
    if kernels.deepen(work.words, Trees([tree]).addresses, todo, _NO_INPUTS, 0, UNLIMITED) < 0:
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
    found = int(kernels.list_pending(trees.addresses, at, own, work.seed, todo))
    if not found:
        return True, None
    listed = _first(todo, found)
    if kernels.deepen(work.words, trees.addresses, listed, _NO_INPUTS, 0, budget) < 0:
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
    stopped = int(kernels.deepen(work.words, trees.addresses, todo, X, 0, UNLIMITED))
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
        kernels.forget(work.words, trees.addresses, slots, begin, end, True, _NOTHING)
        return
    todo = _todo(2 * len(slots) * (end - begin))
    found = int(kernels.forget(work.words, trees.addresses, slots, begin, end, False, todo))
    listed, at = _first(todo, found), 0
    while at < found:
        at = int(kernels.deepen(work.words, trees.addresses, listed, _NO_INPUTS, at, UNLIMITED))
        if at < 0:
            at = -1 - at
            tree = int(listed.tree[at])
            trees[tree] = _settle_fully(work, trees[tree], tree)
            at = int(np.searchsorted(listed.tree, tree, side="right"))


def learn(work: Work, trees: Trees, slots: NDArray[np.int32], at: int, lazy: bool) -> None:
    """Add rows to a tree."""
    place = _BEGIN._replace(tree=at)
    while True:
        place = kernels.revise(work.words, trees.addresses, slots, by=1, start=place, end=at + 1)
        if place.tree > at:
            break
        trees[at] = _move(work.table, work.rules, trees[at], (0, place.words))
    if not lazy and trees[at].used[2]:
        trees[at] = _settle_fully(work, trees[at], at)


def cost_of(work: Work, trees: Trees, slot: int) -> int:
    """Return how many rows, over all trees, a row's deletion would regrow."""
    rows, end = np.array([slot], np.int32), len(trees)
    return int(kernels.revise(work.words, trees.addresses, rows, by=0, start=_BEGIN, end=end).rows)


Names = Sequence[int] | NDArray[np.int64]


class Index(NamedTuple):
    """The table slot of each name."""

    slots: NDArray[np.int64]  # shape (names,): of each name, in their order; -1: deleted
    place: NDArray[np.int64]  # shape (slots,): the way back
    totals: NDArray[np.int64]  # shape (labels,): rows held of each label
    copies: Copies


class Held(NamedTuple):
    """The rows of a forest and its trees."""

    classes: NDArray[np.generic]  # shape (labels,)
    names: NDArray[np.int64]  # shape (names,): ascending; those of deleted rows too
    next_name: int
    table: Table
    by_name: Index
    trees: Trees
    local: threading.local  # what each thread that changes trees on this table works on
    groups: Groups | None  # of each name; without a cell where the row is deleted


def index_of(
    settings: Settings, classes: NDArray[np.generic], table: Table, slots: NDArray[np.int64]
) -> tuple[Index, Bits | None]:
    """Return the index of rows, and which trees hold each slot; None if all do."""
    room = len(table.labels)
    live = slots[slots >= 0]
    place = np.full(room, -1, np.int64)
    place[live] = np.flatnonzero(slots >= 0)
    y = table.labels[live]
    totals = np.bincount(y, minlength=len(classes)).astype(np.int64)
    if settings.trees_a_row == settings.trees:
        return Index(slots, place, totals, no_copies()), None
    X = decode(table, live)
    keys = content_keys(X, y, classes, settings.seed)
    rank, copies = copies_of(keys, X, y, live, room)
    found = np.zeros((room, (settings.trees + 63) // 64), np.uint64)
    found[live] = members(keys, rank, settings.trees, settings.trees_a_row)
    return Index(slots, place, totals, copies), found


@kernel
def release(
    table: Table, index: Index, places: NDArray[np.int64], slots: NDArray[np.int64]
) -> None:
    """Erase ``slots``, vacated by the names at ``places``, and forget these names."""
    group, start, ranked, size = index.copies
    for i in range(len(places)):
        index.slots[places[i]] = -1
    for i in range(len(slots)):
        slot = slots[i]
        index.totals[table.labels[slot]] -= 1
        g = group[slot] if len(group) else -1
        if g < 0:
            index.place[slot] = -1
            continue
        kept = 0
        for rank in range(size[g]):
            place = index.place[ranked[start[g] + rank]]
            if index.slots[place] >= 0:
                to = ranked[start[g] + kept]
                index.slots[place], index.place[to] = to, place
                kept += 1
        for rank in range(kept, size[g]):
            index.place[ranked[start[g] + rank]] = -1
        size[g] = kept
    erase(table, slots)


def slots_of(held: Held, names: Names) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of rows among the names, and their slots."""
    wanted = np.asarray(names)
    if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "iu"):
        raise ForestError(f"rows must be named by a list of whole numbers, not by {names!r}")
    wanted = wanted.astype(np.int64)
    if len(wanted) > 1:
        values, times = np.unique(wanted, return_counts=True)
        if np.any(times > 1):
            raise ForestError(f"row {values[times > 1][0]} is named twice")
    places = np.minimum(np.searchsorted(held.names, wanted), len(held.names) - 1)
    there = held.names[places] == wanted
    if not there.all():
        name = int(wanted[~there][0])
        if 0 <= name < held.next_name:
            raise ForestError(f"row {name} is already deleted")
        raise ForestError(f"there is no row {name}; rows are numbered 0 to {held.next_name - 1}")
    slots = held.by_name.slots[places]
    if np.any(slots < 0):
        raise ForestError(f"row {wanted[slots < 0][0]} is already deleted")
    return places, slots


_SHOWN = 20


def refuse_part(held: Held, places: NDArray[np.int64]) -> None:
    """Refuse places that are only some of those that leave together."""
    if held.groups is None:
        return
    cells, stays = held.groups.cells, held.by_name.slots >= 0
    stays[places] = False
    for place in places[np.isin(cells[places], cells[stays])].tolist()[:1]:
        column, cell = held.groups.column, str(cells[place])
        own = held.names[(cells == cell) & (held.by_name.slots >= 0)].tolist()
        more = " ..." * (len(own) > _SHOWN)
        raise ForestError(
            f"row {held.names[place]} leaves with the other rows of {column} {cell!r}; name all "
            f"of them: {' '.join(map(str, own[:_SHOWN]))}{more}"
        )


def without_places(settings: Settings, held: Held, places: NDArray[np.int64]) -> Ensemble:
    """Return the rows but those at some places, without trees or unused labels."""
    keep = np.setdiff1d(np.flatnonzero(held.by_name.slots >= 0), places)
    if not len(keep):
        raise ForestError("the last row cannot be deleted: a forest cannot be trained on none")
    slots = held.by_name.slots[keep]
    present, codes = np.unique(held.table.labels[slots], return_inverse=True)
    classes = held.classes[present]
    if classes.dtype.kind == "U":
        # The longest label sets the width; one that is gone must not.
        classes = np.array(classes.tolist())
    X = public(decode(held.table, slots))
    groups = None if held.groups is None else held.groups.take(keep)
    return Ensemble(
        settings, classes, held.names[keep], X, codes.astype(np.int32), (), held.next_name, groups
    )


def plain_form(settings: Settings, held: Held) -> Ensemble:
    """Return rows and trees in plain form; no tree has anything pending."""
    rows = without_places(settings, held, np.empty(0, np.int64))
    number = np.full(len(held.table.labels), -1, np.int32)
    number[held.by_name.slots[held.by_name.slots >= 0]] = np.arange(len(rows.names))
    rules = settings.rules
    plain = tuple(
        plain_tree(held.table, rules, pack(held.table, rules, tree), number) for tree in held.trees
    )
    return replace(rows, trees=plain)


def extend_table(
    settings: Settings,
    held: Held,
    names: NDArray[np.int64],
    table: Table,
    moved: NDArray[np.int32],
    groups: Groups | None,
) -> tuple[Held, list[NDArray[np.int32]]]:
    """Return the rows and trees on an extended table, in new arrays."""
    rules = settings.rules
    packed = [pack(held.table, rules, tree) for tree in held.trees]
    for tree in packed:
        recode(held.table, tree, rules.random_depth, moved)
    begin, end = len(held.table.labels), len(table.labels)
    slots = np.concatenate((held.by_name.slots, np.arange(begin, end)))
    index, chosen = index_of(settings, held.classes, table, slots)
    new = [in_tree(chosen, end, i, begin) for i in range(len(packed))]
    trees = Trees(
        tree._replace(
            rows=np.concatenate((tree.rows, np.full(len(mine), -1, np.int32))),
            where=np.concatenate((tree.where, np.full(end - begin, -1, np.int32))),
        )
        for tree, mine in zip(packed, new, strict=True)
    )
    next_name = held.next_name + len(names)
    known = np.concatenate((held.names, names))
    local = threading.local()
    return Held(held.classes, known, next_name, table, index, trees, local, groups), new


def sizes_of(held: Held) -> dict[str, int]:
    """Return the bytes in use by part."""
    parts = {"structure": 0, "decision statistics": 0, "leaf lists": 0}
    for tree in held.trees:
        parts["structure"] += tree.nodes.nbytes
        parts["decision statistics"] += tree.counts.nbytes + tree.arena.nbytes
        parts["leaf lists"] += tree.rows.nbytes + tree.where.nbytes
    parts["data"] = held.names.nbytes + sum(part.nbytes for part in held.table)
    parts["data"] += held.by_name.slots.nbytes + held.by_name.place.nbytes
    parts["data"] += sum(part.nbytes for part in held.by_name.copies)
    parts["data"] -= held.table.level_bits.nbytes
    return parts
