"""Forest files of either kind, including forests that only answer."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from leaveout.files import ARCHIVE, open_file
from leaveout.models.npz import read_arrays, refuse_bombs, refuse_damage
from leaveout.verifier.checker.ensembles.held import (
    STORED,
    Exact,
    is_ascending,
    read_exact,
    read_manifest,
)
from leaveout.verifier.checker.errors import CertificateError

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


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
    """A forest that only answers; ``shares`` has a row a node."""

    path: Path
    classes: NDArray[Any]  # shape (labels,)
    features: int
    rounds_inputs: bool  # whether values are rounded to float32 before they are compared
    feature: Ints  # shape (nodes,)
    left: Ints  # shape (nodes,)
    right: Ints  # shape (nodes,)
    threshold: Floats  # shape (nodes,)
    shares: Floats  # shape (nodes, labels)
    roots: NDArray[np.int64]  # shape (trees + 1,)

    @property
    def labels(self) -> list[Any]:
        """The labels, in Python."""
        known: list[Any] = self.classes.tolist()
        return known


def read_forest(path: Path) -> Exact | Answering:
    """Read a forest file of either kind.

    Raises
    ------
    CertificateError
        If it is missing, damaged, or no forest.
    """
    try:
        with refuse_damage():
            text, arrays = _archive(path)
    except OSError as error:
        raise CertificateError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, MemoryError) as error:
        raise CertificateError(f"{path}: damaged, or not a forest file: {error}") from None
    if text is None:
        return _read_answering(path, arrays)
    return read_exact(path, text, arrays)


def _archive(path: Path) -> tuple[bytes | None, dict[str, NDArray[Any]]]:
    """Return the manifest of an exact forest's file, None of another, and the arrays."""
    with open_file(path, ARCHIVE) as file:
        content = io.BytesIO(file.read())
    with zipfile.ZipFile(content) as archive:
        size = content.getbuffer().nbytes
        if "manifest.json" not in archive.namelist():
            return None, read_arrays(path, only=(*_KINDS, *_OTHERS), strangers=True)
        refuse_bombs(archive, size, ("manifest.json", *STORED), strangers=True)
        text = archive.read("manifest.json")
        arrays = {}
        for name in STORED:
            if f"{name}.npy" not in archive.namelist():
                raise ValueError(f"the array {name!r} is missing")
            with archive.open(f"{name}.npy") as stream:
                arrays[name] = npy.read_array(stream, allow_pickle=False)
    return text, arrays


def _read_answering(path: Path, arrays: dict[str, NDArray[Any]]) -> Answering:
    """Return the forest of a file without training rows."""
    found = {name: arrays.get(name) for name in (*_KINDS, *_OTHERS)}
    if any(each is None for each in found.values()):
        raise CertificateError(f"{path}: is no forest file")
    part = read_manifest(path, arrays["manifest"].tobytes(), _AnsweringPart)
    if part.version != 1 or any(
        arrays[name].dtype != kind or arrays[name].ndim != rank
        for name, (kind, rank) in _KINDS.items()
    ):
        raise CertificateError(f"{path}: is of another format, or has an array of another type")
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
    """Return what is wrong with trees that are walked as they are."""
    leaf = forest.feature < 0
    inner = ~leaf
    place = np.arange(len(leaf)) - np.repeat(forest.roots[:-1], np.diff(forest.roots))
    size = np.repeat(np.diff(forest.roots), np.diff(forest.roots))
    labels = forest.labels
    if forest.classes.ndim != 1 or forest.classes.dtype.kind not in "biufU" or not labels:
        return "has labels that are neither numbers nor text"
    if not is_ascending(labels):
        return "has labels that do not ascend"
    if forest.shares.shape[1] != len(labels) or not 1 <= forest.features < 2**31:
        return "has other shares than labels, or rows without features"
    if (forest.feature < -1).any() or (forest.feature >= forest.features).any():
        return "splits on a feature that there is not"
    if not np.isfinite(forest.threshold).all():
        return "has a threshold that is no number"
    # Children come behind their parents, so that no walk is endless.
    for children in (forest.left[inner], forest.right[inner]):
        if (children <= place[inner]).any() or (children >= size[inner]).any():
            return "has a node whose child is not behind it"
    return None
