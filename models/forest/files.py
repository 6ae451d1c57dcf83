"""Forest files: one ``.npz`` of plain arrays with a JSON manifest.

The same forest always gives the same bytes, whatever was deleted on the way to it.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from leaveout.errors import ForestError
from leaveout.files import ARCHIVE, open_atomically, open_file
from leaveout.models.forest.layout import SMALL
from leaveout.models.forest.plain import Ensemble, PlainTree, Settings
from leaveout.models.forest.validity import problem_of
from leaveout.models.npz import refuse_bombs, refuse_damage

_FORMAT = "leaveout forest"
_VERSION = 2
_READ = (1, 2)
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


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The manifest: everything but the arrays, and how they divide into trees.

    ``small`` is the size up to which nodes cache nothing; ``sizes`` are each tree's nodes and
    statistics; ``digest`` is the SHA-256 of all arrays in order.
    """

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
        raise ForestError(f"{path}: labels must be numbers or text to be saved")
    return classes


def save_ensemble(ensemble: Ensemble, path: Path) -> None:
    """Write a forest file, atomically."""
    arrays = _file_arrays(ensemble, stored_labels(ensemble.classes, path))
    sizes = [(len(tree.feature), len(tree.cached_node)) for tree in ensemble.trees]
    manifest = _Manifest(
        _FORMAT, _VERSION, ensemble.settings, SMALL, ensemble.next_name, sizes, _digest(arrays)
    )
    try:
        with open_atomically(path) as stream, zipfile.ZipFile(stream, "w") as archive:
            _write(archive, _MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
            for name, array in arrays.items():
                content = io.BytesIO()
                npy.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
                _write(archive, f"{name}.npy", content.getvalue())
    except OSError as error:
        raise ForestError(f"{path}: cannot be written: {error.strerror or error}") from error


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
    return arrays


def _write(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content, compresslevel=1)


def load_ensemble(path: Path) -> Ensemble:
    """Read a forest file and check its structure in full.

    No file can make a kernel read out of bounds; statistics are checked by ``caches_sound``.
    """
    try:
        with (
            refuse_damage(),
            open_file(path, ARCHIVE) as file,
            zipfile.ZipFile(file) as archive,
        ):
            refuse_bombs(archive, os.fstat(file.fileno()).st_size)
            names = archive.namelist()
            if _MANIFEST not in names:
                raise ForestError(f"{path}: not a forest file: it has no {_MANIFEST}")
            text = archive.read(_MANIFEST)
            arrays = {}
            for name in _ARRAYS:
                if f"{name}.npy" not in names:
                    raise ForestError(f"{path}: the array {name!r} is missing")
                with archive.open(f"{name}.npy") as stream:
                    arrays[name] = npy.read_array(stream, allow_pickle=False)
    except OSError as error:
        raise ForestError(f"{path}: cannot be read: {error.strerror or error}") from error
    except MemoryError:
        raise ForestError(f"{path}: its arrays do not fit into memory") from None
    except ForestError:
        raise
    except ValueError as error:
        raise ForestError(f"{path}: damaged, or not a forest file: {error}") from error
    manifest = _manifest(path, text)
    for name, (dtype, ndim) in _ARRAYS.items():
        array = arrays[name]
        if array.ndim != ndim or (dtype and array.dtype != np.dtype(dtype)):
            raise ForestError(f"{path}: the array {name!r} has another type than a forest's")
    if _digest(arrays) != manifest.digest:
        raise ForestError(f"{path}: damaged: the arrays are not those the manifest was written for")
    ensemble = _divide(path, arrays, manifest)
    problem = problem_of(ensemble)
    if problem is not None:
        raise ForestError(f"{path}: not a forest: {problem}")
    return ensemble


def _manifest(path: Path, text: bytes) -> _Manifest:
    try:
        head = msgspec.json.decode(text)
        if not isinstance(head, dict) or head.get("format") != _FORMAT:
            raise ForestError(f"{path}: not a forest file: its manifest says otherwise")
        if head.get("version") not in _READ:
            raise ForestError(
                f"{path}: version {head.get('version')!r} of the format; this program reads "
                f"versions {' and '.join(map(str, _READ))}"
            )
        manifest = msgspec.json.decode(text, type=_Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ForestError(f"{path}: {_MANIFEST}: {error}") from error
    if manifest.small != SMALL:
        raise ForestError(f"{path}: nodes cache from {manifest.small} rows on, here from {SMALL}")
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
    return Ensemble(
        manifest.settings, arrays["classes"], arrays["names"], arrays["X"], arrays["y"], trees,
        manifest.next_name,
    )  # fmt: skip
