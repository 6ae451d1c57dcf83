"""Forest files of both kinds: with training rows, and for answers only."""

from __future__ import annotations

import hashlib
import io
import itertools
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from leaveout.arrays import Floats, Ints
from leaveout.files import ARCHIVE, open_file
from leaveout.models.archive import read_arrays, refuse_bombs, refuse_damage
from leaveout.verifier.checker.errors import CertificateError

_LARGEST = 2.0**1000


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings that, with the rows, determine an exact forest, as in its manifest."""

    trees: int
    depth: int | None
    thresholds: int
    attributes: int
    random_depth: int
    least: int
    criterion: str
    seed: int
    share: float = 1.0


class _ExactPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: str
    version: int
    settings: Settings
    small: int
    next_name: int
    sizes: list[tuple[int, int]]
    digest: str


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree with nodes in preorder; for the arrays see the page on forests."""

    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints
    counts: Ints
    rows: Ints
    cached_node: Ints
    cached_attribute: Ints
    cached_values: Floats
    cached_counts: Ints


_PARTS = tuple(Tree.__dataclass_fields__)
_NODES = ("feature", "threshold", "left", "right", "counts")
_TYPES: Mapping[str, tuple[str, int]] = {
    "names": ("<i8", 1), "X": ("<f8", 2), "y": ("<i4", 1), "feature": ("<i4", 1),
    "threshold": ("<f8", 1), "left": ("<i4", 1), "right": ("<i4", 1), "counts": ("<i4", 2),
    "rows": ("<i4", 1), "cached_node": ("<i4", 1), "cached_attribute": ("<i4", 1),
    "cached_values": ("<f8", 2), "cached_counts": ("<i4", 2),
}  # fmt: skip


GROUPED = ("group", "group_column")
"""The arrays of a file of version 3 alone: a cell of each row, and their column."""

STORED = ("classes", *_TYPES)
"""The arrays of a file, in order."""


@dataclass(frozen=True, eq=False)
class Exact:
    """A forest with its training rows."""

    path: Path
    settings: Settings
    classes: NDArray[Any]  # shape (labels,)
    names: NDArray[np.int64]  # shape (rows,)
    X: Floats  # shape (rows, attributes): without negative zeros; minus infinity is missing
    y: Ints  # shape (rows,): index into ``classes``
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
        known: list[Any] = self.classes.tolist()
        return known


def read_exact(path: Path, text: bytes, arrays: dict[str, NDArray[Any]]) -> Exact:
    """Return the forest of a file's manifest and arrays."""
    part = read_manifest(path, text, _ExactPart)
    wrong: str | None = None
    is_grouped = part.version == 3
    if part.format != "leaveout forest" or part.version not in (1, 2, 3) or part.small != 64:
        wrong = "has another format"
    elif any(
        arrays[name].dtype != np.dtype(kind) or arrays[name].ndim != rank
        for name, (kind, rank) in _TYPES.items()
    ):
        wrong = "has an array of the wrong type"
    elif is_grouped != (set(GROUPED) <= set(arrays)) or len(arrays) > len(STORED) + 2 * is_grouped:
        wrong = "has groups of rows that its version has not, or lacks them"
    elif _digest(arrays) != part.digest:
        wrong = "damaged: its arrays do not match its manifest"
    else:
        wrong = _wrong_rows(arrays) or (is_grouped and _wrong_groups(arrays)) or None
        wrong = wrong or _wrong_settings(part.settings, arrays["X"].shape[1])
    if wrong is not None:
        raise CertificateError(f"{path}: {wrong}")
    X = arrays["X"] + 0.0
    X[np.isnan(X)] = -np.inf
    return Exact(
        path, part.settings, arrays["classes"], arrays["names"], np.ascontiguousarray(X),
        arrays["y"], _trees(path, arrays, part),
        *((str(arrays["group_column"][0]), arrays["group"]) if is_grouped else ()),
    )  # fmt: skip


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the digest of the arrays, as in an exact forest's manifest."""
    hashed = hashlib.sha256()
    for name, array in arrays.items():
        hashed.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        hashed.update(np.ascontiguousarray(array).tobytes())
    return hashed.hexdigest()


