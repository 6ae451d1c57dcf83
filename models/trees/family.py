"""Families of tree ensembles: the models retrained without some rows, stored as differences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.compiling import kernel
from leaveout.errors import TreesError
from leaveout.kernel.trees import Ensemble, Nodes
from leaveout.models.trees.assemble import expect, place
from leaveout.models.trees.files import read_typed, write_typed

_AT_ONCE = 2**23  # trees and scores of members evaluated together

_VERSION = 1
_KIND = "members of trees"
_TYPES = {
    "feature": ("<i4", 1), "threshold": ("<f8", 1), "missing_left": ("|b1", 1), "set": ("<i4", 1),
    "sets": ("|b1", 2), "values": ("<f8", 2), "trees": ("<i4", 1), "starts": ("<i8", 1),
    "base": ("<f8", 2), "divisor": ("<i8", 1), "removed": ("<i8", 1),
}  # fmt: skip


_OF_QUESTION = ("threshold", "missing_left", "set")
_OF_TREE = {name: _TYPES[name][0] for name in ("feature", *_OF_QUESTION, "values")}
"""The arrays of a single tree in preorder, whose features tell its shape."""


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a family says besides its arrays."""

    version: int
    kind: str
    whole: str  # SHA-256 of the file of the model on all rows
    rows: int
    recipe: str
    sampled: bool
    group: str = ""
    names: tuple[str, ...] = ()
    missing: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class TreeFamily:
    """The models retrained without one row, or group of rows, each."""

    whole: Ensemble  # the model on all rows
    pool: Nodes  # the distinct trees of all models; the whole model's first
    trees: NDArray[np.int32]  # each member's trees in the order of its sum, by place in the pool
    starts: Integers  # shape (members + 1,): where each member's trees begin
    base: Floats  # shape (members, scores)
    divisor: Integers  # shape (members,)
    removed: Integers  # shape (members,): the row, or group, that each lacks
    rows: int  # how many rows, or groups, there are
    sampled: bool = False  # whether the rows left out were drawn uniformly
    group: str = ""  # the column whose equal cells name rows that leave together, if any
    names: tuple[str, ...] = ()  # of what members lack; empty if there are none
    recipe: str = ""  # how all were trained, for people
    missing: tuple[int, ...] = ()  # features that were missing in some row

    def __len__(self) -> int:
        return len(self.removed)

    def member(self, index: int) -> Ensemble:
        """Return a member."""
        chosen = self.trees[self.starts[index] : self.starts[index + 1]].astype(np.int64)
        divisor = int(self.divisor[index])
        nodes = _take(self.pool, chosen)
        return replace(self.whole, nodes=nodes, base=self.base[index], divisor=divisor)

    def scores(self, X: Floats) -> Floats:
        """Return scores as members compute them, shape (rows, members, scores)."""
        whole, pool = self.whole, self.pool
        X = np.ascontiguousarray(whole.prepare(X))
        leaf = np.empty((len(pool.roots) - 1, len(X)), np.int64)
        find_leaves(
            pool.roots, pool.feature, pool.threshold, pool.missing_left, pool.set, pool.left,
            pool.right, pool.sets, X, leaf,
        )  # fmt: skip
        kind = np.float32 if whole.single else np.float64
        found = np.tile(self.base.astype(kind), (len(X), 1, 1))
        add_trees(pool.values.astype(kind, copy=False), leaf, self.trees, self.starts, found)
        found /= self.divisor.astype(kind)[:, None]
        return found.astype(np.float64)

    def labels(self, X: Floats) -> tuple[Integers, NDArray[np.bool_]]:
        """Return all members' labels at inputs, and whether rounding leaves each open."""
        whole, error = self.whole, self.slack
        parts: list[tuple[Integers, NDArray[np.bool_]]] = []
        step = max(1, _AT_ONCE // (len(self.pool.roots) + len(self) * len(whole.base)))
        for first in range(0, len(X), step):
            scores = self.scores(X[first : first + step])
            if scores.shape[2] == 1:
                margin = scores[:, :, 0] - whole.center
                near = (margin != 0) & (np.abs(margin) <= error)
                parts.append(((margin > 0).astype(np.int64), near))
                continue
            two = np.partition(scores, -2, axis=2)[:, :, -2:]
            apart = two[:, :, 1] - two[:, :, 0]
            near = (apart <= error) & ((apart != 0) | (error > 0))
            parts.append((scores.argmax(axis=2), near))
        shape = (0, len(self))
        none = np.zeros(shape, np.int64), np.zeros(shape, np.bool_)
        labels, open_ = zip(none, *parts, strict=True)
        return np.concatenate(labels), np.concatenate(open_)

    @cached_property
    def slack(self) -> float:
        """How near to a tie a label may be another than by these scores."""
        if self.whole.ordered:
            return self.whole.tie
        members = (self.member(index).rounding().max() for index in range(len(self)))
        most = max(float(self.whole.rounding().max()), *map(float, members))
        return self.whole.tie + 2.0 * most


@kernel
def find_leaves(
    roots: Any, feature: Any, threshold: Any, missing_left: Any, set_: Any, left: Any, right: Any,
    sets: Any, X: Any, leaf: Any,
) -> None:  # fmt: skip
    """Find the row of values that each tree gives inputs whose categories are prepared."""
    last = sets.shape[1] - 1
    for t in range(len(leaf)):
        for row in range(len(X)):
            node = roots[t]
            while feature[node] >= 0:
                value = X[row, feature[node]]
                if np.isnan(value):
                    goes = missing_left[node]
                elif set_[node] >= 0:
                    whole = np.trunc(value)
                    if not (value <= threshold[node] and 0 <= whole < last):
                        whole = last
                    goes = sets[set_[node], int(whole)]
                else:
                    goes = value <= threshold[node]
                node = left[node] if goes else right[node]
            leaf[t, row] = left[node]


@kernel
def add_trees(values: Any, leaf: Any, trees: Any, starts: Any, scores: Any) -> None:
    """Add each member's trees in order, rounding as the type of the scores does."""
    for row in range(len(scores)):
        for m in range(len(starts) - 1):
            for i in range(starts[m], starts[m + 1]):
                at = leaf[trees[i], row]
                for k in range(scores.shape[2]):
                    scores[row, m, k] += values[at, k]


class Pool:
    """Collects the distinct trees of a whole model and its members."""

    def __init__(self, whole: Ensemble) -> None:
        self._whole = whole
        self._known: dict[bytes, int] = {}  # the numbers of each tree, which are all that is kept
        self._sets: dict[bytes, int] = {}
        self._trees: list[NDArray[np.int32]] = []
        self._base: list[Floats] = []
        self._divisor: list[int] = []
        self._first = self._places(whole.nodes)

    def add(self, member: Ensemble, row: int) -> None:
        """Add the member without a row."""
        for name in ("labels", "features", "single", "ordered", "link", "center", "rounds_inputs",
                     "whole_categories"):  # fmt: skip
            one, other = getattr(self._whole, name), getattr(member, name)
            if one != other:
                raise TreesError(
                    f"the model without row {row} differs from the whole one in its {name}: "
                    f"{other!r} instead of {one!r}; keep every label in the rows that are left"
                )
        if member.tie > self._whole.tie or member.slack > self._whole.slack:
            raise TreesError(f"the model without row {row} is of another kind than the whole one")
        self._trees.append(self._places(member.nodes))
        self._base.append(member.base)
        self._divisor.append(member.divisor)

    def family(self, removed: Integers, **said: Any) -> TreeFamily:
        """Return the family."""
        starts = np.cumsum([0, *(len(each) for each in self._trees)])
        return TreeFamily(
            self._whole, self._nodes(),
            np.concatenate([np.zeros(0, np.int32), *self._trees]), starts,
            np.array(self._base).reshape(len(self._base), -1), np.array(self._divisor, np.int64),
            removed, **said,
        )  # fmt: skip

    def _places(self, nodes: Nodes) -> NDArray[np.int32]:
        found = np.empty(len(nodes.roots) - 1, np.int32)
        which = np.array([self._set(row) for row in nodes.sets] or [0], np.int32)
        for t in range(len(found)):
            tree = _take(nodes, np.array([t]))
            own = replace(tree, set=np.where(tree.set >= 0, which[tree.set], -1).astype(np.int32))
            key = b"".join(
                np.ascontiguousarray(getattr(own, name), kind).tobytes()
                for name, kind in _OF_TREE.items()
            )
            found[t] = self._known.setdefault(key, len(self._known))
        return found

    def _nodes(self) -> Nodes:
        """Return all trees as nodes."""
        scores = self._whole.nodes.values.shape[1]
        parts: dict[str, bytearray] = {name: bytearray() for name in _OF_TREE}
        for key in self._known:
            # A tree has one leaf more than questions.
            nodes = (len(key) - 4 * scores) // (17 + 4 * scores)
            end = 0
            for name, kind in _OF_TREE.items():
                size = np.dtype(kind).itemsize * nodes
                start, end = end, len(key) if name == "values" else end + size
                parts[name] += key[start:end]
        feature, threshold, missing, set_, values = (
            np.frombuffer(parts[name], kind) for name, kind in _OF_TREE.items()
        )
        return _link(feature, threshold, missing, set_, self._table(), values.reshape(-1, scores))

    def _set(self, row: NDArray[np.bool_]) -> int:
        # All tables get one width: the last column is for all other categories.
        return self._sets.setdefault(row.tobytes(), len(self._sets))

    def _table(self) -> NDArray[np.bool_]:
        rows = [np.frombuffer(key, np.bool_) for key in self._sets]
        width = max((len(row) for row in rows), default=1)
        table = np.empty((len(rows), width), np.bool_)
        for at, row in enumerate(rows):
            table[at, : len(row) - 1], table[at, len(row) - 1 :] = row[:-1], row[-1]
        return table


def _take(nodes: Nodes, chosen: Integers) -> Nodes:
    """Return some trees as nodes of their own."""
    sizes = np.diff(nodes.roots)[chosen]
    roots = np.concatenate(([0], np.cumsum(sizes)))
    at = np.repeat(nodes.roots[:-1][chosen] - roots[:-1], sizes) + np.arange(roots[-1])
    shift = np.repeat(nodes.roots[:-1][chosen] - roots[:-1], sizes)
    feature = nodes.feature[at]
    leaf = feature < 0
    left = np.where(leaf, np.cumsum(leaf) - 1, nodes.left[at] - shift)
    right = np.where(leaf, -1, nodes.right[at] - shift)
    return Nodes(
        roots, feature, nodes.threshold[at], nodes.missing_left[at], nodes.set[at], left, right,
        nodes.sets, nodes.values[nodes.left[at[leaf]]],
    )  # fmt: skip


def _link(
    feature: NDArray[np.int32], threshold: Floats, missing_left: NDArray[np.bool_],
    set_: NDArray[np.int32], sets: NDArray[np.bool_], values: Floats,
) -> Nodes:  # fmt: skip
    """Return trees in preorder, whose features alone tell their shape; raise if they do not."""
    left, right = np.full(len(feature), -1, np.int64), np.full(len(feature), -1, np.int64)
    roots = np.full(len(feature) + 1, -1, np.int64)
    trees = link_preorder(feature, left, right, roots)
    if trees < 0:
        raise TreesError("its trees are cut off; train the family again")
    return Nodes(
        roots[: trees + 1].copy(), feature, threshold, missing_left, set_, left, right, sets, values
    )  # fmt: skip


@kernel
def link_preorder(feature: Any, left: Any, right: Any, roots: Any) -> int:
    """Find the children of nodes of trees in preorder; return the number of trees, or -1."""
    stack = np.empty(len(feature) + 1, np.int64)
    depth, trees, leaves = 0, 0, 0
    for node in range(len(feature)):
        if depth == 0:
            roots[trees] = node
            trees += 1
        elif left[stack[depth - 1]] < 0:
            left[stack[depth - 1]] = node
        else:
            right[stack[depth - 1]] = node
        if feature[node] >= 0:
            stack[depth] = node
            depth += 1
            continue
        left[node] = leaves
        leaves += 1
        while depth > 0 and right[stack[depth - 1]] >= 0:
            depth -= 1
    roots[trees] = len(feature)
    return -1 if depth > 0 or trees == 0 else trees


def write_tree_family(family: TreeFamily, path: Path, digest: str) -> None:
    """Write a family atomically, with the SHA-256 of its whole model's file."""
    inner = family.pool.feature >= 0
    arrays = {
        name: getattr(family.pool if hasattr(family.pool, name) else family, name)
        for name in _TYPES
    }
    arrays |= {name: arrays[name][inner] for name in _OF_QUESTION}
    manifest = _Manifest(
        _VERSION, _KIND, digest, family.rows, family.recipe, family.sampled, family.group,
        family.names, family.missing,
    )  # fmt: skip
    write_typed(path, arrays, _TYPES, manifest)


def read_tree_family(path: Path, whole: Ensemble, digest: str) -> TreeFamily:
    """Read and fully check a family of a whole model, whose file has a SHA-256."""
    arrays, manifest = read_typed(path, _TYPES, _Manifest, _VERSION)
    with place(str(path)):
        expect(manifest.kind == _KIND, f"holds {manifest.kind[:40]!r}, not {_KIND!r}")
        expect(manifest.whole == digest, "is of another model; train both again")
        return _family_of(arrays, manifest, whole)


def _family_of(arrays: dict[str, NDArray[Any]], manifest: _Manifest, whole: Ensemble) -> TreeFamily:
    feature = arrays["feature"]
    inner = feature >= 0
    count = int(inner.sum())
    full = []
    for name in _OF_QUESTION:
        expect(len(arrays[name]) == count, f"{name!r} has not one entry a question")
        full.append(np.full(len(feature), -(name == "set"), _TYPES[name][0]))
        full[-1][inner] = arrays[name]
    pool = _link(feature, full[0], full[1], full[2], arrays["sets"], arrays["values"])
    pool.check(whole.features)
    trees, starts, removed = arrays["trees"], arrays["starts"], arrays["removed"]
    members = len(removed)
    expect(members > 0, "holds no member")
    expect(len(starts) == members + 1 and starts[0] == 0, "'starts' has not one entry a member")
    expect((np.diff(starts) > 0).all() and starts[-1] == len(trees), "'starts' is out of order")
    expect((trees >= 0) & (trees < len(pool.roots) - 1), "a tree that does not exist")
    expect(arrays["base"].shape == (members, len(whole.base)), "'base' has the wrong shape")
    expect(np.isfinite(arrays["base"]), "'base' is not finite")
    expect(pool.values.shape[1] == len(whole.base), "'values' has the wrong shape")
    expect(arrays["divisor"].shape == (members,), "'divisor' has the wrong shape")
    expect(arrays["divisor"] >= 1, "a divisor below 1")
    expect((removed >= 0) & (removed < manifest.rows), "a row that does not exist")
    expect(len(np.unique(removed)) == members, "two members lack the same row")
    expect(len(manifest.names) in (0, members), "has not one name a member")
    missing = all(0 <= at < whole.features for at in manifest.missing)
    expect(missing, "a feature that does not exist may be missing")
    return TreeFamily(
        whole, pool, trees, starts, arrays["base"], arrays["divisor"], removed,
        manifest.rows, manifest.sampled,
        manifest.group, manifest.names, manifest.recipe, manifest.missing,
    )  # fmt: skip
