"""Forest files: with training rows, or for answers only. Nothing unusual is read."""

from __future__ import annotations

import hashlib
import io
import itertools
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from .files import bytes_of, read_archive, refuse_damage
from .numbers import Floats, Rejected, need
from .records import decode

Array = NDArray[Any]

LARGEST = 2.0**1000
_MOST = 2**31 - 1


@dataclass(frozen=True)
class Settings:
    """What determines a forest, with its rows: ``thresholds`` is k, ``random_depth`` d_rmax."""

    trees: int
    depth: int | None
    thresholds: int
    attributes: int
    random_depth: int
    least: int
    criterion: str
    seed: int
    share: float = 1.0


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree with its nodes in preorder; docs/forest.md says what the arrays are."""

    feature: Array
    threshold: Array
    left: Array
    right: Array
    counts: Array
    rows: Array
    cached_node: Array
    cached_attribute: Array
    cached_values: Array
    cached_counts: Array


PARTS = tuple(each.name for each in fields(Tree))
_NODES = PARTS[:5]
_TYPES: Mapping[str, tuple[str, int]] = {
    "names": ("<i8", 1), "X": ("<f8", 2), "y": ("<i4", 1), "feature": ("<i4", 1),
    "threshold": ("<f8", 1), "left": ("<i4", 1), "right": ("<i4", 1), "counts": ("<i4", 2),
    "rows": ("<i4", 1), "cached_node": ("<i4", 1), "cached_attribute": ("<i4", 1),
    "cached_values": ("<f8", 2), "cached_counts": ("<i4", 2),
}  # fmt: skip
_STORED = ("classes", *_TYPES)
_GROUPED = ("group", "group_column")
_ANSWERS: Mapping[str, tuple[str, int]] = {
    "feature": ("<i4", 1), "threshold": ("<f8", 1), "left": ("<i4", 1), "right": ("<i4", 1),
    "shares": ("<f8", 2), "sizes": ("<i8", 1), "manifest": ("|u1", 1),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Exact:
    """A forest with its training rows."""

    path: Path
    settings: Settings
    classes: Array  # shape (labels,)
    names: NDArray[np.int64]  # shape (rows,)
    X: Floats  # shape (rows, attributes): without negative zeros; minus infinity is missing
    y: NDArray[np.int32]  # shape (rows,): index into ``classes``
    trees: tuple[Tree, ...]
    group: str = ""  # the column whose equal cells name rows that leave together
    cells: NDArray[np.str_] | None = None  # shape (rows,); None: each row leaves alone

    @property
    def units(self) -> list[tuple[str, NDArray[np.int64]]]:
        """What leaves, in words, and the places of its rows; in the order of first rows."""
        if self.cells is None:
            return [(f"row {name}", np.array([at])) for at, name in enumerate(self.names.tolist())]
        places: dict[str, list[int]] = {}
        for at, cell in enumerate(self.cells.tolist()):
            places.setdefault(cell, []).append(at)
        return [(f"{self.group} {cell!r}", np.array(at)) for cell, at in places.items()]

    @property
    def features(self) -> int:
        """The number of features."""
        return int(self.X.shape[1])

    @property
    def labels(self) -> list[Any]:
        """The labels as Python objects."""
        return list(self.classes.tolist())

    @property
    def digest(self) -> bytes:
        """SHA-256 of all arrays, as in the file's manifest."""
        arrays = {"classes": self.classes, "names": self.names}
        arrays |= {"X": np.where(np.isneginf(self.X), np.nan, self.X), "y": self.y}
        for part in PARTS:
            arrays[part] = np.concatenate([getattr(tree, part) for tree in self.trees])
        if self.cells is not None:
            arrays |= {"group": self.cells, "group_column": np.array([self.group])}
        return _digest(arrays)


@dataclass(frozen=True, eq=False)
class Answering:
    """A forest without training rows; ``shares`` has one row per node."""

    path: Path
    classes: Array  # shape (labels,)
    features: int
    rounds_inputs: bool  # whether values are rounded to float32 before comparison
    feature: Array  # shape (nodes,)
    left: Array  # shape (nodes,)
    right: Array  # shape (nodes,)
    threshold: Floats  # shape (nodes,)
    shares: Floats  # shape (nodes, labels)
    roots: NDArray[np.int64]  # shape (trees + 1,)

    @property
    def labels(self) -> list[Any]:
        """The labels as Python objects."""
        return list(self.classes.tolist())


def read_forest(path: Path, sha256: str) -> Exact | Answering:
    """Read the forest file with a digest."""
    content = path.read_bytes()
    need(hashlib.sha256(content).hexdigest() == sha256, "it has another SHA-256")
    try:
        with refuse_damage(), zipfile.ZipFile(io.BytesIO(content)) as archive:
            exact = "manifest.json" in archive.namelist()
            text = archive.read("manifest.json") if exact else b""
        wanted = [*_STORED, *_GROUPED] if exact else ["classes", *_ANSWERS]
        held = read_archive(io.BytesIO(content), only=wanted, strangers=True)
    except (ValueError, OSError, MemoryError) as error:
        raise Rejected(f"damaged, or not a forest file: {error}") from None
    # The digest is of the arrays in this order.
    arrays = {name: held[name] for name in wanted if name in held}
    return _read_exact(path, text, arrays) if exact else _read_answering(path, arrays)


