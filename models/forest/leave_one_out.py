"""Leave-one-out family of an exact forest, computed without deleting anything."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Event
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Integers
from leaveout.compiling import kernel, subroutine
from leaveout.cores import cores
from leaveout.errors import ForestError
from leaveout.handles import Handle
from leaveout.models.forest.chance import emptied_slots, root_key
from leaveout.models.forest.family import Changes, ForestFamily, of_tree
from leaveout.models.forest.paths import restore, walk
from leaveout.models.forest.plain import Ensemble, tree_from
from leaveout.models.forest.scored import ScoredForest
from leaveout.models.forest.subtrees import by_label, grow
from leaveout.models.forest.table import Table, encode
from leaveout.models.forest.tree_arrays import (
    NODE,
    PENDING,
    TREE,
    Scratch,
    Tree,
    Work,
    borrow,
    record_length,
    scratch_for,
    total,
    tree_at,
    work_on,
)
from leaveout.models.forest.trees import Trees, forget, index_of

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
    counts: Annotated[NDArray[np.int32], 2]  # shape (nodes, labels): rows of each label in a leaf
    used: NDArray[np.int64]  # shape (2,): changes and nodes in use


DIFFERENCES = Handle(Differences)
differences_at = DIFFERENCES.at


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
        held = total(tree.counts[leaf])
        for c in range(labels):
            out.counts[at, c] = tree.counts[leaf, c] if held > 0 else c != gone
        at += 1
    out.used[1] = at
    return root


@subroutine
def _same_leaf(old: Any, new: Any, lost: Any) -> bool:
    """Return whether two leaves' counts give the same shares; none are those of an empty tree."""
    before, after, gone = 0, 0, False
    for c in range(len(old)):
        before += old[c]
        after += new[c]
        gone = gone or lost[c]
    same = (before > 0) == (after > 0) and not (after == 0 and gone)
    for c in range(len(old)):
        same = same and np.int64(old[c]) * after == np.int64(new[c]) * before
    return same


@subroutine
def _pair(old: Tree, new: Tree, lost: Any, pairs: Any, same: Any) -> None:
    """List a tree's nodes, each with what stood there, and whether both answer alike.

    A pair is a node, the one before or -1, and where the pair of its left child is or -1; that of
    the right child is the next one.
    """
    pairs[0, 0], pairs[0, 1] = 0, 0
    size, i = 1, 0
    while i < size:
        node, was = pairs[i, 0], pairs[i, 1]
        pairs[i, 2] = -1
        if new.nodes[node].feature >= 0:
            both = was >= 0 and old.nodes[was].feature >= 0
            pairs[i, 2] = size
            pairs[size, 0], pairs[size + 1, 0] = new.nodes[node].left, new.nodes[node].right
            pairs[size, 1] = old.nodes[was].left if both else -1
            pairs[size + 1, 1] = old.nodes[was].right if both else -1
            size += 2
        i += 1
    for i in range(size - 1, -1, -1):
        node, was, left = pairs[i, 0], pairs[i, 1], pairs[i, 2]
        same[i] = was >= 0 and old.nodes[was].feature == new.nodes[node].feature
        if same[i] and left >= 0:
            same[i] = old.nodes[was].threshold == new.nodes[node].threshold
            same[i] = same[i] and same[left] and same[left + 1]
        elif same[i]:
            same[i] = _same_leaf(old.counts[was], new.counts[node], lost)


@subroutine
def _least_difference(old: Tree, new: Tree, pairs: Any, same: Any) -> int:
    """Return the pair below which alone two trees differ."""
    i = 0
    while True:
        node, was, left = pairs[i, 0], pairs[i, 1], pairs[i, 2]
        stays = left >= 0 and old.nodes[was].feature == new.nodes[node].feature
        stays = stays and old.nodes[was].threshold == new.nodes[node].threshold
        if not stays or same[left] == same[left + 1]:
            return i
        i = left + same[left]


