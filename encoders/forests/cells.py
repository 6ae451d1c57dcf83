"""Inputs as integer cells, cut at the thresholds of forests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.encoders.box import Box
from leaveout.kernel.forest_file import before_rounding

if TYPE_CHECKING:
    # Trees from files are searched without scikit-learn.
    from leaveout.models.forest.family import ForestFamily
    from leaveout.models.forest.scored import ScoredForest, ScoredTree

Codes = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Groups:
    """Features that jointly take listed rows, as codes."""

    of: Codes  # shape (features,): the group of each feature, -1 for none
    column_start: NDArray[np.int64]  # shape (groups + 1,)
    columns: Codes  # the features of each group, one group after another
    row_start: NDArray[np.int64]  # shape (groups + 1,)
    rows: Codes  # distinct rows of codes, flat
    values: tuple[Floats, ...]  # for each group: the values of each row of codes


_DIGITS = 12  # most decimals of an input chosen from a cell


@dataclass(frozen=True, eq=False)
class Cells:
    """A set of inputs cut at thresholds: each code of a feature stands for a value of the set."""

    most: Codes  # shape (features,): the greatest code of each feature
    start: NDArray[np.int64]  # shape (features + 1,): where each feature's values begin
    values: Floats  # the greatest value that each code stands for
    box: Box

    @cached_property
    def groups(self) -> Groups:
        """The listed rows of features that take them jointly, each once."""
        of = np.full(self.box.dimension, -1, np.int32)
        columns, rows, values = list[Codes](), list[Codes](), list[Floats]()
        for each in self.box.choices:
            X = np.tile(self.box.lower, (len(each), 1))
            X[:, each.columns] = each.values
            known, first = np.unique(self.codes(X)[:, each.columns], axis=0, return_index=True)
            of[each.columns] = len(columns)
            columns.append(each.columns.astype(np.int32))
            rows.append(known.astype(np.int32))
            values.append(each.values[first])
        return Groups(
            of, _starts(columns), _flat(columns), _starts(rows), _flat(rows), tuple(values)
        )  # fmt: skip

    def codes(self, X: Floats) -> Codes:
        """Return the codes of inputs of the set, shape (rows, features)."""
        found = np.empty(X.shape, np.int32)
        for at in range(X.shape[1]):
            cuts = self.values[self.start[at] : self.start[at + 1] - 1]
            found[:, at] = np.searchsorted(cuts, X[:, at])
        return found

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        """Draw inputs uniformly by code, shape (count, features)."""
        codes = rng.integers(0, self.most + 1, (count, len(self.most)))
        return self.box.nearest(self.values[self.start[:-1] + codes])

    def input(self, codes: Codes) -> Floats:
        """Return a short-decimal input with these codes, shape (features,)."""
        places = self.start[:-1] + codes
        x: Floats = self.values[places]
        below = np.where(codes > 0, self.values[np.maximum(places - 1, 0)], self.box.lower)
        middle = below + (x - below) / 2
        for digits in range(_DIGITS, -1, -1):
            short = np.round(middle, digits) + 0.0
            inside = (short >= self.box.lower) & (short <= self.box.upper)
            x = np.where(inside & (self.codes(short[None])[0] == codes), short, x)
        groups = self.groups
        for g, values in enumerate(groups.values):
            columns = groups.columns[groups.column_start[g] : groups.column_start[g + 1]]
            rows = groups.rows[groups.row_start[g] : groups.row_start[g + 1]]
            same = (rows.reshape(-1, len(columns)) == codes[columns]).all(axis=1)
            if not same.any():
                raise ValueError(f"no listed row of features {columns.tolist()} has these codes")
            x[columns] = values[same.argmax()]
        return x


def cut_box(box: Box, feature: NDArray[np.int32], threshold: Floats) -> tuple[Cells, Codes]:
    """Cut a set of inputs at the thresholds of tree nodes."""
    listed: dict[int, Floats] = {}
    for each in box.choices:
        for column, values in zip(each.columns.tolist(), each.values.T, strict=True):
            listed[column] = np.unique(values)
    cut = np.zeros(len(feature), np.int32)
    # 16-bit numbers are sorted in linear time.
    short = feature.astype(np.int16) if box.dimension < 2**15 else feature
    order = np.argsort(short, kind="stable")
    ends = np.searchsorted(short[order], np.arange(box.dimension + 1, dtype=short.dtype))
    lists = []
    for at in range(box.dimension):
        nodes = order[ends[at] : ends[at + 1]]
        below = threshold[nodes]
        if at in listed:
            place = np.searchsorted(listed[at], below, side="right") - 1
            below = np.where(place < 0, -np.inf, listed[at][np.maximum(place, 0)])
        cuts = np.unique(below[(below >= box.lower[at]) & (below < box.upper[at])])
        cut[nodes] = np.where(below < box.lower[at], -1, np.searchsorted(cuts, below))
        lists.append(np.append(cuts, box.upper[at]))
    sizes = np.array([len(each) for each in lists], np.int64)
    start = np.concatenate(([0], np.cumsum(sizes)))
    return Cells((sizes - 1).astype(np.int32), start, np.concatenate(lists), box), cut


def _starts(parts: list[Codes]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum([each.size for each in parts]))).astype(np.int64)


def _flat(parts: list[Codes]) -> Codes:
    return np.concatenate([np.zeros(0, np.int32), *(each.ravel() for each in parts)])


Longs = NDArray[np.int64]
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Split:
    """Nodes of trees, those of the whole forest first, each tree in preorder."""

    feature: NDArray[np.int32]  # shape (nodes,): -1 for a leaf
    cut: NDArray[np.int32]  # shape (nodes,): inputs whose code is at most this go left
    left: Longs  # shape (nodes,): of a leaf, ``left`` is its row of ``shares``
    right: Longs  # shape (nodes,): of a leaf, ``left`` is its row of ``shares``
    shares: Floats  # shape (answers, labels)


@dataclass(frozen=True, eq=False)
class Overlay:
    """The members of a family, overlaid on the forest they differ from."""

    cells: Cells
    nodes: Split
    roots: Longs  # shape (trees + 1,)
    start: Longs  # shape (members + 1,)
    tree: NDArray[np.int32]  # shape (changes,)
    node: Longs  # shape (changes,): node of the whole forest that the member replaces
    instead: Longs  # shape (changes,): the node that replaces it in the member
    divisors: tuple[int, int]
    labels: int  # both sides together


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Consecutive trees, with children indexed among all nodes."""

    feature: NDArray[np.int32]
    threshold: Floats
    left: Longs
    right: Longs
    shares: Floats
    roots: Longs


