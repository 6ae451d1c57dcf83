"""The leave-one-out family of a forest by its definition: every row deleted, trees compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.family import Changes, ForestFamily, of_tree
from leaveout.models.forest.scored import ScoredForest, ScoredTree

__all__ = ["family_by_deleting", "member_by_deleting"]


def member_by_deleting(forest: DareForestClassifier, row: int) -> ScoredForest:
    """Return the forest without a row, over the labels of the whole."""
    whole, left = forest.ensemble(), forest.unlearn([row]).ensemble()
    place = {label: i for i, label in enumerate(whole.classes.tolist())}
    columns = [place[label] for label in left.classes.tolist()]
    trees = []
    for tree in ScoredForest.of(left).trees:
        shares = np.zeros((len(tree.feature), len(whole.classes)))
        shares[:, columns] = tree.shares
        trees.append(ScoredTree(tree.feature, tree.threshold, tree.left, tree.right, shares))
    return ScoredForest(tuple(trees), whole.classes, rounds_inputs=False)


def family_by_deleting(forest: DareForestClassifier) -> ForestFamily:
    """Return ``leave_one_out`` of a small forest, by deleting every row of it in turn."""
    whole = ScoredForest.of(forest.ensemble())
    rows = forest.rows_
    pool = _Pool(len(whole.classes))
    for row in rows.tolist():
        member = member_by_deleting(forest, row)
        for at, (tree, other) in enumerate(zip(whole.trees, member.trees, strict=True)):
            pool.compare(at, tree, other)
        pool.start.append(len(pool.tree))
    return ForestFamily(whole, rows, pool.changes())


class _Pool:
    """Changes, collected."""

    def __init__(self, labels: int) -> None:
        self.labels = labels
        self.start: list[int] = [0]
        self.tree: list[int] = []
        self.node: list[int] = []
        self.root: list[int] = []
        self.nodes: list[tuple[int, float, int, int]] = []
        self.shares: list[NDArray[np.float64]] = []

    def compare(self, at: int, tree: ScoredTree, other: ScoredTree) -> None:
        """Find the first node, from the root down, at which trees are not the same."""
        node, new = 0, 0
        while True:
            if _equal(tree, node, other, new):
                return
            same = tree.feature[node] >= 0 and _split(tree, node) == _split(other, new)
            if not same:
                break
            left = _equal(tree, int(tree.left[node]), other, int(other.left[new]))
            right = _equal(tree, int(tree.right[node]), other, int(other.right[new]))
            if not left and not right:
                break
            node = int(tree.right[node] if left else tree.left[node])
            new = int(other.right[new] if left else other.left[new])
        self.tree.append(at)
        self.node.append(node)
        self.root.append(self._copy(tree, node, other, new))

    def _copy(self, tree: ScoredTree, node: int | None, other: ScoredTree, new: int) -> int:
        """Write a node of the other tree; nodes below that are equal lead back to the tree."""
        here = len(self.nodes)
        self.nodes.append((-1, 0.0, -1, -1))
        if other.feature[new] < 0:
            self.shares.append(other.shares[new])
            self.nodes[here] = (-1, 0.0, len(self.shares) - 1, -1)
            return here
        children = []
        inner = node is not None and tree.feature[node] >= 0
        for name in ("left", "right"):
            old = int(getattr(tree, name)[node]) if inner else None
            child = int(getattr(other, name)[new])
            if old is not None and _equal(tree, old, other, child):
                children.append(of_tree(old))
            else:
                children.append(self._copy(tree, old, other, child))
        self.nodes[here] = (*_split(other, new), children[0], children[1])
        return here

    def changes(self) -> Changes:
        feature, threshold, left, right = zip(*self.nodes, strict=True) if self.nodes else [()] * 4
        shares = np.array(self.shares).reshape(len(self.shares), self.labels)
        return Changes(
            np.array(self.start, np.int64), np.array(self.tree, np.int32),
            np.array(self.node, np.int32), np.array(self.root, np.int32),
            np.array(feature, np.int32), np.array(threshold, np.float64),
            np.array(left, np.int32), np.array(right, np.int32), shares,
        )  # fmt: skip


def _split(tree: ScoredTree, node: int) -> tuple[int, float]:
    return int(tree.feature[node]), float(tree.threshold[node])


def _equal(tree: ScoredTree, node: int, other: ScoredTree, new: int) -> bool:
    """Whether two subtrees answer alike, node by node."""
    stack = [(node, new)]
    while stack:
        a, b = stack.pop()
        if tree.feature[a] != other.feature[b]:
            return False
        if tree.feature[a] < 0:
            if not np.array_equal(tree.shares[a], other.shares[b]):
                return False
            continue
        if tree.threshold[a] != other.threshold[b]:
            return False
        stack += [
            (int(tree.left[a]), int(other.left[b])), (int(tree.right[a]), int(other.right[b])),
        ]  # fmt: skip
    return True