@kernel
def find_difference(
    before: Integers, after: Integers, member: int, lost: NDArray[np.bool_], changes: Integers
) -> bool:
    """List how a tree differs from what it was; False if out of space."""
    old, new, out = tree_at(before, 0), tree_at(after, 0), differences_at(changes, 0)
    room = new.used[0]
    pairs, same = np.empty((room, 3), np.int64), np.empty(room, np.bool_)
    _pair(old, new, lost, pairs, same)
    if same[0]:
        return True
    change, root = out.used[0], out.used[1]
    if change == len(out.node) or root + room > len(out.feature):
        return False
    first = _least_difference(old, new, pairs, same)
    out.member[change], out.node[change], out.root[change] = member, pairs[first, 1], root
    listed = np.empty(room, np.int64)
    listed[0] = first
    j, size = 0, 1
    while j < size:
        node, left, at = pairs[listed[j], 0], pairs[listed[j], 2], root + j
        out.feature[at], out.threshold[at], out.left[at], out.right[at] = -1, 0.0, -1, -1
        if left >= 0:
            out.feature[at] = new.nodes[node].feature
            out.threshold[at] = new.nodes[node].threshold
        held = total(new.counts[node])
        for c in range(len(lost)):
            out.counts[at, c] = new.counts[node, c] if held > 0 else not lost[c]
        for right in range(2 if left >= 0 else 0):
            child = np.int64(of_tree(pairs[left + right, 1]))
            if not same[left + right]:
                child, listed[size] = root + size, left + right
                size += 1
            if right:
                out.right[at] = child
            else:
                out.left[at] = child
        j += 1
    out.used[0], out.used[1] = change + 1, root + size
    return True


@kernel
def find_differences(
    work: Integers, address: Integers, index: int, rows: NDArray[np.int32], begin: int,
    only: NDArray[np.bool_], beside: Integers, changes: Integers,
) -> tuple[int, int, int]:  # fmt: skip
    """List how each deletion changes a tree, until done or out of space."""
    table, rules, scratch, seed = borrow(work)
    tree, spare, out = tree_at(address, 0), tree_at(beside, 0), differences_at(changes, 0)
    labels = tree.counts.shape[1]
    for i in range(begin, len(rows)):
        row = rows[i]
        place = tree.where[row]
        if place < 0:
            continue
        tree.rows[place], tree.where[row] = -1, -1
        key = root_key(seed, index)
        grown, depth, n, key = walk(table, rules, tree, scratch, row, -1, key)
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
                out.root[change] = _write(tree, spare, scratch, out, first, last, size, leaf, gone)
                out.used[0] += 1
        restore(table, rules, tree, scratch, row, depth)
        tree.rows[place], tree.where[row] = row, place
        if why != DONE:
            return i, why, n
    return len(rows), DONE, 0


Names = NDArray[np.int64]
OnProgress = Callable[[int, int], None]
"""Called with how many (tree, row) pairs are done, and of how many."""

_AT_ONCE = 512  # rows between two looks at whether to go on


def leave_one_out(
    ensemble: Ensemble,
    rows: Names | None = None,
    *,
    threads: int | None = None,
    progress: OnProgress | None = None,
) -> ForestFamily:
    """Return the forest after each single row's, or group's, deletion, as differences.

    Each member is the very forest that training without its row gives (Brophy and Lowd, ICML
    2021, section 3, made exact: see ``docs/forest.md``). Nothing is deleted: what a deletion would
    grow anew is grown beside the tree.

    Parameters
    ----------
    ensemble : Ensemble
        `DareForestClassifier.ensemble`.
    rows : ndarray of int64, optional
        Names of the rows whose deletion is asked about, of a group the first; all unless given.
    threads : int, optional
        Over trees; one a core unless given. No result depends on it.
    progress : callable, optional

    Raises
    ------
    ForestError
        If a row is not held, or there is one row or group only.
    """
    known = ensemble.unit_names
    wanted = known if rows is None else np.unique(np.asarray(rows, np.int64))
    places = np.searchsorted(known, wanted).clip(0, len(known) - 1)
    absent = wanted[known[places] != wanted]
    if len(absent):
        raise ForestError(f"there is no row {absent[0]}: name rows that the forest contains")
    if len(known) < 2:
        one = "row" if ensemble.groups is None else ensemble.groups.column
        raise ForestError(f"the forest has only one {one}, and a forest cannot be trained on none")
    found = _Family(ensemble, places, Event())
    done, count = 0, len(ensemble.trees)
    parts: dict[int, Differences] = {}
    with ThreadPoolExecutor(threads or cores()) as pool:
        asked = {pool.submit(found.of_tree, i): i for i in range(count)}
        try:
            for each in as_completed(asked):
                parts[asked[each]] = each.result()
                done += 1
                if progress is not None:
                    progress(done * len(wanted), count * len(wanted))
        except BaseException:
            found.stopped.set()
            raise
    changes = _join_trees([parts[i] for i in range(count)], len(wanted))
    return ForestFamily(ScoredForest.of(ensemble), wanted, changes)


