"""All forests with one row less, stored as the changes each deletion makes.

A deletion changes a tree along one path. Above the first node that answers otherwise, and beside
the path, the tree stands; so a member is kept as one node a tree that something else stands in
for, and what that is: nodes of its own, whose children may be nodes of the tree again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.compiling import subroutine
from leaveout.errors import ForestError
from leaveout.models.archive import (
    MANIFEST,
    manifest_array,
    read_archive,
    read_manifest,
    write_archive,
)
from leaveout.models.forest.plain import Ensemble, forest_digest
from leaveout.models.forest.scored import ScoredForest, ScoredTree


@subroutine
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
        The name of the row that each member lacks, ascending; of a group's rows the first.
    changes : Changes
    """

    whole: ScoredForest
    removed: NDArray[np.int64]
    changes: Changes

    def __len__(self) -> int:
        return len(self.removed)

    def changed_trees(self, member: int) -> Iterator[tuple[int, int, int]]:
        """Yield each tree in which a member differs, the node, and its replacement."""
        changes = self.changes
        for i in range(changes.start[member], changes.start[member + 1]):
            yield int(changes.tree[i]), int(changes.node[i]), int(changes.root[i])

    def member(self, member: int) -> ScoredForest:
        """Return a member as a separate forest that shares unchanged trees.

        Labels are those of the whole forest, also where the row was the last of its label.
        """
        trees = list(self.whole.trees)
        for tree, node, root in self.changed_trees(member):
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


PURPOSE = "deletions of a forest"
"""Of the mark that the file bears."""

_VERSION = 1
_REMOVED = "removed"
_PARTS: dict[str, tuple[str, int]] = {
    "start": ("<i8", 1), "tree": ("<i4", 1), "node": ("<i4", 1), "root": ("<i4", 1),
    "feature": ("<i4", 1), "threshold": ("<f8", 1), "left": ("<i4", 1), "right": ("<i4", 1),
    "shares": ("<f8", 2),
}  # fmt: skip
assert tuple(_PARTS) == tuple(field.name for field in fields(Changes))


class _Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int
    forest: str


def save_forest_family(
    path: Path, family: ForestFamily, ensemble: Ensemble, most: int = 0o666
) -> None:
    """Write the family of a forest, atomically."""
    arrays: dict[str, NDArray[Any]] = {_REMOVED: family.removed}
    arrays |= {name: getattr(family.changes, name) for name in _PARTS}
    manifest = _Manifest(version=_VERSION, forest=forest_digest(ensemble))
    arrays |= {MANIFEST: manifest_array(manifest)}
    write_archive(path, arrays, ForestError, most=most, purpose=PURPOSE)


def load_forest_family(path: Path, ensemble: Ensemble) -> ForestFamily | None:
    """Read the family of a forest; None if the file belongs to another forest.

    All references read are checked to stay within the arrays and to be free of cycles.
    """
    arrays = read_archive(path, ForestError)
    if set(arrays) != {_REMOVED, *_PARTS, MANIFEST}:
        raise ForestError(f"{path}: not the family of a forest; name another file, or remove it")
    manifest = read_manifest(path, arrays.pop(MANIFEST), _Manifest, ForestError, _VERSION)
    if manifest.forest != forest_digest(ensemble):
        return None
    for name, (dtype, ndim) in {_REMOVED: ("<i8", 1), **_PARTS}.items():
        if arrays[name].dtype != np.dtype(dtype) or arrays[name].ndim != ndim:
            raise ForestError(f"{path}: damaged: {name!r} has the wrong type for a family")
    removed = arrays.pop(_REMOVED)
    changes = Changes(**{name: np.ascontiguousarray(array) for name, array in arrays.items()})
    problem = _problem(removed, changes, ensemble)
    if problem is not None:
        raise ForestError(f"{path}: damaged: {problem}; remove it, and it is recomputed")
    return ForestFamily(ScoredForest.of(ensemble), removed, changes)


def _problem(removed: NDArray[np.int64], changes: Changes, ensemble: Ensemble) -> str | None:
    """Return what is wrong with a family, or None."""
    count, pool = len(changes.tree), len(changes.feature)
    sizes = np.array([len(tree.feature) for tree in ensemble.trees])
    start, tree = changes.start, changes.tree
    if not np.array_equal(removed, ensemble.unit_names):
        return "its members are not the rows of the forest"
    whole = len(start) == len(removed) + 1 and start[0] == 0 and start[-1] == count
    if not whole or (np.diff(start) < 0).any():
        return "its changes are not divided among the members"
    if len(changes.node) != count or len(changes.root) != count or not _within(tree, len(sizes)):
        return "a change belongs to no tree"
    first = np.zeros(count, np.bool_)
    first[start[:-1][np.diff(start) > 0]] = True
    if (np.diff(tree, prepend=-1)[~first] <= 0).any():
        return "the changes of a member are not in tree order"
    if (changes.node < 0).any() or (changes.node >= sizes[tree]).any():
        return "a change belongs to no node"
    if any(len(part) != pool for part in (changes.threshold, changes.left, changes.right)):
        return "its nodes are incomplete"
    labels = len(ensemble.classes)
    if changes.shares.shape[1] != labels or not np.isfinite(changes.shares).all():
        return "its shares do not match the labels"
    return _problem_of_nodes(changes, sizes, ensemble.X.shape[1])


def _problem_of_nodes(changes: Changes, sizes: NDArray[np.int64], features: int) -> str | None:
    pool = len(changes.feature)
    if not _within(changes.root, pool) or not _within(changes.feature + 1, features + 1):
        return "a node is missing"
    if np.isnan(changes.threshold).any():
        return "a threshold is not a number"
    leaf = changes.feature < 0
    if not _within(changes.left[leaf], len(changes.shares)):
        return "a leaf has no shares"
    named = np.bincount(changes.root, minlength=pool)
    inner = ~leaf
    for side in (changes.left[inner], changes.right[inner]):
        if (side >= pool).any():
            return "a child is missing"
        named += np.bincount(side[side >= 0], minlength=pool)
    if (named > 1).any():
        return "two nodes share a child"
    # Level by level from the roots: no node has two parents, so that this ends.
    at, size = changes.root, sizes[changes.tree]
    while len(at):
        inside = changes.feature[at] >= 0
        at, size = at[inside], size[inside]
        at = np.concatenate((changes.left[at], changes.right[at]))
        size = np.tile(size, 2)
        if (-1 - at >= size).any():
            return "a child belongs to no node of its tree"
        at, size = at[at >= 0], size[at >= 0]
    return None


def _within(values: NDArray[np.integer[Any]], end: int) -> bool:
    return bool(((values >= 0) & (values < end)).all())