@dataclass(frozen=True)
class _ExactManifest:
    format: Literal["leaveout forest"]
    version: int
    settings: Settings
    small: int
    next_name: int
    sizes: tuple[tuple[int, int], ...]
    digest: str


@dataclass(frozen=True)
class _AnsweringManifest:
    version: int
    kind: str
    features: int
    rounds_inputs: bool


_Manifest = TypeVar("_Manifest", _ExactManifest, _AnsweringManifest)


def _manifest(text: bytes, form: type[_Manifest]) -> _Manifest:
    try:
        return decode(text, form)
    except ValueError as error:
        raise Rejected(f"its manifest is damaged: {error}") from None


def _need_types(arrays: Mapping[str, Array], types: Mapping[str, tuple[str, int]]) -> None:
    """Demand arrays of some types and ranks, and labels, ascending."""
    for name, (kind, rank) in types.items():
        need(name in arrays, f"the array {name!r} is missing")
        fits = arrays[name].dtype == np.dtype(kind) and arrays[name].ndim == rank
        need(fits, "has an array of the wrong type")
    need("classes" in arrays, "the array 'classes' is missing")
    classes = arrays["classes"]
    need(classes.ndim == 1 and classes.dtype.kind in "biufU" and len(classes) > 0, "has no labels")
    labels = classes.tolist()
    ascending = all(a < b for a, b in itertools.pairwise(labels))
    need(labels[0] == labels[0] and ascending, "has labels that are not ascending")


def _digest(arrays: Mapping[str, Array]) -> bytes:
    hashed = hashlib.sha256()
    for name, array in arrays.items():
        hashed.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        hashed.update(np.ascontiguousarray(array).tobytes())
    return hashed.digest()


def _read_exact(path: Path, text: bytes, arrays: dict[str, Array]) -> Exact:
    part = _manifest(text, _ExactManifest)
    need(part.version in (1, 2, 3) and part.small == 64, "has another format")
    _need_types(arrays, _TYPES)
    grouped = part.version == 3
    there = set(_GROUPED) & set(arrays)
    need(there == (set(_GROUPED) if grouped else set()), "has groups that its version has not")
    need(_digest(arrays).hex() == part.digest, "its arrays do not match its manifest")
    names, X, y, classes = (arrays[name] for name in ("names", "X", "y", "classes"))
    need(len(names) == len(X) == len(y) > 0 and X.shape[1] > 0, "has no rows, or not their names")
    need((names[1:] > names[:-1]).all() and names[0] >= 0, "has row names that do not ascend")
    need(~(np.abs(X) >= LARGEST), "has a value that is too large")
    need(np.array_equal(np.unique(y), np.arange(len(classes))), "has labels without rows")
    need(arrays["counts"].shape[1] == len(classes), "has counts of other labels")
    if grouped:
        cells, column = arrays["group"], arrays["group_column"]
        need(cells.dtype.kind == column.dtype.kind == "U", "has groups that are no words")
        need(cells.shape == names.shape and column.shape == (1,), "does not name its groups")
        need(cells != "", "does not say of each row which group it leaves with")
    X = X + 0.0
    X[np.isnan(X)] = -np.inf
    _check_settings(part.settings, X.shape[1])
    return Exact(
        path, part.settings, classes, names, np.ascontiguousarray(X), y,
        _trees(arrays, part.sizes, part.settings.trees),
        *((str(arrays["group_column"][0]), arrays["group"]) if grouped else ()),
    )  # fmt: skip


def _check_settings(found: Settings, attributes: int) -> None:
    need(found.criterion in ("gini", "entropy"), "has an invalid setting 'criterion'")
    for value, least, most in (
        (found.trees, 1, _MOST), (found.thresholds, 1, _MOST), (found.attributes, 1, attributes),
        (found.random_depth, 0, _MOST), (found.least, 2, _MOST), (found.seed, 0, 2**63 - 1),
        (1 if found.depth is None else found.depth, 1, _MOST),
    ):  # fmt: skip
        need(least <= value <= most, "has an invalid setting")
    need(0.0 < found.share <= 1.0, "has an invalid share")