class _Family:
    """What finding the trees of a family needs."""

    def __init__(self, ensemble: Ensemble, places: NDArray[np.intp], stopped: Event) -> None:
        self._ensemble, self.stopped = ensemble, stopped
        self._rules = ensemble.settings.rules
        self._table: Table = encode(ensemble.X, ensemble.y)
        every = np.arange(len(ensemble.names))
        index, _ = index_of(ensemble.settings, ensemble.classes, self._table, every)
        # Each on its own: of copies those of the greatest ranks leave the trees.
        ordered = np.argsort(ensemble.units, kind="stable")
        starts = np.searchsorted(ensemble.units[ordered], np.arange(len(ensemble.unit_names) + 1))
        rows = [ordered[starts[place] : starts[place + 1]] for place in places.tolist()]
        leaving = [emptied_slots(index.copies, each).astype(np.int32) for each in rows]
        labels = [np.bincount(ensemble.y[each], minlength=len(index.totals)) for each in rows]
        self._groups = leaving if len(ensemble.unit_names) < len(ensemble.names) else None
        self._slots = np.concatenate(leaving)
        self._lost = np.array(labels) == index.totals
        self._only = self._lost.any(axis=1)

    def of_tree(self, index: int) -> Differences:
        """Return how deletions change one tree."""
        table, rules, labels = self._table, self._rules, len(self._ensemble.classes)
        if self._groups is not None:
            return self._of_groups(index, self._groups)
        tree = tree_from(table, rules, self._ensemble.trees[index], slack=0)
        work = self._work()
        if not len(tree.rows):
            return self._of_empty(labels)
        most, words = 64, 1
        spare = _spare(most, labels, len(table.labels), record_length(rules, labels, most))
        out = _room(1024, 8192, labels)
        at = 0
        while at < len(self._slots) and not self.stopped.is_set():
            end = min(at + _AT_ONCE, len(self._slots))
            at, why, n = find_differences(
                work.words, TREE.words(tree), index, self._slots[:end], at, self._only,
                TREE.words(spare), DIFFERENCES.words(out),
            )  # fmt: skip
            if why == SHORT:
                out = _resize(out, 2 * len(out.node), 2 * len(out.feature))
            elif why == SPARE:
                # Nodes of n rows do for certain; of what they cache that is not known before.
                words = 2 * words if n <= most else 1
                most = max(n, most)
                room = words * (4 * n * rules.attributes + record_length(rules, labels, n))
                spare = _spare(most, labels, len(table.labels), max(room, len(spare.arena)))
        return _resize(out, *out.used.tolist())

    def _work(self) -> Work:
        scratch = scratch_for(self._table, self._rules, len(self._ensemble.classes))
        return work_on(self._table, self._rules, scratch, self._ensemble.settings.seed)

    def _of_groups(self, index: int, groups: list[NDArray[np.int32]]) -> Differences:
        """Return how deletions of groups change one tree: each is made on a copy."""
        table, rules, labels = self._table, self._rules, len(self._ensemble.classes)
        plain = self._ensemble.trees[index]
        tree, copy = (tree_from(table, rules, plain, slack=slack) for slack in (0, 4096))
        work, address = self._work(), TREE.words(tree)
        trees = Trees([copy] * len(self._ensemble.trees))
        out = _room(1024, 8192, labels)
        for member, slots in enumerate(groups):
            mine = slots[tree.where[slots] >= 0]
            if self.stopped.is_set() or not (len(mine) or self._only[member]):
                continue
            _copy_arrays(tree, copy)
            trees[index] = copy
            forget(work, trees, mine, index, index + 1, lazy=False)
            lost, after = self._lost[member], trees.addresses[index]
            while not find_difference(address, after, member, lost, DIFFERENCES.words(out)):
                out = _resize(out, 2 * len(out.node), 2 * len(out.feature))
        return _resize(out, *out.used.tolist())

    def _of_empty(self, labels: int) -> Differences:
        """Return how deletions change a tree without rows: a label may disappear."""
        members = np.flatnonzero(self._only).astype(np.int32)
        out = _room(len(members), len(members), labels)
        out.member[:], out.node[:], out.root[:] = members, 0, np.arange(len(members))
        out.feature[:], out.threshold[:], out.left[:], out.right[:] = -1, 0.0, -1, -1
        out.counts[:] = np.arange(labels) != self._table.labels[self._slots[members], None]
        out.used[:] = len(members)
        return out


