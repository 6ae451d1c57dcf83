"""Forest files: one ``.npz`` of plain arrays with a JSON manifest.

The same forest always gives the same bytes, whatever was deleted on the way to it.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from leaveout.errors import ForestError
from leaveout.files import ARCHIVE, open_atomically, open_file, refuse_unwritten
from leaveout.kernel.files import refuse_bombs, refuse_damage
from leaveout.models.forest.chance import content_keys, copies_of, in_tree, members
from leaveout.models.forest.plain import Ensemble, Groups, PlainTree, Settings
from leaveout.models.forest.scored import ScoredTree, leaves_of
from leaveout.models.forest.table import internal
from leaveout.models.forest.tree_arrays import SMALL

LARGEST = 2.0**1000
"""Values must be smaller, so that no difference of two overflows."""


def problem_of(ensemble: Ensemble) -> str | None:
    """Return the first problem of an ensemble, or None."""
    for problem in _setting_problems(ensemble.settings, ensemble.X.shape[1]):
        return problem
    for problem in _row_problems(ensemble):
        return problem
    chosen = holders(ensemble)
    for i, tree in enumerate(ensemble.trees):
        for problem in _tree_problems(ensemble, tree, chosen[i]):
            return f"tree {i}: {problem}"
    return None


def holders(ensemble: Ensemble) -> Sequence[NDArray[np.int64]]:
    """Return the rows each tree should hold, ascending."""
    settings, rows = ensemble.settings, len(ensemble.names)
    if settings.trees_a_row == settings.trees:
        return [np.arange(rows)] * settings.trees
    X = internal(ensemble.X)
    keys = content_keys(X, ensemble.y, ensemble.classes, settings.seed)
    rank, _ = copies_of(keys, X, ensemble.y, np.arange(rows), rows)
    chosen = members(keys, rank, settings.trees, settings.trees_a_row)
    return [in_tree(chosen, rows, i).astype(np.int64) for i in range(settings.trees)]


def _setting_problems(settings: Settings, attributes: int) -> Iterator[str]:
    largest = 2**31 - 1
    for name, least, most in (
        ("trees", 1, largest), ("thresholds", 1, largest), ("attributes", 1, attributes),
        ("random_depth", 0, largest), ("least", 2, largest), ("seed", 0, 2**63 - 1),
    ):  # fmt: skip
        value = getattr(settings, name)
        if not least <= value <= most:
            yield f"the setting {name} is {value}, expected {least} to {most}"
    if settings.depth is not None and not 1 <= settings.depth <= largest:
        yield f"the setting depth is {settings.depth}"
    if not 0.0 < settings.share <= 1.0:
        yield f"the setting share is {settings.share}, expected a number in (0, 1]"
    if settings.criterion not in ("gini", "entropy"):
        yield f"the setting criterion is {settings.criterion!r}"


def _row_problems(ensemble: Ensemble) -> Iterator[str]:
    names, y, labels = ensemble.names, ensemble.y, len(ensemble.classes)
    if not len(names) or not ensemble.X.shape[1] or not len(names) == len(y) == len(ensemble.X):
        yield "the rows' names, labels and values differ in number"
    elif not ensemble.next_name < 2**62:
        yield "the next row's name is too large"
    elif names[0] < 0 or np.any(np.diff(names) <= 0) or names[-1] >= ensemble.next_name:
        yield "the rows' names are not ascending and below the next one"
    elif np.any(np.abs(ensemble.X) >= LARGEST):
        yield "a value is too large"
    elif not np.array_equal(np.unique(y), np.arange(labels)):
        yield "the rows' labels do not match the forest's labels"
    elif ensemble.classes.dtype.kind not in "biufUO" or len(np.unique(ensemble.classes)) != labels:
        yield "the labels are not distinct"
    elif ensemble.groups is not None and (
        len(ensemble.groups.cells) != len(names) or not np.all(ensemble.groups.cells != "")
    ):
        yield "a row has no group"


def _tree_problems(ensemble: Ensemble, tree: PlainTree, held: NDArray[np.int64]) -> Iterator[str]:
    size, labels = len(tree.feature), len(ensemble.classes)
    leaf = tree.feature < 0
    if not size or tree.counts.shape[1:] != (labels,) or tree.cached_values.shape[1:] != (2,):
        yield "its arrays do not have the shapes of a tree"
    elif tree.cached_counts.shape[1:] != (3 * labels,):
        yield "its statistics do not have the shapes of a tree"
    elif not _numbers(tree.threshold) or not _numbers(tree.cached_values):
        yield "a threshold is not a number"
    elif np.any(tree.feature < -1) or np.any(tree.feature >= ensemble.X.shape[1]):
        yield "a node splits on an attribute that does not exist"
    elif not in_preorder(tree):
        yield "its nodes are not in preorder"
    elif np.any(tree.counts < 0) or (
        np.any(tree.counts.sum(axis=1, dtype=np.int64) < 1) and (size > 1 or len(held))
    ):
        yield "a node has no rows"
    elif not np.array_equal(np.sort(tree.rows), held):
        yield "its leaves do not list each of its rows exactly once"
    elif not np.array_equal(
        tree.counts[~leaf].astype(np.int64),
        tree.counts[tree.left[~leaf]].astype(np.int64) + tree.counts[tree.right[~leaf]],
    ):
        yield "a node does not count the rows of its children"
    elif not np.array_equal(tree.counts[0], np.bincount(ensemble.y[held], minlength=labels)):
        yield "the root does not count every row"
    elif not _leaves_list(ensemble, tree, held):
        yield "a leaf lists rows that do not reach it"
    else:
        yield from _cache_problems(ensemble, tree)


def _numbers(values: NDArray[np.float64]) -> bool:
    """Return whether all values are finite or minus infinity, which means missing."""
    return bool(np.all(values < np.inf))


def in_preorder(tree: PlainTree | ScoredTree) -> bool:
    """Return whether the nodes are in preorder, with none left over."""
    waiting: list[int] = []
    left, right, inner = tree.left.tolist(), tree.right.tolist(), (tree.feature >= 0).tolist()
    last = len(inner) - 1
    for node, splits in enumerate(inner):
        if splits:
            if left[node] != node + 1 or not node + 1 < right[node] <= last:
                return False
            waiting.append(right[node])
            continue
        if left[node] != -1 or right[node] != -1:
            return False
        follows = node == last or (bool(waiting) and waiting.pop() == node + 1)
        if not follows:
            return False
    return not waiting


def _leaves_list(ensemble: Ensemble, tree: PlainTree, held: NDArray[np.int64]) -> bool:
    """Return whether each leaf lists exactly the rows that fall into it, ascending."""
    leaf = np.flatnonzero(tree.feature < 0)
    expected = np.zeros(len(ensemble.names), np.int64)
    sizes = tree.counts[leaf].sum(axis=1)
    if sizes.sum() != len(held):
        return False
    expected[tree.rows] = np.repeat(leaf, sizes)
    node = np.zeros(len(expected), np.int64)
    node[held] = leaves_of(tree, ensemble.X[held])
    inside = np.repeat(np.arange(len(leaf)), sizes)
    ascending = np.array_equal(np.lexsort((tree.rows, inside)), np.arange(len(inside)))
    labels = len(ensemble.classes)
    found = np.bincount(inside * labels + ensemble.y[tree.rows], minlength=len(leaf) * labels)
    counted = np.array_equal(found.reshape(len(leaf), labels), tree.counts[leaf])
    return ascending and counted and np.array_equal(node, expected)


def _cache_problems(ensemble: Ensemble, tree: PlainTree) -> Iterator[str]:
    nodes, attributes = tree.cached_node, tree.cached_attribute
    settings = ensemble.settings
    wanted = np.flatnonzero((tree.feature >= 0) & (tree.counts.sum(axis=1) > SMALL))
    if not np.array_equal(np.unique(nodes), wanted) or np.any(np.diff(nodes) < 0):
        yield "the wrong nodes cache statistics"
        return
    if np.any(attributes < 0) or np.any(attributes >= ensemble.X.shape[1]):
        yield "a statistic is for an attribute that does not exist"
        return
    if np.any(tree.cached_counts < 0):
        yield "a statistic counts a negative number of rows"
        return
    for attribute in np.unique(attributes):
        mine = tree.cached_values[attributes == attribute]
        values = np.unique(internal(ensemble.X[:, attribute]))
        if not np.all(np.isin(mine, values)) or np.any(mine[:, 0] >= mine[:, 1]):
            yield f"a statistic of attribute {attribute} is for values that no two rows have"
            return
    at_random = tree.depths[nodes] < settings.random_depth
    if np.any(attributes[at_random] != tree.feature[nodes[at_random]]):
        yield "a random node caches an attribute other than its own"
    if len(np.unique(nodes[at_random])) != int(at_random.sum()):
        yield "a random node caches more than one range"
    new = np.concatenate(([True], (np.diff(nodes) != 0) | (np.diff(attributes) != 0)))
    if np.any(~new[1:] & (tree.cached_values[1:, 0] <= tree.cached_values[:-1, 0])):
        yield "a node's thresholds of an attribute are not ascending"
    runs = np.flatnonzero(new)
    lengths = np.diff(np.concatenate((runs, [len(nodes)])))
    pairs = (
        np.unique(np.stack((nodes[runs], attributes[runs])), axis=1).shape[1] if len(nodes) else 0
    )
    if len(nodes) and (pairs != len(runs) or lengths.max() > settings.thresholds):
        yield "a node caches more thresholds of an attribute than allowed"
    if len(nodes) and np.bincount(nodes[runs]).max() > settings.attributes:
        yield "a node caches more attributes than allowed"


_FORMAT = "leaveout forest"
_VERSION, _GROUPED = 2, 3
_READ = (1, _VERSION, _GROUPED)
"""A file of version 1 says nothing of the share of trees that hold a row: all do."""
_MANIFEST = "manifest.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_PARTS = tuple(field.name for field in fields(PlainTree))
_ARRAYS: dict[str, tuple[str, int]] = {
    "classes": ("", 1), "names": ("<i8", 1), "X": ("<f8", 2), "y": ("<i4", 1),
    "feature": ("<i4", 1), "threshold": ("<f8", 1), "left": ("<i4", 1), "right": ("<i4", 1),
    "counts": ("<i4", 2), "rows": ("<i4", 1), "cached_node": ("<i4", 1),
    "cached_attribute": ("<i4", 1), "cached_values": ("<f8", 2), "cached_counts": ("<i4", 2),
}  # fmt: skip


_GROUPS: dict[str, tuple[str, int]] = {"group": ("", 1), "group_column": ("", 1)}
"""Of version 3 alone: the cell of each row, and the one column that they are of."""


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All but the arrays: ``small`` rows cache nothing; ``sizes`` count nodes and statistics."""

    format: str
    version: int
    settings: Settings
    small: int
    next_name: int
    sizes: list[tuple[int, int]]
    digest: str


