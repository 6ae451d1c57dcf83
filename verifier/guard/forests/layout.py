"""A forest and all its deletions as compiled loops read them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.family import Changes
from leaveout.models.forest.scored import ScoredForest

__all__ = ["Deletions", "Lookup", "Nodes", "Room", "deletions_of", "nodes_of", "room_for"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Places = NDArray[np.int64]


class Nodes(NamedTuple):
    """All trees, one after the other, each in preorder: a left child is the next node.

    Attributes
    ----------
    first : ndarray of int64, shape (trees + 1,)
        Where the nodes of each tree begin, and where the last end.
    feature : ndarray of int32, shape (nodes,)
        -1 for a leaf.
    threshold : ndarray of float64, shape (nodes,)
    right : ndarray of int64, shape (nodes,)
        The right child; -1 of a leaf.
    shares : ndarray of float64, shape (nodes, labels)
        Of leaves.
    """

    first: Places
    feature: NDArray[np.int32]
    threshold: Floats
    right: Places
    shares: Floats


class Deletions(NamedTuple):
    """What each row's deletion changes; see `Changes`, whose nodes of trees are counted there.

    Attributes
    ----------
    start : ndarray of int64, shape (members + 1,)
    tree : ndarray of int32, shape (changes,)
    node : ndarray of int64, shape (changes,)
        Among all nodes of the forest.
    end : ndarray of int64, shape (changes,)
        Where the nodes below that one end.
    root, feature, threshold, left, right, shares
        As in `Changes`.
    """

    start: Places
    tree: NDArray[np.int32]
    node: Places
    end: Places
    root: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: Floats
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    shares: Floats


class Lookup(NamedTuple):
    """The changes at each node, those of the members that change most first.

    Attributes
    ----------
    start : ndarray of int64, shape (nodes + 1,)
        Where the changes at each node begin.
    member : ndarray of int32, shape (changes,)
    reach : ndarray of float32, shape (changes,)
        By how much the member can move one label's sum of shares against another's, at most and
        anywhere, over all trees.
    most, least : ndarray of float32, shape (changes, labels)
        The greatest and the least share that what stands in for the node answers.
    busiest : ndarray of int64, shape (trees,)
        The leaf of each tree on whose path most changes lie.
    """

    start: Places
    member: NDArray[np.int32]
    reach: Singles
    most: Singles
    least: Singles
    busiest: Places


class Room(NamedTuple):
    """What one input is worked out in; of no two threads at once.

    Attributes
    ----------
    leaf : ndarray of int64, shape (trees,)
        That the input falls into.
    total, other : ndarray of float64, shape (labels,)
        Sums of shares, of the forest and of a member.
    gain : ndarray of float64, shape (members, labels)
        What a member may move each label's sum by against that of the answer; 0 between inputs.
    seen : ndarray of bool, shape (members,)
        Whether a member has a change here; False between inputs.
    touched : ndarray of int32, shape (members,)
        Those that have.
    """

    leaf: Places
    total: Floats
    other: Floats
    gain: Floats
    seen: NDArray[np.bool_]
    touched: NDArray[np.int32]


def nodes_of(forest: ScoredForest) -> Nodes:
    """Lay out a forest whose trees are in preorder.

    Raises
    ------
    ValueError
        If one is not.
    """
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
    """Lay out what deletions change; ``ends`` is where the nodes below each node end."""
    node = nodes.first[changes.tree] + changes.node
    return Deletions(
        changes.start, changes.tree, node, ends[node], changes.root, changes.feature,
        changes.threshold, changes.left, changes.right, changes.shares,
    )  # fmt: skip


def room_for(nodes: Nodes, members: int) -> Room:
    """Return room to work one input out in."""
    trees, labels = len(nodes.first) - 1, nodes.shares.shape[1]
    return Room(
        np.zeros(trees, np.int64), np.zeros(labels), np.zeros(labels), np.zeros((members, labels)),
        np.zeros(members, np.bool_), np.zeros(members, np.int32),
    )  # fmt: skip