def _spare(rows: int, labels: int, slots: int, words: int) -> Tree:
    nodes = 2 * rows + 1
    return Tree(
        np.empty(nodes, NODE), np.empty((nodes, labels), np.int32), np.empty(words, np.int32),
        np.empty(slots, np.int32), np.empty(slots, np.int32), np.zeros(3, np.int64),
    )  # fmt: skip


def _room(changes: int, nodes: int, labels: int) -> Differences:
    return Differences(
        np.empty(changes, np.int32), np.empty(changes, np.int32), np.empty(changes, np.int64),
        np.empty(nodes, np.int32), np.empty(nodes), np.empty(nodes, np.int64),
        np.empty(nodes, np.int64), np.empty((nodes, labels), np.int32), np.zeros(2, np.int64),
    )  # fmt: skip


def _copy_arrays(source: tuple[NDArray[Any], ...], into: tuple[NDArray[Any], ...]) -> None:
    for old, new in zip(source, into, strict=True):
        new[: len(old)] = old


def _resize(out: Differences, changes: int, nodes: int) -> Differences:
    """Return the same lists with another capacity, truncated to fit."""
    other = _room(changes, nodes, out.counts.shape[1])
    for name, old in out._asdict().items():
        new: NDArray[Any] = getattr(other, name)
        new[: len(old)] = old[: len(new)]
    return other


def _join_trees(trees: list[Differences], members: int) -> Changes:
    sizes = [len(each.feature) for each in trees]
    starts = np.cumsum([0, *sizes])[:-1]
    if sum(sizes) >= 2**31:
        raise ForestError(
            f"the changes of {members:,} deletions do not fit in memory at once; ask about fewer "
            "rows at a time"
        )
    member = np.concatenate([each.member for each in trees])
    tree = np.repeat(np.arange(len(trees), dtype=np.int32), [len(each.member) for each in trees])
    order = np.lexsort((tree, member))
    feature = np.concatenate([each.feature for each in trees])
    left = _children([each.left for each in trees], starts)
    right = _children([each.right for each in trees], starts)
    counts = np.concatenate([each.counts[each.feature < 0] for each in trees])
    left[feature < 0], shares = _answers(counts)
    root = _children([each.root for each in trees], starts)
    return Changes(
        np.concatenate(([0], np.cumsum(np.bincount(member, minlength=members)))).astype(np.int64),
        tree[order],
        np.concatenate([each.node for each in trees])[order],
        root[order],
        feature,
        np.concatenate([each.threshold for each in trees]),
        left,
        right,
        shares,
    )


def _children(sides: list[NDArray[np.int64]], starts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return children renumbered among the nodes of all trees."""
    moved = [
        np.where(side >= 0, side + start, side).astype(np.int32)
        for side, start in zip(sides, starts, strict=True)
    ]
    return np.concatenate(moved)


def _answers(counts: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return the index of each leaf's label shares, and the distinct shares."""
    labels = counts.shape[1]
    which = counts.argmax(axis=1).astype(np.int32)
    mixed = np.flatnonzero(np.count_nonzero(counts, axis=1) > 1)
    different, place = np.unique(counts[mixed], axis=0, return_inverse=True)
    which[mixed] = labels + place.reshape(-1)
    shares = different / different.sum(axis=1, keepdims=True)
    return which, np.concatenate((np.eye(labels), shares))