def _wrong_rows(arrays: Mapping[str, NDArray[Any]]) -> str | None:
    """Return what is wrong with the rows, on which everything depends."""
    names, X, y, classes = (arrays[name] for name in ("names", "X", "y", "classes"))
    if not len(names) or not X.shape[1] or not len(names) == len(X) == len(y):
        return "has no rows, or row names that do not match its rows"
    if np.any(names[1:] <= names[:-1]) or names[0] < 0:
        return "has row names that are not ascending"
    if np.any(np.abs(X) >= _LARGEST):
        return "has a value that is too large"
    if classes.ndim != 1 or classes.dtype.kind not in "biufU":
        return "has labels that are neither numbers nor strings"
    if not np.array_equal(np.unique(y), np.arange(len(classes))):
        return "has labels without rows, or rows without a label"
    return None if is_ascending(classes.tolist()) else "has labels that are not ascending"


def _wrong_groups(arrays: Mapping[str, NDArray[Any]]) -> str | None:
    """Return what is wrong with the cells that name rows that leave together."""
    cells, column = arrays["group"], arrays["group_column"]
    if cells.dtype.kind != "U" or cells.shape != arrays["names"].shape or (cells == "").any():
        return "does not say of each row which group it leaves with"
    if column.dtype.kind != "U" or column.shape != (1,):
        return "does not name the column of its groups"
    return None


def _wrong_settings(settings: Settings, attributes: int) -> str | None:
    most = 2**31 - 1
    depth = most if settings.depth is None else settings.depth
    if (
        1 <= settings.trees <= most
        and 1 <= settings.thresholds <= most
        and 1 <= settings.attributes <= attributes
        and 0 <= settings.random_depth <= most
        and 2 <= settings.least <= most
        and 0 <= settings.seed < 2**63
        and 1 <= depth <= most
        and 0.0 < settings.share <= 1.0
        and settings.criterion in ("gini", "entropy")
    ):
        return None
    return "has an invalid setting"


def _trees(path: Path, arrays: Mapping[str, NDArray[Any]], part: _ExactPart) -> tuple[Tree, ...]:
    """Divide the arrays into trees, which are compared later but never walked."""
    sizes = np.array(part.sizes, np.int64).reshape(-1, 2)
    nodes, cached = ([0, *np.cumsum(sizes[:, i]).tolist()] for i in range(2))
    if (
        len(sizes) != part.settings.trees
        or (sizes[:, 0] < 1).any()
        or (sizes[:, 1] < 0).any()
        or any(len(arrays[name]) != nodes[-1] for name in _NODES)
        or any(len(arrays[name]) != cached[-1] for name in _PARTS if name.startswith("cached"))
    ):
        raise CertificateError(f"{path}: its manifest does not divide the arrays into trees")
    held = arrays["counts"][nodes[:-1]].astype(np.int64).sum(axis=1)
    rows = [0, *np.cumsum(held).tolist()]
    if (held < 0).any() or rows[-1] != len(arrays["rows"]):
        raise CertificateError(f"{path}: its trees do not list all of their rows")
    ends = {"rows": rows, **dict.fromkeys(_NODES, nodes)}
    trees = []
    for i in range(len(sizes)):
        own = {name: ends.get(name, cached)[i : i + 2] for name in _PARTS}
        trees.append(Tree(**{name: arrays[name][a:b] for name, (a, b) in own.items()}))
    return tuple(trees)


def is_ascending(labels: list[Any]) -> bool:
    """Return whether labels are strictly ascending and none is NaN."""
    return labels[0] == labels[0] and all(a < b for a, b in itertools.pairwise(labels))


