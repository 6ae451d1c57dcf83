"""Inputs whose answer some row's deletion changes, exactly, asking few rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.compiling import cached_njit
from leaveout.models.forest.family import Changes, ForestFamily
from leaveout.models.forest.scored import ScoredForest
from leaveout.verifier.guard.inputs import Glance, LeakFinder, Point

Singles = NDArray[np.float32]
Places = NDArray[np.int64]


class Nodes(NamedTuple):
    """All trees in sequence, each in preorder: a left child is the next node."""

    first: Places  # shape (trees + 1,): where the nodes of each tree begin, and where the last end
    feature: NDArray[np.int32]  # shape (nodes,): -1 for a leaf
    threshold: Floats  # shape (nodes,)
    right: Places  # shape (nodes,): the right child; -1 of a leaf
    shares: Floats  # shape (nodes, labels): of leaves


class Deletions(NamedTuple):
    """What each row's deletion changes; node numbers as in `Changes`."""

    start: Places  # shape (members + 1,)
    tree: NDArray[np.int32]  # shape (changes,)
    node: Places  # shape (changes,): among all nodes of the forest
    end: Places  # shape (changes,): where the nodes below that one end
    root: NDArray[np.int32]  # as in `Changes`
    feature: NDArray[np.int32]  # as in `Changes`
    threshold: Floats  # as in `Changes`
    left: NDArray[np.int32]  # as in `Changes`
    right: NDArray[np.int32]  # as in `Changes`
    shares: Floats  # as in `Changes`


class Lookup(NamedTuple):
    """The changes at each node, most-changed members first."""

    start: Places  # shape (nodes + 1,): where the changes at each node begin
    member: NDArray[np.int32]  # shape (changes,)
    reach: Singles  # shape (changes,)
    most: Singles  # shape (changes, labels)
    least: Singles  # shape (changes, labels)
    busiest: Places  # shape (trees,): the leaf of each tree on whose path most changes lie


class Workspace(NamedTuple):
    """Working arrays for one input, never shared between threads."""

    leaf: Places  # shape (trees,): that the input falls into
    total: Floats  # shape (labels,): sums of shares, of the forest and of a member
    other: Floats  # shape (labels,): sums of shares, of the forest and of a member
    gain: Floats  # shape (members, labels)
    seen: NDArray[np.bool_]  # shape (members,)
    touched: NDArray[np.int32]  # shape (members,): those that have


def nodes_of(forest: ScoredForest) -> Nodes:
    """Lay out a forest whose trees are in preorder."""
    sizes = [len(tree.feature) for tree in forest.trees]
    first = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    rights = []
    for at, tree in zip(first.tolist(), forest.trees, strict=False):
        inner = np.flatnonzero(tree.feature >= 0)
        if not np.array_equal(tree.left[inner], inner + 1):
            raise ValueError("the nodes of a tree are not in preorder")
        rights.append(np.where(tree.feature >= 0, tree.right.astype(np.int64) + at, -1))
    return Nodes(
        first,
        np.concatenate([tree.feature for tree in forest.trees]),
        np.concatenate([tree.threshold for tree in forest.trees]),
        np.concatenate(rights),
        np.ascontiguousarray(np.concatenate([tree.shares for tree in forest.trees])),
    )


def deletions_of(changes: Changes, nodes: Nodes, ends: Places) -> Deletions:
    """Lay out the changes by deletions; ``ends`` is the end of each node's subtree."""
    node = nodes.first[changes.tree] + changes.node
    return Deletions(
        changes.start, changes.tree, node, ends[node], changes.root, changes.feature,
        changes.threshold, changes.left, changes.right, changes.shares,
    )  # fmt: skip


def make_workspace(nodes: Nodes, members: int) -> Workspace:
    """Return working arrays for one input."""
    trees, labels = len(nodes.first) - 1, nodes.shares.shape[1]
    return Workspace(
        np.zeros(trees, np.int64), np.zeros(labels), np.zeros(labels), np.zeros((members, labels)),
        np.zeros(members, np.bool_), np.zeros(members, np.int32),
    )  # fmt: skip


