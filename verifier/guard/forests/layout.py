"""A forest and all its deletions, laid out for compiled loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.family import Changes
from leaveout.models.forest.scored import ScoredForest

Floats = NDArray[np.float64]
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