def read_manifest(path: Path, text: bytes, kind: type[Any]) -> Any:
    """Return a manifest from its JSON."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CertificateError(f"{path}: its manifest is damaged: {error}") from None


_KINDS = {
    "feature": (np.int32, 1), "threshold": (np.float64, 1), "left": (np.int32, 1),
    "right": (np.int32, 1), "shares": (np.float64, 2), "sizes": (np.int64, 1),
}  # fmt: skip
_OTHERS = ("classes", "manifest")


class _AnsweringPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    kind: str
    features: int
    rounds_inputs: bool


@dataclass(frozen=True, eq=False)
class Answering:
    """A forest without training rows; ``shares`` has one row per node."""

    path: Path
    classes: NDArray[Any]  # shape (labels,)
    features: int
    rounds_inputs: bool  # whether values are rounded to float32 before comparison
    feature: Ints  # shape (nodes,)
    left: Ints  # shape (nodes,)
    right: Ints  # shape (nodes,)
    threshold: Floats  # shape (nodes,)
    shares: Floats  # shape (nodes, labels)
    roots: NDArray[np.int64]  # shape (trees + 1,)

    @property
    def labels(self) -> list[Any]:
        """The labels as Python objects."""
        known: list[Any] = self.classes.tolist()
        return known


def read_forest(path: Path) -> Exact | Answering:
    """Read a forest file of either kind."""
    try:
        with refuse_damage():
            text, arrays = _archive(path)
    except OSError as error:
        raise CertificateError(f"{path}: cannot read: {error.strerror or error}") from None
    except (ValueError, MemoryError) as error:
        raise CertificateError(f"{path}: damaged, or not a forest file: {error}") from None
    if text is None:
        return _read_answering(path, arrays)
    return read_exact(path, text, arrays)


def _archive(path: Path) -> tuple[bytes | None, dict[str, NDArray[Any]]]:
    """Return the manifest of an exact forest (None for other files), and the arrays."""
    with open_file(path, ARCHIVE) as file:
        content = io.BytesIO(file.read())
    with zipfile.ZipFile(content) as archive:
        size = content.getbuffer().nbytes
        if "manifest.json" not in archive.namelist():
            return None, read_arrays(path, only=(*_KINDS, *_OTHERS), strangers=True)
        refuse_bombs(archive, size, ("manifest.json", *STORED, *GROUPED), strangers=True)
        text = archive.read("manifest.json")
        arrays = {}
        for name in (*STORED, *GROUPED):
            if name in GROUPED and f"{name}.npy" not in archive.namelist():
                continue
            if f"{name}.npy" not in archive.namelist():
                raise ValueError(f"the array {name!r} is missing")
            with archive.open(f"{name}.npy") as stream:
                arrays[name] = npy.read_array(stream, allow_pickle=False)
    return text, arrays


def _read_answering(path: Path, arrays: dict[str, NDArray[Any]]) -> Answering:
    """Return the forest of a file without training rows."""
    found = {name: arrays.get(name) for name in (*_KINDS, *_OTHERS)}
    if any(each is None for each in found.values()):
        raise CertificateError(f"{path}: not a forest file")
    part = read_manifest(path, arrays["manifest"].tobytes(), _AnsweringPart)
    if part.version != 1 or any(
        arrays[name].dtype != kind or arrays[name].ndim != rank
        for name, (kind, rank) in _KINDS.items()
    ):
        raise CertificateError(f"{path}: has another format, or an array of the wrong type")
    roots = np.concatenate(([0], np.cumsum(arrays["sizes"])))
    nodes = {len(arrays[name]) for name in _KINDS if name != "sizes"}
    if len(roots) < 2 or np.any(arrays["sizes"] < 1) or nodes != {int(roots[-1])}:
        raise CertificateError(f"{path}: its arrays do not divide into trees")
    forest = Answering(
        path, arrays["classes"], part.features, part.rounds_inputs, arrays["feature"],
        arrays["left"], arrays["right"], arrays["threshold"], arrays["shares"], roots,
    )  # fmt: skip
    wrong = _wrong_answers(forest)
    if wrong is not None:
        raise CertificateError(f"{path}: {wrong}")
    return forest


def _wrong_answers(forest: Answering) -> str | None:
    """Return what is wrong with trees that are walked directly."""
    leaf = forest.feature < 0
    inner = ~leaf
    place = np.arange(len(leaf)) - np.repeat(forest.roots[:-1], np.diff(forest.roots))
    size = np.repeat(np.diff(forest.roots), np.diff(forest.roots))
    labels = forest.labels
    if forest.classes.ndim != 1 or forest.classes.dtype.kind not in "biufU" or not labels:
        return "has labels that are neither numbers nor strings"
    if not is_ascending(labels):
        return "has labels that are not ascending"
    if forest.shares.shape[1] != len(labels) or not 1 <= forest.features < 2**31:
        return "does not have one share per label, or has rows without features"
    if (forest.feature < -1).any() or (forest.feature >= forest.features).any():
        return "splits on a feature that does not exist"
    if not np.isfinite(forest.threshold).all():
        return "has a threshold that is not a number"
    # Children come after their parents, so that every walk ends.
    for children in (forest.left[inner], forest.right[inner]):
        if (children <= place[inner]).any() or (children >= size[inner]).any():
            return "has a node that does not precede its child"
    return None
