"""Plain arrays of a forest that depend only on its settings and present rows.

This form is what is saved and what is compared: two forests are the same if these arrays are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import kernel
from leaveout.models.forest.chance import trees_a_row
from leaveout.models.forest.table import Table
from leaveout.models.forest.tree_arrays import NODE, SMALL, Rules, Tree, attribute_of, total

Rows = int | Sequence[int] | NDArray[np.int64]
"""Names of rows."""


class Cached(NamedTuple):
    """Cached statistics of a tree in preorder, node by node."""

    node: NDArray[np.int32]  # shape (cached,)
    attribute: NDArray[np.int32]  # shape (cached,)
    values: NDArray[Any]  # shape (cached, 2): two adjacent values of the attribute
    counts: NDArray[np.int32]  # shape (cached, 3 labels)


@kernel
def unroll(table: Table, tree: Tree, random_depth: int, out: Cached) -> int:
    """List every cached statistic of a tree, or only count them if lists are empty."""
    node_of, attribute_of, values, counts = out
    counting = len(node_of) == 0
    labels = tree.counts.shape[1]
    found = 0
    depth = np.zeros(tree.used[0], np.int32)
    for node in range(tree.used[0]):
        here = tree.nodes[node]
        if here.feature < 0:
            continue
        depth[here.left] = depth[node] + 1
        depth[here.right] = depth[node] + 1
        if total(tree.counts[node]) <= SMALL:
            continue
        record = here.record
        at_random = depth[node] < random_depth
        at, attributes = record + 1, 1
        if not at_random:
            attributes = tree.arena[record]
        for _ in range(attributes):
            attribute, many = here.feature, 1
            if not at_random:
                attribute, many = tree.arena[at], tree.arena[at + 1]
                at += 2
            kind = table.kind[attribute]
            for _ in range(many):
                if not counting:
                    node_of[found], attribute_of[found] = node, attribute
                    if kind >= 0:
                        values[found, 0] = table.lows[attribute]
                        values[found, 1] = table.highs[attribute]
                    else:
                        first = record if at_random else at
                        start = table.level_start[-1 - kind]
                        values[found, 0] = table.levels[start + tree.arena[first]]
                        values[found, 1] = table.levels[start + tree.arena[first + 1]]
                    for c in range(labels):
                        low, one, two = np.int32(0), np.int32(0), np.int32(0)
                        if not at_random and kind >= 0:
                            low = tree.arena[at + c]
                            one, two = low, tree.counts[node, c] - low
                        elif not at_random:
                            low = tree.arena[at + 2 + c]
                            one = tree.arena[at + 2 + labels + c]
                            two = tree.arena[at + 2 + 2 * labels + c]
                        counts[found, c] = low
                        counts[found, labels + c] = one
                        counts[found, 2 * labels + c] = two
                found += 1
                if not at_random:
                    at += labels if kind >= 0 else 2 + 3 * labels
    return found


@kernel
def reroll(
    table: Table, tree: Tree, random_depth: int, depth: NDArray[np.int32], listed: Cached
) -> int:
    """Write a tree's records from coded lists; return the number of words."""
    node_of, attribute_of, codes, counts = listed
    counting = len(tree.arena) == 0
    labels = tree.counts.shape[1]
    at, i = 0, 0
    while i < len(node_of):
        node = node_of[i]
        record = at
        if depth[node] < random_depth:
            if table.kind[attribute_of[i]] < 0:
                if not counting:
                    tree.nodes[node].record = record
                    tree.arena[at], tree.arena[at + 1] = codes[i, 0], codes[i, 1]
                at += 2
            i += 1
            continue
        at += 1
        attributes = 0
        while i < len(node_of) and node_of[i] == node:
            attribute, head, many = attribute_of[i], at, 0
            kind = table.kind[attribute]
            at += 2
            while i < len(node_of) and node_of[i] == node and attribute_of[i] == attribute:
                if kind >= 0:
                    if not counting:
                        for c in range(labels):
                            tree.arena[at + c] = counts[i, c]
                    at += labels
                else:
                    if not counting:
                        tree.arena[at], tree.arena[at + 1] = codes[i, 0], codes[i, 1]
                        for c in range(3 * labels):
                            tree.arena[at + 2 + c] = counts[i, c]
                    at += 2 + 3 * labels
                many += 1
                i += 1
            if not counting:
                tree.arena[head], tree.arena[head + 1] = attribute, many
            attributes += 1
        if not counting:
            tree.arena[record] = attributes
            tree.nodes[node].record = record
    return at


