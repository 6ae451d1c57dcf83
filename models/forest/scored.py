"""A forest in the form that answers: splits, and label shares in the leaves.

This form is what a search over inputs needs, of whatever kind the forest is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.models.forest.plain import Ensemble, PlainTree


@dataclass(frozen=True, eq=False)
class ScoredTree:
    """A tree; node 0 is the root, and nodes are in preorder.

    Attributes
    ----------
    feature : ndarray of int32, shape (nodes,)
        The feature a node splits on; -1 for a leaf.
    threshold : ndarray of float64, shape (nodes,)
        A value of at most the threshold goes left; 0 for a leaf.
    left, right : ndarray of int32, shape (nodes,)
        Children; -1 for a leaf.
    shares : ndarray of float64, shape (nodes, labels)
        What a leaf adds to each label's sum. Those of other nodes are never read.
    """

    feature: NDArray[np.int32]
    threshold: Floats
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    shares: Floats


@dataclass(frozen=True, eq=False)
class ScoredForest:
    """A forest that sums its trees' shares in order, then divides by their number.

    Attributes
    ----------
    trees : tuple of ScoredTree
        In the order in which a prediction adds them.
    classes : ndarray, shape (labels,)
        The labels, ascending.
    rounds_inputs : bool
        Whether a value is rounded to float32 before it is compared with a threshold.
    """

    trees: tuple[ScoredTree, ...]
    classes: NDArray[np.generic]
    rounds_inputs: bool

    @classmethod
    def of(cls, ensemble: Ensemble) -> Self:
        """Return the scored form of an exact forest."""
        trees = tuple(
            ScoredTree(tree.feature, tree.threshold, tree.left, tree.right, tree.probabilities)
            for tree in ensemble.trees
        )
        return cls(trees, ensemble.classes, rounds_inputs=False)

    def probabilities(self, X: Floats) -> Floats:
        """Return label shares at inputs, float for float as the forest computes them.

        Float for float: the trees' shares are added one after the other, from 0 on, and the sum
        is divided once.

        Parameters
        ----------
        X : ndarray of float64, shape (rows, features)
            Numbers, none of them missing.

        Returns
        -------
        ndarray of float64, shape (rows, labels)
        """
        X = round_to_float32(X) if self.rounds_inputs else X
        total = np.zeros((len(X), len(self.classes)))
        for tree in self.trees:
            total += tree.shares[leaves_of(tree, X)]
        mean: Floats = total / len(self.trees)
        return mean


def round_to_float32(X: Floats) -> Floats:
    """Return the nearest float32 values, ties to even; infinite beyond the range."""
    with np.errstate(over="ignore"):
        return X.astype(np.float32).astype(np.float64)


def leaves_of(tree: PlainTree | ScoredTree, X: Floats) -> NDArray[np.int64]:
    """Return the leaf of each input, shape (rows,), without rounding inputs."""
    node = np.zeros(len(X), np.int64)
    moving = np.flatnonzero(tree.feature[node] >= 0)
    while len(moving):
        at = node[moving]
        right = X[moving, tree.feature[at]] > tree.threshold[at]
        node[moving] = np.where(right, tree.right[at], tree.left[at])
        moving = moving[tree.feature[node[moving]] >= 0]
    return node