def overlay_family(family: ForestFamily, box: Box) -> Overlay:
    """Return a family over a box."""
    changes, count = family.changes, len(family.whole.trees)
    # The answers are the whole forest's leaves, then those of the changes.
    rounds = family.whole.rounds_inputs
    whole = _concatenate_trees(family.whole.trees, rounds)
    base, answers = len(whole.feature), len(whole.shares)
    root = _roots(family, whole.roots)
    leaf = changes.feature < 0
    left = np.where(changes.left >= 0, changes.left + base, root - 1 - changes.left)
    right = np.where(changes.right >= 0, changes.right + base, root - 1 - changes.right)
    left[leaf], right[leaf] = changes.left[leaf] + answers, -1
    instead = before_rounding(changes.threshold) if rounds else changes.threshold
    new = _Nodes(changes.feature, instead, left, right, changes.shares, whole.roots)
    cells, nodes = _cut_both(box, whole, new)
    _check_shares(nodes.shares)
    return Overlay(
        cells, nodes, whole.roots, changes.start, changes.tree,
        whole.roots[changes.tree] + changes.node, changes.root.astype(np.int64) + base,
        (count, count),
        nodes.shares.shape[1],
    )  # fmt: skip


def _cut_both(box: Box, whole: _Nodes, new: _Nodes) -> tuple[Cells, Split]:
    """Return trees before others over cells; children are indexed among both."""
    feature, threshold, left, right, shares = (
        np.concatenate((getattr(whole, name), getattr(new, name)))
        for name in ("feature", "threshold", "left", "right", "shares")
    )
    cells, cut = cut_box(box, feature.astype(np.int32), threshold)
    return cells, Split(feature.astype(np.int32), cut, left, right, shares)


def _roots(family: ForestFamily, roots: Longs) -> Longs:
    """Return the root of each changed node's tree, top down."""
    changes = family.changes
    found = np.zeros(len(changes.feature), np.int64)
    nodes, trees = changes.root, roots[changes.tree]
    while len(nodes):
        found[nodes] = trees
        inner = changes.feature[nodes] >= 0
        nodes, trees = nodes[inner], trees[inner]
        below = np.concatenate((changes.left[nodes], changes.right[nodes]))
        trees = np.concatenate((trees, trees))[below >= 0]
        nodes = below[below >= 0]
    return found