@cached_njit(nogil=True)
def ask(nodes: Nodes, x: Floats, room: Workspace) -> int:
    """Fill in an input's leaves and shares, summed as `predict_proba` does; return the label."""
    first, feature, threshold, right = nodes.first, nodes.feature, nodes.threshold, nodes.right
    shares, leaf, total = nodes.shares, room.leaf, room.total
    total[:] = 0.0
    for t in range(len(leaf)):
        i = first[t]
        while feature[i] >= 0:
            i = right[i] if x[feature[i]] > threshold[i] else i + 1
        leaf[t] = i
        for c in range(len(total)):
            total[c] += shares[i, c]
    return _first_greatest(total, len(leaf))


@cached_njit(nogil=True)
def _first_greatest(total: Floats, trees: int) -> int:
    best, label = total[0] / trees, 0
    for c in range(1, len(total)):
        mean = total[c] / trees
        if mean > best:
            best, label = mean, c
    return label


@cached_njit(nogil=True)
def _member_label(
    nodes: Nodes, deletions: Deletions, room: Workspace, x: Floats, member: int
) -> int:
    """Return a member's answer, using its own leaves where it differs, in tree order."""
    leaf, other, shares = room.leaf, room.other, nodes.shares
    other[:] = 0.0
    at, end = deletions.start[member], deletions.start[member + 1]
    for t in range(len(leaf)):
        here = leaf[t]
        row = -1
        if at < end and deletions.tree[at] == t:
            if deletions.node[at] <= here < deletions.end[at]:
                row = deletions.root[at]
                while row >= 0 and deletions.feature[row] >= 0:
                    goes_right = x[deletions.feature[row]] > deletions.threshold[row]
                    row = deletions.right[row] if goes_right else deletions.left[row]
                if row >= 0:
                    row = deletions.left[row]
                else:
                    here = nodes.first[t] - 1 - row
                    row = -1
                    while nodes.feature[here] >= 0:
                        goes_right = x[nodes.feature[here]] > nodes.threshold[here]
                        here = nodes.right[here] if goes_right else here + 1
            at += 1
        if row >= 0:
            for c in range(len(other)):
                other[c] += deletions.shares[row, c]
        else:
            for c in range(len(other)):
                other[c] += shares[here, c]
    return _first_greatest(other, len(leaf))


@cached_njit(nogil=True)
def suspects(
    nodes: Nodes, lookup: Lookup, room: Workspace, label: int, padding: float, every: bool
) -> int:
    """Find the members that may answer differently; return their number."""
    total, shares = room.total, nodes.shares
    labels = len(total)
    margin = np.inf
    for c in range(labels):
        if c != label:
            margin = min(margin, total[label] - total[c])
    threshold = -np.inf if every else margin - padding
    met = 0
    for t in range(len(room.leaf)):
        leaf = lookup.busiest[t] if every else room.leaf[t]
        i = nodes.first[t]
        while True:
            for e in range(lookup.start[i], lookup.start[i + 1]):
                if lookup.reach[e] < threshold:
                    break
                member = lookup.member[e]
                if not room.seen[member]:
                    room.seen[member] = True
                    room.touched[met] = member
                    met += 1
                lost = lookup.least[e, label] - shares[leaf, label]
                for c in range(labels):
                    room.gain[member, c] += lookup.most[e, c] - shares[leaf, c] - lost
            if nodes.feature[i] < 0:
                break
            i = i + 1 if leaf < nodes.right[i] else nodes.right[i]
    found = 0
    for k in range(met):
        member = room.touched[k]
        may = False
        for c in range(labels):
            if c != label and room.gain[member, c] >= total[label] - total[c] - padding:
                may = True
            room.gain[member, c] = 0.0
        room.seen[member] = False
        if may:
            room.touched[found] = member
            found += 1
    return found


@cached_njit(nogil=True)
def find_flip(
    nodes: Nodes,
    deletions: Deletions,
    room: Workspace,
    x: Floats,  # shape (features,)
    label: int,
    members: NDArray[np.int32],
    every: bool,
) -> int:
    """Return a member that answers with another label; -1 if none does."""
    found = -1
    for member in members:
        if _member_label(nodes, deletions, room, x, member) != label:
            found = member
            if not every:
                break
    return found