def _digest(arrays: dict[str, NDArray[Any]]) -> str:
    hashed = hashlib.sha256()
    for name, array in arrays.items():
        hashed.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        hashed.update(np.ascontiguousarray(array).tobytes())
    return hashed.hexdigest()


def stored_labels(classes: NDArray[np.generic], path: Path) -> NDArray[np.generic]:
    """Return labels in the form that a file stores."""
    if classes.dtype.kind == "O" and all(isinstance(label, str) for label in classes):
        classes = classes.astype(np.str_)
    if classes.dtype.kind not in "biufU":
        raise ForestError(f"{path}: only labels that are numbers or text can be saved")
    return classes


def save_ensemble(ensemble: Ensemble, path: Path) -> None:
    """Write a forest file, atomically."""
    arrays = _file_arrays(ensemble, stored_labels(ensemble.classes, path))
    sizes = [(len(tree.feature), len(tree.cached_node)) for tree in ensemble.trees]
    version = _VERSION if ensemble.groups is None else _GROUPED
    manifest = _Manifest(
        _FORMAT, version, ensemble.settings, SMALL, ensemble.next_name, sizes, _digest(arrays)
    )
    with (
        refuse_unwritten(ForestError, path),
        open_atomically(path) as stream,
        zipfile.ZipFile(stream, "w") as archive,
    ):
        _write(archive, _MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
        for name, array in arrays.items():
            content = io.BytesIO()
            npy.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
            _write(archive, f"{name}.npy", content.getvalue())


def digest_of(ensemble: Ensemble) -> str:
    """Return the SHA-256 of a forest's arrays, as in its file's manifest."""
    return _digest(_file_arrays(ensemble, stored_labels(ensemble.classes, Path("a forest"))))


def _file_arrays(ensemble: Ensemble, classes: NDArray[np.generic]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file, in order."""
    arrays: dict[str, NDArray[Any]] = {
        "classes": classes, "names": ensemble.names, "X": ensemble.X, "y": ensemble.y,
    }  # fmt: skip
    for part in _PARTS:
        arrays[part] = np.concatenate([getattr(tree, part) for tree in ensemble.trees])
    if ensemble.groups is not None:
        arrays["group"] = ensemble.groups.cells
        arrays["group_column"] = np.array([ensemble.groups.column])
    return arrays


def _write(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content, compresslevel=1)


def load_ensemble(path: Path) -> Ensemble:
    """Read a forest file, checked but for its statistics; no kernel reads out of bounds."""
    try:
        with (
            refuse_damage(),
            open_file(path, ARCHIVE) as file,
            zipfile.ZipFile(file) as archive,
        ):
            refuse_bombs(archive, os.fstat(file.fileno()).st_size)
            names = archive.namelist()
            if _MANIFEST not in names:
                raise ForestError(f"{path}: not a forest file: no {_MANIFEST}")
            text = archive.read(_MANIFEST)
            manifest = _manifest(path, text)
            is_grouped = manifest.version == _GROUPED
            if not is_grouped and any(f"{name}.npy" in names for name in _GROUPS):
                raise ForestError(f"{path}: its version has no groups, but the file has")
            types = _ARRAYS | (_GROUPS if is_grouped else {})
            arrays = {}
            for name in types:
                if f"{name}.npy" not in names:
                    raise ForestError(f"{path}: the array {name!r} is missing")
                with archive.open(f"{name}.npy") as stream:
                    arrays[name] = npy.read_array(stream, allow_pickle=False)
    except OSError as error:
        raise ForestError(f"{path}: cannot read: {error.strerror or error}") from error
    except MemoryError:
        raise ForestError(f"{path}: its arrays do not fit in memory") from None
    except ForestError:
        raise
    except ValueError as error:
        raise ForestError(f"{path}: damaged, or not a forest file: {error}") from error
    for name, (dtype, ndim) in types.items():
        array = arrays[name]
        named = name not in _GROUPS or array.dtype.kind == "U"
        if array.ndim != ndim or (dtype and array.dtype != np.dtype(dtype)) or not named:
            raise ForestError(f"{path}: the array {name!r} has the wrong type for a forest")
    if _digest(arrays) != manifest.digest:
        raise ForestError(f"{path}: damaged: the arrays do not match the manifest")
    ensemble = _divide(path, arrays, manifest)
    problem = problem_of(ensemble)
    if problem is not None:
        raise ForestError(f"{path}: not a forest: {problem}")
    return ensemble


def _manifest(path: Path, text: bytes) -> _Manifest:
    try:
        head = msgspec.json.decode(text)
        if not isinstance(head, dict) or head.get("format") != _FORMAT:
            raise ForestError(f"{path}: not a forest file: its manifest is for something else")
        if head.get("version") not in _READ:
            raise ForestError(
                f"{path}: format version {head.get('version')!r}; this program reads versions "
                f"{_READ[0]} to {_READ[-1]}"
            )
        manifest = msgspec.json.decode(text, type=_Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ForestError(f"{path}: {_MANIFEST}: {error}") from error
    if manifest.small != SMALL:
        raise ForestError(
            f"{path}: nodes cache statistics from {manifest.small} rows upwards, but this "
            f"program caches from {SMALL}"
        )
    return manifest


def _divide(path: Path, arrays: dict[str, NDArray[Any]], manifest: _Manifest) -> Ensemble:
    sizes = manifest.sizes
    if any(not 0 <= count < 2**40 for size in sizes for count in size):
        raise ForestError(f"{path}: the manifest does not divide the arrays into trees")
    nodes = np.concatenate(([0], np.cumsum([size[0] for size in sizes], dtype=np.int64)))
    cached = np.concatenate(([0], np.cumsum([size[1] for size in sizes], dtype=np.int64)))
    counts = arrays["counts"].astype(np.int64).sum(axis=1)
    if len(sizes) != manifest.settings.trees or nodes[-1] != len(counts) or 0 in np.diff(nodes):
        raise ForestError(f"{path}: the manifest does not divide the arrays into trees")
    # A tree's nodes begin with its root, which counts its rows.
    held = counts[nodes[:-1]]
    if manifest.settings.share == 1.0:
        held = np.full(len(sizes), len(arrays["names"]))
    rows = np.concatenate(([0], np.cumsum(held)))
    ends = {"cached": cached, "rows": rows}
    bounds = {part: ends.get(part.split("_")[0], nodes) for part in _PARTS}
    short = [part for part in _PARTS if len(arrays[part]) != bounds[part][-1]]
    if short:
        raise ForestError(f"{path}: the manifest does not divide the arrays into trees")
    trees = tuple(
        PlainTree(**{p: arrays[p][bounds[p][i] : bounds[p][i + 1]] for p in _PARTS})
        for i in range(len(sizes))
    )
    groups = None
    if "group" in arrays:
        if arrays["group_column"].shape != (1,):
            raise ForestError(f"{path}: rows are grouped by several columns")
        groups = Groups(str(arrays["group_column"][0]), arrays["group"])
    return Ensemble(
        manifest.settings, arrays["classes"], arrays["names"], arrays["X"], arrays["y"], trees,
        manifest.next_name, groups,
    )  # fmt: skip