def overlay_two(
    one: ScoredForest, other: ScoredForest, box: Box, columns: tuple[Longs, Longs], labels: int
) -> Overlay:
    """Return two forests over a box, the second as the first one's only member."""
    count = max(len(one.trees), len(other.trees))
    sides = [
        _concatenate_trees(_pad_forest(each, count, at, labels), each.rounds_inputs)
        for each, at in zip((one, other), columns, strict=True)
    ]
    whole, new = sides
    base, answers = len(whole.feature), len(whole.shares)
    leaf = new.feature < 0
    left = np.where(leaf, new.left + answers, new.left + base)
    right = np.where(leaf, -1, new.right + base)
    cells, nodes = _cut_both(box, whole, replace(new, left=left, right=right))
    start, instead = _differences(nodes, whole.roots[:-1], new.roots[:-1] + base)
    changed = np.flatnonzero(instead >= 0)
    return Overlay(
        cells, nodes, whole.roots, np.array([0, len(changed)], np.int64),
        changed.astype(np.int32), start[changed], instead[changed],
        (len(one.trees), len(other.trees)), labels,
    )  # fmt: skip


def _differences(nodes: Split, whole: Longs, new: Longs) -> tuple[Longs, Longs]:
    """Return where pairs of trees first differ; equal subtrees of the new refer to the whole's."""
    levels: list[tuple[Longs, Longs, NDArray[np.bool_], NDArray[np.bool_]]] = []
    a, b = whole, new
    while len(a):
        inner = nodes.feature[a] >= 0
        alike = nodes.feature[a] == nodes.feature[b]
        split = inner & alike & (nodes.cut[a] == nodes.cut[b])
        same = ~inner & alike
        x, y = nodes.shares[nodes.left[a[same]]], nodes.shares[nodes.left[b[same]]]
        same[same] = (x == y).all(axis=1)
        levels.append((a, b, split, same))
        a, b = (
            np.stack((nodes.left[side[split]], nodes.right[side[split]]), 1).ravel()
            for side in (a, b)
        )
    equal = np.zeros(0, np.bool_)
    # For each pair at one depth: the first differences in their subtrees.
    first, second = _NONE, _NONE
    for a, b, split, same in reversed(levels):
        pairs = equal.reshape(-1, 2)
        at = np.flatnonzero(split)
        for side, children in enumerate((nodes.left, nodes.right)):
            back = at[pairs[:, side]]
            children[b[back]] = children[a[back]]
        below = np.where(pairs[:, 0], 1, 0)
        one = pairs[:, 0] ^ pairs[:, 1]
        here, there = a.copy(), b.copy()
        rows = np.arange(len(at))
        here[at[one]] = first.reshape(-1, 2)[rows, below][one]
        there[at[one]] = second.reshape(-1, 2)[rows, below][one]
        equal = same.copy()
        equal[at] = pairs.all(axis=1)
        first, second = here, there
    return np.where(equal, -1, first), np.where(equal, -1, second)


def _pad_forest(forest: ScoredForest, count: int, columns: Longs, labels: int) -> list[ScoredTree]:
    """Return a forest's trees over all labels, padded to a given number with zero trees."""
    trees = []
    for tree in forest.trees:
        shares = np.zeros((len(tree.feature), labels))
        shares[:, columns] = tree.shares
        _check_shares(tree.shares[tree.feature < 0])
        trees.append(replace(tree, shares=shares))
    none = np.full(1, -1, np.int32)
    zeros = replace(trees[0], feature=none, threshold=np.zeros(1), left=none, right=none,
                    shares=np.zeros((1, labels)))  # fmt: skip
    return trees + [zeros] * (count - len(trees))


def _check_shares(shares: Floats) -> Floats:
    """Refuse label shares without a well-defined maximum."""
    if not (np.isfinite(shares).all() and (shares >= 0).all() and (shares.max(axis=1) > 0).all()):
        raise ValueError("a leaf's shares must be finite and at least 0, one of them above 0")
    return shares


def _concatenate_trees(trees: Sequence[ScoredTree], rounds: bool) -> _Nodes:
    """Concatenate trees in preorder; only leaves have shares."""
    sizes = [len(tree.feature) for tree in trees]
    roots = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    base = np.repeat(roots[:-1], sizes)
    feature = np.concatenate([tree.feature for tree in trees]).astype(np.int32)
    leaf = feature < 0
    left = np.concatenate([tree.left for tree in trees]) + base
    right = np.concatenate([tree.right for tree in trees]) + base
    if not (left[~leaf] == np.flatnonzero(~leaf) + 1).all():
        raise ValueError("the nodes of a tree are not in preorder")
    threshold = np.concatenate([tree.threshold for tree in trees])
    return _Nodes(
        feature, before_rounding(threshold) if rounds else threshold,
        np.where(leaf, np.cumsum(leaf) - 1, left), np.where(leaf, -1, right),
        np.concatenate([tree.shares for tree in trees])[leaf], roots,
    )  # fmt: skip