def _trees(
    arrays: Mapping[str, Array], sizes: tuple[tuple[int, int], ...], count: int
) -> tuple[Tree, ...]:
    """Divide the arrays into trees, which are compared later but never walked unchecked."""
    need(len(sizes) == count, "its manifest does not divide the arrays into trees")
    need(all(n >= 1 and c >= 0 for n, c in sizes), "it has a tree without nodes")
    nodes, cached = ([0, *itertools.accumulate(each[i] for each in sizes)] for i in range(2))
    ends = {name: nodes if name in _NODES else cached for name in PARTS if name != "rows"}
    for name, own in ends.items():
        need(len(arrays[name]) == own[-1], "its manifest does not divide the arrays into trees")
    held = arrays["counts"][nodes[:-1]].astype(np.int64).sum(axis=1).tolist()
    ends["rows"] = [0, *itertools.accumulate(held)]
    need(min(held) >= 0 and ends["rows"][-1] == len(arrays["rows"]), "its trees lack rows")
    return tuple(
        Tree(**{name: arrays[name][own[i] : own[i + 1]] for name, own in ends.items()})
        for i in range(count)
    )


def _read_answering(path: Path, arrays: dict[str, Array]) -> Answering:
    _need_types(arrays, _ANSWERS)
    part = _manifest(bytes_of(arrays["manifest"]), _AnsweringManifest)
    need(part.version == 1 and 1 <= part.features <= _MOST, "has another format")
    sizes = arrays["sizes"].tolist()
    roots = np.array([0, *itertools.accumulate(sizes)], np.int64)
    same = {len(arrays[name]) for name in ("feature", "threshold", "left", "right", "shares")}
    fits = len(sizes) > 0 and min(sizes) >= 1 and same == {int(roots[-1])}
    need(fits, "its arrays do not divide into trees")
    forest = Answering(
        path, arrays["classes"], part.features, part.rounds_inputs, arrays["feature"],
        arrays["left"], arrays["right"], arrays["threshold"], arrays["shares"], roots,
    )  # fmt: skip
    need(forest.shares.shape[1] == len(forest.labels), "does not have one share per label")
    need(np.isfinite(forest.threshold), "has a threshold that is not a number")
    return forest


Walked = tuple[Array, Floats, Array, Array, Floats]
"""Features, thresholds, children and shares of a tree's nodes."""

_LEAST_SHARE, _MOST_SHARE = 2.0**-500, 2.0**500


def walked_trees(forest: Exact | Answering) -> list[Walked]:
    """Return trees that may be walked: every node but the root is the child of one before it."""
    trees: list[Walked] = []
    if isinstance(forest, Exact):
        for tree in forest.trees:
            trees.append((tree.feature, tree.threshold, tree.left, tree.right, shares(tree.counts)))
    else:
        cut = before_rounding(forest.threshold) if forest.rounds_inputs else forest.threshold
        for a, b in itertools.pairwise(forest.roots.tolist()):
            at = slice(a, b)
            part = forest.feature[at], cut[at], forest.left[at], forest.right[at]
            trees.append((*part, forest.shares[at]))
    width = forest.features
    for feature, threshold, left, right, share in trees:
        inner, place = feature >= 0, np.arange(len(feature))
        need((feature >= -1) & (feature < width), "splits on a feature that does not exist")
        need(~(threshold[inner] >= np.inf), "has a threshold that is not a number")
        need(threshold[inner] == threshold[inner], "has a threshold that is not a number")
        for side in (left, right):
            need((side[inner] > place[inner]) & (side[inner] < len(place)), "has no such child")
        below = np.sort(np.concatenate((left[inner], right[inner])))
        need(np.array_equal(below, place[1:]), "has a node that is not the child of one other")
        own = share[~inner]
        most = own.max(axis=1)
        fine = (own >= 0).all(axis=1) & (most >= _LEAST_SHARE) & (most <= _MOST_SHARE)
        need(fine, "a leaf has invalid shares of labels")
    return trees


def shares(counts: Array, left: Array | None = None) -> Floats:
    """Return what nodes with these counts add to each label; equal parts of those left if none."""
    need(counts >= 0, "a node has a negative number of rows")
    size = counts.sum(axis=1, dtype=np.int64)
    there = np.ones(counts.shape[1], bool) if left is None else np.asarray(left) > 0
    found: Floats = counts / np.maximum(size, 1)[:, None]
    found[size == 0] = there / max(int(there.sum()), 1)
    return found


def before_rounding(threshold: Floats) -> Floats:
    """Return the greatest float64 values whose float32 is at most each threshold.

    Each is half way between the last float32 up to the threshold and the next one, or just below:
    half-way values are rounded to the even neighbour.
    """
    with np.errstate(over="ignore"):
        last = threshold.astype(np.float32)
        last = np.where(last > threshold, np.nextafter(last, np.float32(-np.inf)), last)
        ends = [each.astype(np.float64) for each in (last, np.nextafter(last, np.float32(np.inf)))]
        # Beyond float32's range, rounding works as if the range continued.
        low, high = (np.clip(each, -(2.0**128), 2.0**128) for each in ends)
        half = low + (high - low) / 2
        goes_left = half.astype(np.float32).astype(np.float64) <= threshold
    found = np.where(goes_left, half, np.nextafter(half, -np.inf))
    return np.asarray(np.where(np.isposinf(threshold), threshold, found))


def share_of_trees(settings: Settings) -> int:
    """Return how many trees hold a row."""
    return math.ceil(Fraction(repr(float(settings.share))) * settings.trees)