@cached_njit(nogil=True)
def extents(nodes: Nodes, ends: Places, most: Floats, least: Floats) -> None:
    """Fill in where each node's subtree ends, and the shares of its leaves."""
    labels = nodes.shares.shape[1]
    for i in range(len(ends) - 1, -1, -1):
        if nodes.feature[i] < 0:
            ends[i] = i + 1
            for c in range(labels):
                most[i, c] = least[i, c] = nodes.shares[i, c]
        else:
            right = nodes.right[i]
            ends[i] = ends[right]
            for c in range(labels):
                most[i, c] = max(most[i + 1, c], most[right, c])
                least[i, c] = min(least[i + 1, c], least[right, c])


@cached_njit(nogil=True)
def spans(
    nodes: Nodes,
    deletions: Deletions,
    most_below: Floats,  # shape (nodes, labels)
    least_below: Floats,  # shape (nodes, labels)
    most: Floats,  # shape (changes, labels)
    least: Floats,  # shape (changes, labels)
) -> None:
    """Fill in the range of each label's share in the replacements of changed nodes."""
    labels = nodes.shares.shape[1]
    stack = np.empty(64, np.int64)
    for k in range(len(deletions.root)):
        for c in range(labels):
            most[k, c], least[k, c] = -np.inf, np.inf
        stack[0], size = deletions.root[k], 1
        while size:
            size -= 1
            at = stack[size]
            if at < 0:
                i = nodes.first[deletions.tree[k]] - 1 - at
                for c in range(labels):
                    most[k, c] = max(most[k, c], most_below[i, c])
                    least[k, c] = min(least[k, c], least_below[i, c])
            elif deletions.feature[at] < 0:
                row = deletions.left[at]
                for c in range(labels):
                    most[k, c] = max(most[k, c], deletions.shares[row, c])
                    least[k, c] = min(least[k, c], deletions.shares[row, c])
            else:
                if size + 2 > len(stack):
                    larger = np.empty(2 * len(stack), np.int64)
                    larger[:size] = stack[:size]
                    stack = larger
                stack[size], stack[size + 1] = deletions.left[at], deletions.right[at]
                size += 2


_ROUNDING = 2.0**-45
"""Far above what float64 rounds off of a number up to 1, in all steps from shares to a sum."""


