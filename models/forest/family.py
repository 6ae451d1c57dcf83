"""All forests with one row less, stored as the changes each deletion makes.

A deletion changes a tree along one path. Above the first node that answers otherwise, and beside
the path, the tree stands; so a member is kept as one node a tree that something else stands in
for, and what that is: nodes of its own, whose children may be nodes of the tree again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.compiling import scalar
from leaveout.models.forest.scored import ScoredForest, ScoredTree

Floats = NDArray[np.float64]


@scalar
def of_tree(node: int) -> int:
    """Return the reference by which `Changes` names a node of the original tree."""
    return -1 - node


@dataclass(frozen=True, eq=False)
class Changes:
    """What deletions change: per member and tree at most one replaced node.

    Attributes
    ----------
    start : ndarray of int64, shape (members + 1,)
        Where the changes of each member begin, and where the last end.
    tree : ndarray of int32, shape (changes,)
        Ascending among those of a member, each once.
    node : ndarray of int32, shape (changes,)
        The node of that tree, in preorder, below which and at which alone answers change.
    root : ndarray of int32, shape (changes,)
        What stands in for it: one of the nodes below.
    feature : ndarray of int32, shape (nodes,)
        -1 for a leaf.
    threshold : ndarray of float64, shape (nodes,)
        An input whose feature is at most the threshold goes left; 0 for a leaf.
    left, right : ndarray of int32, shape (nodes,)
        Children: from 0 on, one of these nodes; below 0, node ``-1 - child`` of the member's tree
        as it was. Of a leaf, ``left`` is which of the ``shares`` it answers with, ``right`` -1.
    shares : ndarray of float64, shape (answers, labels)
        Shares of labels, each once.
    """

    start: NDArray[np.int64]
    tree: NDArray[np.int32]
    node: NDArray[np.int32]
    root: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: Floats
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    shares: Floats

    @property
    def bytes(self) -> int:
        """The memory the changes take, in bytes."""
        return sum(getattr(self, name).nbytes for name in self.__dataclass_fields__)


@dataclass(frozen=True, eq=False)
class ForestFamily:
    """Leave-one-out family of an exact forest, one member a deleted row.

    Attributes
    ----------
    whole : ScoredForest
        The forest itself.
    removed : ndarray of int64, shape (members,)
        The name of the row that each member lacks, ascending.
    changes : Changes
    """

    whole: ScoredForest
    removed: NDArray[np.int64]
    changes: Changes

    def __len__(self) -> int:
        return len(self.removed)

    def changed(self, member: int) -> Iterator[tuple[int, int, int]]:
        """Yield each tree in which a member differs, the node, and its replacement."""
        changes = self.changes
        for i in range(changes.start[member], changes.start[member + 1]):
            yield int(changes.tree[i]), int(changes.node[i]), int(changes.root[i])

    def member(self, member: int) -> ScoredForest:
        """Return a member as a separate forest that shares unchanged trees.

        Labels are those of the whole forest, also where the row was the last of its label.
        """
        trees = list(self.whole.trees)
        for tree, node, root in self.changed(member):
            trees[tree] = _replace_node(trees[tree], node, self.changes, root)
        return ScoredForest(tuple(trees), self.whole.classes, self.whole.rounds_inputs)


def _replace_node(tree: ScoredTree, at: int, changes: Changes, root: int) -> ScoredTree:
    """Return a tree in preorder with one node replaced."""
    feature: list[int] = []
    threshold: list[float] = []
    children: list[list[int]] = []
    shares: list[Floats] = []
    none = np.zeros(tree.shares.shape[1])
    # Of each node to be copied: what it is, its parent's new number, and its side.
    stack = [(of_tree(0), -1, 0)]
    while stack:
        which, parent, side = stack.pop()
        if which == of_tree(at):
            which = root
        here = len(feature)
        if parent >= 0:
            children[parent][side] = here
        if which >= 0:
            split, cut = int(changes.feature[which]), float(changes.threshold[which])
            below = int(changes.left[which]), int(changes.right[which])
            answer = changes.shares[below[0]] if split < 0 else none
        else:
            node = -1 - which
            split, cut = int(tree.feature[node]), float(tree.threshold[node])
            below = of_tree(int(tree.left[node])), of_tree(int(tree.right[node]))
            answer = tree.shares[node] if split < 0 else none
        feature.append(split)
        threshold.append(cut if split >= 0 else 0.0)
        children.append([-1, -1])
        shares.append(answer)
        if split >= 0:
            stack += [(below[1], here, 1), (below[0], here, 0)]
    both = np.array(children, np.int32)
    return ScoredTree(
        np.array(feature, np.int32), np.array(threshold), both[:, 0].copy(), both[:, 1].copy(),
        np.array(shares),
    )  # fmt: skip