@kernel
def recode(table: Table, tree: Tree, random_depth: int, new: NDArray[np.int32]) -> None:
    """Replace the codes in the records of a tree in preorder by those in ``new``."""
    labels = tree.counts.shape[1]
    depth = np.zeros(tree.used[0], np.int32)
    for node in range(tree.used[0]):
        here = tree.nodes[node]
        if attribute_of(here.feature) < 0:
            continue
        depth[here.left] = depth[node] + 1
        depth[here.right] = depth[node] + 1
        if here.record < 0:
            continue
        at = np.int64(here.record)
        if depth[node] < random_depth:
            start = table.level_start[-1 - table.kind[here.feature]]
            tree.arena[at] = new[start + tree.arena[at]]
            tree.arena[at + 1] = new[start + tree.arena[at + 1]]
            continue
        attributes = tree.arena[at]
        at += 1
        for _ in range(attributes):
            kind, many = table.kind[tree.arena[at]], tree.arena[at + 1]
            at += 2
            if kind >= 0:
                at += labels
                continue
            start = table.level_start[-1 - kind]
            for _ in range(many):
                tree.arena[at] = new[start + tree.arena[at]]
                tree.arena[at + 1] = new[start + tree.arena[at + 1]]
                at += 2 + 3 * labels


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings that, with the rows, determine a forest.

    Attributes
    ----------
    trees : int
    depth : int or None
        Deepest level of a leaf; None: no limit.
    thresholds : int
        k, the valid thresholds sampled an attribute.
    attributes : int
        How many attributes a greedy node considers.
    random_depth : int
        d_rmax, how many levels from the root hold random nodes.
    least : int
        Rows a node needs to be split.
    criterion : str
        ``gini`` or ``entropy``.
    seed : int
        Below 2^63.
    share : float
        q, the share of the trees that hold a row.
    """

    trees: int
    depth: int | None
    thresholds: int
    attributes: int
    random_depth: int
    least: int
    criterion: str
    seed: int
    share: float = 1.0

    @property
    def trees_a_row(self) -> int:
        """The number of trees that hold a row."""
        return trees_a_row(self.share, self.trees)

    @property
    def rules(self) -> Rules:
        """The settings in the kernels' form."""
        depth = np.iinfo(np.int32).max if self.depth is None else self.depth
        return Rules(
            self.thresholds, self.attributes, int(depth), self.random_depth, self.least,
            self.criterion == "entropy",
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class PlainTree:
    """A tree with its nodes in preorder.

    Attributes
    ----------
    feature : ndarray of int32, shape (nodes,)
        The attribute a node splits on; -1 for a leaf.
    threshold : ndarray of float64, shape (nodes,)
        A row whose value is at most the threshold goes left; 0 for a leaf.
    left, right : ndarray of int32, shape (nodes,)
        Children; -1 for a leaf.
    counts : ndarray of int32, shape (nodes, labels)
        Rows of each label.
    rows : ndarray of int32, shape (rows of the tree,)
        The rows of the leaves, one leaf after another, ascending in each; numbered among the
        rows present.
    cached_node, cached_attribute : ndarray of int32, shape (cached,)
        Which node caches a statistic, of which attribute.
    cached_values : ndarray of float64, shape (cached, 2)
        Two adjacent values of the attribute, or in a random node the least and the greatest.
    cached_counts : ndarray of int32, shape (cached, 3 labels)
        Rows of each label that are at most the first value, at the first, at the second; 0 in a
        random node.
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    counts: NDArray[np.int32]
    rows: NDArray[np.int32]
    cached_node: NDArray[np.int32]
    cached_attribute: NDArray[np.int32]
    cached_values: NDArray[np.float64]
    cached_counts: NDArray[np.int32]

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """Label shares in each node, shape (nodes, labels).

        Equal ones in a tree without rows, which is a leaf.
        """
        sizes = self.counts.sum(axis=1, keepdims=True)
        shares: NDArray[np.float64] = self.counts / np.maximum(sizes, 1)
        shares[sizes[:, 0] == 0] = 1.0 / self.counts.shape[1]
        return shares

    @property
    def depths(self) -> NDArray[np.int32]:
        """Depth of each node; the root's is 0."""
        depths = np.zeros(len(self.feature), np.int32)
        for node in np.flatnonzero(self.feature >= 0):
            depths[self.left[node]] = depths[self.right[node]] = depths[node] + 1
        return depths


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows that leave together: those with equal cells of a column.

    Attributes
    ----------
    column : str
        Such as ``patient``.
    cells : ndarray of str, shape (rows,)
    """

    column: str
    cells: NDArray[np.str_]

    def take(self, places: NDArray[np.int64]) -> Groups:
        """Return the groups of some rows, whatever the others were called."""
        return Groups(self.column, np.array(self.cells[places].tolist(), np.str_))

    def extend(self, cells: NDArray[np.str_]) -> Groups:
        """Return the groups with further rows."""
        return Groups(self.column, np.concatenate((self.cells, cells)))


@dataclass(frozen=True, eq=False)
class Ensemble:
    """A forest as plain arrays.

    Attributes
    ----------
    settings : Settings
    classes : ndarray, shape (labels,)
        The labels, ascending.
    names : ndarray of int64, shape (rows,)
        The rows it holds, ascending.
    X : ndarray of float64, shape (rows, attributes)
    y : ndarray of int32, shape (rows,)
        Which of ``classes``.
    trees : tuple of PlainTree
    next_name : int
        What the next row added is called. It tells of rows that were there once; nothing else
        depends on it, and it takes no part in comparisons.
    groups : Groups or None
        Which rows leave together; None: each leaves alone.
    """

    settings: Settings
    classes: NDArray[np.generic]
    names: NDArray[np.int64]
    X: NDArray[np.float64]
    y: NDArray[np.int32]
    trees: tuple[PlainTree, ...]
    next_name: int
    groups: Groups | None = None

    @property
    def units(self) -> NDArray[np.int64]:
        """What each row leaves with, numbered in the order of first rows; shape (rows,)."""
        if self.groups is None:
            return np.arange(len(self.names))
        _, first, unit = np.unique(self.groups.cells, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[unit.reshape(-1)]

    @property
    def unit_names(self) -> NDArray[np.int64]:
        """What can leave, each named by its first row, ascending."""
        return self.names[np.unique(self.units, return_index=True)[1]]


def plain_tree(table: Table, rules: Rules, tree: Tree, number: NDArray[np.int32]) -> PlainTree:
    """Return a tree in preorder as plain arrays; ``number`` renames slots."""
    size, labels = int(tree.used[0]), tree.counts.shape[1]
    nodes, counts = tree.nodes[:size], tree.counts[:size].copy()
    feature = nodes["feature"].copy()
    leaf = feature < 0
    found = unroll(table, tree, rules.random_depth, _lists(0, labels))
    cached = _lists(found, labels)
    if found:
        unroll(table, tree, rules.random_depth, cached)
    places = tree.rows[: nodes["span"][0]]
    rows = number[places[places >= 0]]
    leaves = np.repeat(np.arange(int(leaf.sum())), counts[leaf].sum(axis=1))
    return PlainTree(
        feature, np.where(leaf, 0.0, nodes["threshold"]),
        np.where(leaf, np.int32(-1), nodes["left"]), np.where(leaf, np.int32(-1), nodes["right"]),
        counts, rows[np.lexsort((rows, leaves))], *cached,
    )  # fmt: skip


def _lists(size: int, labels: int) -> Cached:
    return Cached(
        np.empty(size, np.int32), np.empty(size, np.int32), np.empty((size, 2)),
        np.empty((size, 3 * labels), np.int32),
    )  # fmt: skip


def tree_from(table: Table, rules: Rules, plain: PlainTree, slack: int) -> Tree:
    """Return the working form of a tree on a table whose slots are the rows present."""
    size, (_, labels) = len(plain.feature), plain.counts.shape
    leaf = plain.feature < 0
    nodes = np.zeros(size + slack, NODE)
    nodes["feature"][:size], nodes["threshold"][:size] = plain.feature, plain.threshold
    nodes["left"][:size], nodes["right"][:size] = plain.left, plain.right
    nodes["record"] = -1
    sizes = plain.counts.sum(axis=1)
    before = np.concatenate(([0], np.cumsum(np.where(leaf, sizes, 0))[:-1]))
    nodes["start"][:size], nodes["span"][:size] = before, sizes
    counts = np.empty((size + slack, labels), np.int32)
    counts[:size] = plain.counts
    where = np.full(len(table.labels), -1, np.int32)
    where[plain.rows] = np.arange(len(plain.rows))
    codes = np.zeros(plain.cached_values.shape, np.int32)
    for g, attribute in enumerate(table.general_attribute):
        mine = plain.cached_attribute == attribute
        levels = table.levels[table.level_start[g] : table.level_start[g + 1]]
        wanted = plain.cached_values[mine]
        places = np.minimum(np.searchsorted(levels, wanted), len(levels) - 1)
        if not np.array_equal(levels[places], wanted):
            raise KeyError(int(attribute))
        codes[mine] = places
    depths = plain.depths
    used = np.array([size, 0, 0], np.int64)
    tree = Tree(nodes, counts, np.empty(0, np.int32), plain.rows.copy(), where, used)
    cached = Cached(plain.cached_node, plain.cached_attribute, codes, plain.cached_counts)
    words = int(reroll(table, tree, rules.random_depth, depths, cached))
    tree = tree._replace(arena=np.empty(words + slack, np.int32))
    reroll(table, tree, rules.random_depth, depths, cached)
    used[1] = words
    return tree


def kind_digest(ensemble: Ensemble) -> str:
    """Return a digest of what changes never touch: settings, seed, features and labels."""
    hashed = hashlib.sha256(msgspec.json.encode(ensemble.settings))
    hashed.update(f" {ensemble.X.shape[1]} ".encode())
    hashed.update(msgspec.json.encode(ensemble.classes.tolist()))
    return hashed.hexdigest()


def forest_digest(ensemble: Ensemble) -> str:
    """Return a digest of a forest and its rows; equal forests have equal digests."""
    hashed = hashlib.sha256(kind_digest(ensemble).encode())
    _put(hashed, ensemble.names, ensemble.X, ensemble.y)
    if ensemble.groups is not None:
        _put(hashed, np.array([ensemble.groups.column]), ensemble.groups.cells)
    for tree in ensemble.trees:
        _put(hashed, tree.feature, tree.threshold, tree.left, tree.right, tree.counts)
    return hashed.hexdigest()


def _put(hashed: Any, *arrays: NDArray[Any]) -> None:
    for array in arrays:
        hashed.update(f"{array.dtype.str} {array.shape}\n".encode())
        hashed.update(np.ascontiguousarray(array).tobytes())