class ForestLeakTest(LeakFinder):
    """Finds the inputs at which a member's label differs from the forest's."""

    def __init__(self, family: ForestFamily) -> None:
        self._everyone = np.arange(len(family), dtype=np.int32)
        self._nodes = nodes_of(family.whole)
        self._deletions, self._lookup = _lay_out_changes(family, self._nodes)
        self._trees = len(family.whole.trees)
        self._padding = _ROUNDING * (self._trees + 1) ** 2
        self._rooms: list[Workspace] = []

    def label(self, x: Point) -> int:
        """Return the forest's answer: the first greatest mean share."""
        with self._workspace() as room:
            return int(ask(self._nodes, x, room))

    def glance(self, x: Point) -> Glance:
        """Evaluate the forest, and whether any change here could matter."""
        with self._workspace() as room:
            label = int(ask(self._nodes, x, room))
            margin = (room.total[label] - np.delete(room.total, label)).min(initial=np.inf)
            return Glance(label, float(margin) / self._trees, not self._suspects(room, label))

    def leaks(self, x: Point, seen: Glance) -> bool:
        """Return whether the deletion of some row changes the label."""
        with self._workspace() as room:
            ask(self._nodes, x, room)
            members = room.touched[: self._suspects(room, seen.label)]
            return self._flip(x, room, seen.label, members) >= 0

    def flips(self, x: Point) -> tuple[int, NDArray[np.int64]]:
        """Return the label and all members whose deletion changes it, ascending."""
        with self._workspace() as room:
            label = int(ask(self._nodes, x, room))
            left = np.sort(room.touched[: self._suspects(room, label)])
            found: list[int] = []
            while len(left):
                member = self._flip(x, room, label, left)
                if member < 0:
                    break
                found.append(member)
                left = left[np.searchsorted(left, member) + 1 :]
            return label, np.asarray(found, np.int64)

    def shares(self, x: Point, members: NDArray[np.int64]) -> Floats:
        """Return the forest's mean shares and those of some members, shape (1 + n, labels)."""
        with self._workspace() as room:
            ask(self._nodes, x, room)
            found = [room.total.copy()]
            for member in members.tolist():
                _member_label(self._nodes, self._deletions, room, x, member)
                found.append(room.other.copy())
            return np.array(found) / self._trees

    def dissenters(self, points: Floats, labels: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        return [self.flips(x)[1] for x in points]

    def ask_all(self, x: Point) -> None:
        """Do more than the most work any input needs.

        Each tree's path with the most changes is used, reachable together or not, and every member
        is asked.
        """
        with self._workspace() as room:
            label = int(ask(self._nodes, x, room))
            self._suspects(room, label, every=True)
            room.leaf[:] = self._lookup.busiest
            self._flip(x, room, label, self._everyone, every=True)

    def _suspects(self, room: Workspace, label: int, every: bool = False) -> int:
        return int(suspects(self._nodes, self._lookup, room, label, self._padding, every))

    def _flip(
        self, x: Point, room: Workspace, label: int, members: NDArray[np.int32], every: bool = False
    ) -> int:
        return int(find_flip(self._nodes, self._deletions, room, x, label, members, every))

    @contextmanager
    def _workspace(self) -> Iterator[Workspace]:
        """Lend working arrays to a thread; not reused after an error."""
        try:
            room = self._rooms.pop()
        except IndexError:
            room = make_workspace(self._nodes, len(self._everyone))
        yield room
        self._rooms.append(room)


def _lay_out_changes(family: ForestFamily, nodes: Nodes) -> tuple[Deletions, Lookup]:
    """Lay out the changes by deletions, per member and per node."""
    labels = nodes.shares.shape[1]
    ends = np.empty(len(nodes.feature), np.int64)
    most_below, least_below = np.empty_like(nodes.shares), np.empty_like(nodes.shares)
    extents(nodes, ends, most_below, least_below)
    deletions = deletions_of(family.changes, nodes, ends)
    most = np.empty((len(deletions.node), labels))
    least = np.empty_like(most)
    spans(nodes, deletions, most_below, least_below, most, least)
    # A member's shares in this tree, against those of the forest: never beyond these.
    gained = (most - least_below[deletions.node]).max(axis=1).clip(0.0)
    lost = (most_below[deletions.node] - least).max(axis=1).clip(0.0)
    member = np.repeat(np.arange(len(family), dtype=np.int32), np.diff(deletions.start))
    moved = np.bincount(member, gained + lost, minlength=len(family))
    reach = np.asarray(moved[member], np.float64)
    order = np.lexsort((-reach, deletions.node))
    at_node = np.bincount(deletions.node, minlength=len(nodes.feature))
    return deletions, Lookup(
        np.concatenate(([0], np.cumsum(at_node))),
        member[order],
        _round_up(reach[order]),
        _round_up(most[order]),
        -_round_up(-least[order]),
        _busiest_leaves(nodes, at_node),
    )


def _busiest_leaves(nodes: Nodes, at_node: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each tree's leaf whose path has the most changes."""
    on_path = at_node.copy()
    inner = nodes.feature >= 0
    # Level by level: parents are done before their children.
    at = nodes.first[:-1][inner[nodes.first[:-1]]]
    while len(at):
        below = np.concatenate((at + 1, nodes.right[at]))
        on_path[below] += np.tile(on_path[at], 2)
        at = below[inner[below]]
    leaves = np.where(inner, -1, on_path)
    sides = zip(nodes.first[:-1].tolist(), nodes.first[1:].tolist(), strict=True)
    return np.array([i + int(np.argmax(leaves[i:end])) for i, end in sides], np.int64)


def _round_up(values: Floats) -> NDArray[np.float32]:
    """Return float32 numbers that are at least the values."""
    singles = values.astype(np.float32)
    return np.where(singles < values, np.nextafter(singles, np.float32(np.inf)), singles)
