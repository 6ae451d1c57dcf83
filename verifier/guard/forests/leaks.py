"""Inputs whose answer some row's deletion changes, exactly, asking few rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.family import ForestFamily
from leaveout.verifier.guard.findings import Glance, LeakFinder, Point
from leaveout.verifier.guard.forests.kernels import ask, extents, find_flip, spans, suspects
from leaveout.verifier.guard.forests.layout import (
    Deletions,
    Lookup,
    Nodes,
    Workspace,
    deletions_of,
    make_workspace,
    nodes_of,
)

Floats = NDArray[np.float64]

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
