"""Recorded result of a deletion: the changed splits, and a digest of everything."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.ensembles.held import Exact, Tree
from leaveout.verifier.checker.errors import RejectedError

Numbers = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Recorded:
    """A deletion's changes, in the order of trees and nodes."""

    tree: Numbers  # shape (changes,)
    node: Numbers  # shape (changes,)
    size: Numbers  # shape (changes,): how many nodes stand there now
    feature: Numbers  # shape (nodes,)
    threshold: Numbers  # shape (nodes,)
    digest: bytes  # SHA-256 of all arrays of the forest after, as the manifest of its file has it


_KINDS = {
    "tree": np.int32, "node": np.int32, "size": np.int32, "feature": np.int32,
    "threshold": np.float64, "digest": np.uint8,
}  # fmt: skip


def read_changes(proof: Mapping[str, Numbers]) -> Recorded:
    """Return what was recorded."""
    if not proof:
        raise RejectedError("there is no record of what the deletion gave")
    if set(proof) != set(_KINDS):
        raise RejectedError("the record of a deletion has other arrays than it should")
    for name, kind in _KINDS.items():
        if proof[name].dtype != kind or proof[name].ndim != 1:
            raise RejectedError(f"the record of a deletion: {name!r} has another type")
    found = Recorded(
        **{name: proof[name] for name in _KINDS if name != "digest"},
        digest=proof["digest"].tobytes(),
    )
    changes = len(found.tree)
    if not changes == len(found.node) == len(found.size) or np.any(found.size < 1):
        raise RejectedError("the record of a deletion: its changes are not equally many")
    nodes = int(found.size.astype(np.int64).sum())
    if not nodes == len(found.feature) == len(found.threshold):
        raise RejectedError("the record of a deletion: a node is missing, or one too many")
    return found


def ends_of(feature: Numbers) -> NDArray[np.int64]:
    """Return the node behind the last one below each, of nodes in preorder."""
    size = len(feature)
    ends = np.zeros(size, np.int64)
    for node in range(size - 1, -1, -1):
        if feature[node] < 0:
            ends[node] = node + 1
            continue
        middle = ends[node + 1] if node + 1 < size else size
        if middle >= size:
            raise RejectedError("a child is missing")
        ends[node] = ends[middle]
    if not size or ends[0] != size:
        raise RejectedError("a node is left over")
    return ends


def path_to(feature: Numbers, node: int) -> str:
    """Return the path to a node of a preorder in words, a letter a step."""
    ends, at, steps = ends_of(feature), 0, ""
    while at != node:
        left = at + 1
        steps += "L" if node < ends[left] else "R"
        at = left if node < ends[left] else int(ends[left])
    return f"node {steps}" if steps else "the root"


def hold_against(before: Exact, recorded: Recorded, after: Exact) -> None:
    """Compare a forest with recorded changes against a retrained one."""
    starts = np.concatenate(([0], np.cumsum(recorded.size.astype(np.int64))))
    if np.any((recorded.tree < 0) | (recorded.tree >= len(before.trees))):
        raise RejectedError("the record of a deletion changes a tree that there is not")
    for i, tree in enumerate(before.trees):
        own = np.flatnonzero(recorded.tree == i)
        feature, threshold = _apply_changes(tree, recorded, own, starts, i)
        anew = after.trees[i]
        both = min(len(feature), len(anew.feature))
        apart = (feature[:both] != anew.feature[:both]) | (
            threshold[:both] != anew.threshold[:both]
        )
        if apart.any():
            node = int(np.flatnonzero(apart)[0])
            raise RejectedError(
                f"tree {i}, {path_to(anew.feature, node)}: it {_split(feature, threshold, node)} "
                f"as recorded and {_split(anew.feature, anew.threshold, node)} trained anew"
            )
        if len(feature) != len(anew.feature):
            raise RejectedError(f"tree {i} has not as many nodes as trained anew")
    if recorded.digest != digest_of(after):
        raise RejectedError(
            "the counts, rows or statistics of the forest that the deletion gave are not those of "
            "the one trained anew: their digests differ"
        )


def _apply_changes(
    tree: Tree, recorded: Recorded, own: NDArray[np.int64], starts: NDArray[np.int64], index: int
) -> tuple[Numbers, Numbers]:
    """Return the splits of a tree with its changes, in preorder."""
    if not len(own):
        return tree.feature, tree.threshold
    ends = ends_of(tree.feature)
    features, thresholds, at = [], [], 0
    for i in own.tolist():
        node = int(recorded.node[i])
        if not at <= node < len(ends):
            raise RejectedError(f"tree {index}: the nodes that changed do not come in their order")
        part = slice(int(starts[i]), int(starts[i + 1]))
        ends_of(recorded.feature[part])
        features += [tree.feature[at:node], recorded.feature[part]]
        thresholds += [tree.threshold[at:node], recorded.threshold[part]]
        at = int(ends[node])
    features.append(tree.feature[at:])
    thresholds.append(tree.threshold[at:])
    return np.concatenate(features), np.concatenate(thresholds)


def _split(feature: Numbers, threshold: Numbers, node: int) -> str:
    if feature[node] < 0:
        return "is a leaf"
    return f"splits attribute {feature[node]} at {float(threshold[node])!r}"


def digest_of(forest: Exact) -> bytes:
    """Return the SHA-256 of a forest's arrays, as the manifest of its file has it."""
    X = forest.X.copy()
    X[np.isneginf(X)] = np.nan
    arrays: dict[str, Numbers] = {
        "classes": forest.classes, "names": forest.names, "X": X, "y": forest.y,
    }  # fmt: skip
    for part in Tree.__dataclass_fields__:
        arrays[part] = np.concatenate([getattr(tree, part) for tree in forest.trees])
    hashed = hashlib.sha256()
    for name, array in arrays.items():
        hashed.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        hashed.update(np.ascontiguousarray(array).tobytes())
    return hashed.digest()
