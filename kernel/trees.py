"""Ensembles of trees whose leaves are summed: one language for what many libraries train.

A tree asks of one feature at a time. Every question is put in one form, whatever the library's own
comparison and type: of a number, whether it is at most a float64 threshold; of a category, whether
it is in a set; a missing value (NaN) goes where the node says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .numbers import Floats, need

Bools = NDArray[np.bool_]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

_AT_ONCE = 2**20  # nodes looked at together: pairs of an input and a tree


def first_leaves(roots: Longs, feature: Ints) -> Longs:
    """Return the rows of leaves where each tree begins, and the number of rows."""
    return np.asarray(np.concatenate(([0], np.cumsum(feature < 0)))[roots])


def greatest(roots: Longs, feature: Ints, values: Floats) -> Floats:
    """Return the greatest value of each tree's leaves, shape (trees, columns)."""
    return np.asarray(np.maximum.reduceat(values, first_leaves(roots, feature)[:-1]))


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of all trees, one tree after another, each in preorder.

    A number of at most the threshold goes left; a category goes left if it is in the node's set.
    The category of a number is its whole part; those below 0 or the threshold, or beyond the
    columns of the set, count as others.
    """

    roots: Longs  # shape (trees + 1,): where each tree begins; last the number of nodes
    feature: Ints  # shape (nodes,): what a node asks of; -1 for a leaf
    threshold: Floats  # shape (nodes,): 0 for leaves
    missing_left: Bools  # shape (nodes,): whether a missing value goes left
    set: Ints  # shape (nodes,): row of ``sets`` of a question about a category, else -1
    left: Longs  # shape (nodes,): among all nodes; of a leaf its row of ``values``, in order
    right: Longs  # shape (nodes,)
    sets: Bools  # shape (sets, categories + 1): those that go left; the last column is for others
    values: Floats  # shape (leaves, scores): what a leaf adds to each score

    def check(self, features: int) -> None:
        """Reject what are not trees over that many features."""
        size, inner = len(self.feature), self.feature >= 0
        roots, leaves = self.roots, int((~inner).sum())
        parts = (self.threshold, self.missing_left, self.set, self.left, self.right)
        need(all(each.shape == (size,) for each in parts), "arrays of nodes that differ in length")
        need(len(roots) > 1 and roots[0] == 0 and roots[-1] == size, "trees without a first node")
        need((roots[1:] > roots[:-1]).all(), "a tree without nodes")
        need((self.feature >= -1) & (self.feature < features), "a feature that does not exist")
        need(~np.isnan(self.threshold), "a threshold that is not a number")
        need((self.set >= -1) & (self.set < len(self.sets)), "a set that does not exist")
        need(np.isfinite(self.values), "a leaf whose value is not finite")
        need(len(self.values) == leaves, "as many values as leaves")
        need((self.left[~inner] == np.arange(leaves)).all(), "leaves out of order")
        above, end = np.flatnonzero(inner), np.repeat(roots[1:], np.diff(roots))
        need((self.left[above] == above + 1).all(), "nodes that are not in preorder")
        children = np.concatenate((self.left[above], self.right[above]))
        need((children > np.tile(above, 2)).all(), "a child before its parent")
        need((children < np.tile(end[above], 2)).all(), "a child in another tree")
        once = np.bincount(children, minlength=size)
        once[roots[:-1]] += 1
        need((once == 1).all(), "a node with two parents or none")

    def leaves(self, X: Floats) -> Longs:
        """Return the row of ``values`` that each tree gives each input, shape (rows, trees)."""
        node = np.tile(self.roots[:-1], (len(X), 1))
        moving = np.flatnonzero(self.feature[node.ravel()] >= 0)
        flat, trees = node.reshape(-1), node.shape[1]
        while len(moving):
            at = flat[moving]
            goes = self.goes_left(at, X[moving // trees, self.feature[at]])
            flat[moving] = np.where(goes, self.left[at], self.right[at])
            moving = moving[self.feature[flat[moving]] >= 0]
        return self.left[flat].reshape(node.shape)

    def goes_left(self, nodes: Longs, values: Floats) -> Bools:
        """Return whether values of their features go left at inner nodes."""
        goes = values <= self.threshold[nodes]
        sets = self.set[nodes]
        asks = np.flatnonzero(sets >= 0)
        if len(asks):
            others = self.sets.shape[1] - 1
            whole = np.trunc(values[asks])
            known = (values[asks] >= self.threshold[nodes[asks]]) & (whole >= 0) & (whole < others)
            goes[asks] = self.sets[sets[asks], np.where(known, whole, others).astype(np.int64)]
        return np.asarray(np.where(np.isnan(values), self.missing_left[nodes], goes))


@dataclass(frozen=True, eq=False)
class Ensemble:
    """A model that sums trees.

    ``scores = (base + tree 0 + tree 1 + ...) / divisor``, each step rounded. A classifier answers
    the label with the greatest score, the first of several; with one score and two labels the
    second where the score is above ``center``.
    """

    nodes: Nodes
    base: Floats  # shape (scores,): what a sum begins with
    labels: tuple[str, ...]  # of a classifier; empty for a regression
    features: int
    names: tuple[str, ...] = ()  # of the features; empty if unknown
    divisor: int = 1  # the number of trees where their mean is the score; else 1
    single: bool = False  # whether sums are rounded to float32 instead of float64
    ordered: bool = True  # whether the library adds in this order: scores are equal bit for bit
    slack: float = 0.0  # what the library's sums may err further than by their order
    link: str = "identity"  # made of scores: ``identity``, ``sigmoid``, ``softmax``, ``exp``
    center: float = 0.0
    # Where two labels' scores are no further apart (or one is from the center), the library may
    # answer either, since the link rounds.
    tie: float = 0.0
    # Whether the library rounds inputs to float32. Thresholds are of inputs before that; categories
    # are those of rounded inputs.
    rounds_inputs: bool = False
    whole_categories: bool = False  # whether fractions count as others, not by their whole part
    source: str = ""  # the library and the kind of model, for messages

    @property
    def trees(self) -> int:
        """The number of trees."""
        return len(self.nodes.roots) - 1

    def scores(self, X: Floats) -> Floats:
        """Return inputs' scores before the link, in the order of the trees; NaN is missing."""
        found, values = np.empty((len(X), len(self.base))), self.nodes.values.astype(self._kind)
        X = self.prepare(X)
        for at in self._parts(len(X)):
            found[at] = self.add(values[leaf] for leaf in self.nodes.leaves(X[at]).T)
        return found

    @property
    def _kind(self) -> Any:
        return np.float32 if self.single else np.float64

    def add(self, values: Iterable[Floats]) -> Floats:
        """Return the scores of what each tree adds, in order."""
        total = self.base.astype(self._kind)
        for each in values:
            total = total + each.astype(self._kind, copy=False)
        return np.asarray((total / self._kind(self.divisor)).astype(np.float64))

    def answers(self, X: Floats) -> NDArray[np.int64]:
        """Return the index of each input's label, shape (rows,)."""
        scores = self.scores(X)
        if scores.shape[1] == 1:
            return (scores[:, 0] > self.center).astype(np.int64)
        return np.asarray(scores.argmax(axis=1))

    @property
    def most(self) -> Floats:
        """The sum of the greatest magnitudes that a score can be made of, shape (scores,)."""
        own = greatest(self.nodes.roots, self.nodes.feature, np.abs(self.nodes.values))
        return np.asarray(np.abs(self.base) + own.sum(axis=0))

    def rounding(self) -> Floats:
        """Return how far a library's score can be from its exact value, shape (scores,).

        With u the unit roundoff, n + 1 terms added err by at most n u / (1 - n u) times the sum of
        their magnitudes, in any order; a division by the number of trees rounds once more.
        """
        unit = 2.0**-24 if self.single else 2.0**-53
        steps = (self.trees + 2) * unit
        # Underflow of a float32 conversion or division, and of the bound's own arithmetic.
        tiny = (self.trees + 2) * (2.0**-149 if self.single else 2.0**-1074)
        found: Floats = self.most / self.divisor * (steps / (1.0 - steps)) * (1.0 + 2.0**-30)
        return found + tiny + self.slack

    @property
    def is_exact(self) -> bool:
        """Whether the library's scores are those computed here, bit for bit."""
        return self.ordered and self.slack == 0.0

    def adds_as(self, other: Ensemble, score: int) -> bool:
        """Return whether a score is summed as another's: rising with the values of trees.

        Sums in one order are monotone in their terms, and so is the division: where no tree's
        value is above that of its counterpart, neither is the score as computed.
        """
        return (
            self.is_exact and other.is_exact and self.trees == other.trees
            and (self.single, self.divisor) == (other.single, other.divisor)
            and bool(self.base[score] == other.base[score])
        )  # fmt: skip

    @property
    def categories(self) -> Longs:
        """The features that are asked for categories."""
        return np.unique(self.nodes.feature[self.nodes.set >= 0])

    def goes_left(self, node: int, values: Floats) -> Bools:
        """Return which values of its feature an inner node sends left."""
        if self.nodes.set[node] >= 0:
            values = self._as_categories(values)
        return self.nodes.goes_left(np.full(len(values), node), values)

    def _as_categories(self, values: Floats) -> Floats:
        """Return categories as the library sees them."""
        if self.rounds_inputs:
            with np.errstate(over="ignore"):
                values = values.astype(np.float32).astype(np.float64)
        if self.whole_categories:
            values = np.where(np.isnan(values) | (values == np.trunc(values)), values, -1.0)
        return values

    def prepare(self, X: Floats) -> Floats:
        """Return inputs with categories as the library sees them."""
        at = self.categories
        if not len(at) or not (self.rounds_inputs or self.whole_categories):
            return X
        X = X.copy()
        X[:, at] = self._as_categories(X[:, at])
        return X

    def _parts(self, rows: int) -> Iterator[Any]:
        step = max(1, _AT_ONCE // max(1, self.trees))
        for first in range(0, rows, step):
            yield slice(first, first + step)
