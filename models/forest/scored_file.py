"""Files of forests that only answer: an ``.npz`` of plain arrays with a manifest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import ForestError
from leaveout.models.archive import (
    MANIFEST,
    expect_arrays,
    holds_arrays,
    manifest_array,
    read_archive,
    read_manifest,
    write_archive,
)
from leaveout.models.forest.files import in_preorder, stored_labels
from leaveout.models.forest.scored import ScoredForest, ScoredTree

_VERSION = 1
_PARTS = tuple(field.name for field in fields(ScoredTree))
_TYPES = {"feature": "<i4", "threshold": "<f8", "left": "<i4", "right": "<i4", "shares": "<f8"}
_NAMES = ("classes", "sizes", *_PARTS, MANIFEST)


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything but the arrays; ``features`` is the number of features."""

    version: int
    kind: str
    features: int
    rounds_inputs: bool


def holds_scored(path: Path) -> bool:
    """Return whether a file holds a forest that only answers."""
    return holds_arrays(path, (*_PARTS, MANIFEST))


def write_scored(forest: ScoredForest, path: Path, *, features: int, kind: str) -> None:
    """Write a file atomically; equal forests give equal bytes."""
    classes = stored_labels(forest.classes, path)
    arrays: dict[str, NDArray[Any]] = {
        "classes": classes,
        "sizes": np.array([len(tree.feature) for tree in forest.trees], np.int64),
    }
    for part in _PARTS:
        arrays[part] = np.concatenate([getattr(tree, part) for tree in forest.trees])
    arrays[MANIFEST] = manifest_array(_Manifest(_VERSION, kind, features, forest.rounds_inputs))
    write_archive(path, arrays, ForestError, compressed=True)


def read_scored(path: Path) -> tuple[ScoredForest, int, str]:
    """Read and fully check a file; return its forest, number of features, and class."""
    arrays = read_archive(path, ForestError)
    expect_arrays(path, arrays, ForestError, _NAMES, ())
    manifest = read_manifest(path, arrays[MANIFEST], _Manifest, ForestError, _VERSION)
    for problem in _problems(arrays, manifest):
        raise ForestError(f"{path}: not a forest: {problem}; write it again")
    ends = np.cumsum(arrays["sizes"])[:-1]
    parts = [np.split(arrays[part], ends) for part in _PARTS]
    trees = tuple(ScoredTree(*each) for each in zip(*parts, strict=True))
    for i, tree in enumerate(trees):
        if not in_preorder(tree):
            raise ForestError(f"{path}: not a forest: tree {i}: its nodes are not in preorder")
    forest = ScoredForest(trees, arrays["classes"], manifest.rounds_inputs)
    return forest, manifest.features, manifest.kind


def _problems(arrays: dict[str, NDArray[Any]], manifest: _Manifest) -> Iterator[str]:
    sizes, classes = arrays["sizes"], arrays["classes"]
    for name, kind in _TYPES.items():
        if arrays[name].dtype != np.dtype(kind) or arrays[name].ndim != 1 + (name == "shares"):
            yield f"the array {name!r} has the wrong type"
    nodes = len(arrays["feature"])
    if sizes.dtype != np.int64 or sizes.ndim != 1 or not len(sizes) or np.any(sizes < 1):
        yield "'sizes' does not count the nodes of each tree"
    elif any(len(arrays[name]) != nodes for name in _PARTS) or int(sizes.sum()) != nodes:
        yield "its arrays differ in length"
    elif classes.ndim != 1 or classes.dtype.kind not in "biufU" or not len(classes):
        yield "the labels are neither numbers nor text"
    elif np.any(classes[1:] <= classes[:-1]) or arrays["shares"].shape[1] != len(classes):
        yield "the labels are not ascending, or do not each have a share"
    elif not 1 <= manifest.features < 2**31:
        yield f"its rows have {manifest.features} features"
    elif np.any(arrays["feature"] < -1) or np.any(arrays["feature"] >= manifest.features):
        yield "a node splits on a feature that does not exist"
    elif not all(np.all(np.isfinite(arrays[name])) for name in ("threshold", "shares")):
        yield "a threshold or a share is not a number"
