"""Files of trees, of whatever library: one archive with the arrays of an `Ensemble`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TreesError
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.trees import Ensemble, Nodes
from leaveout.models.archive import (
    MANIFEST,
    expect_arrays,
    manifest_array,
    read_archive,
    read_manifest,
    write_archive,
)

START = b"PK"
"""How a file begins."""

_VERSION = 1
_KIND = "trees"
_TYPES = {
    "roots": ("<i8", 1), "feature": ("<i4", 1), "threshold": ("<f8", 1), "missing_left": ("|b1", 1),
    "set": ("<i4", 1), "left": ("<i8", 1), "right": ("<i8", 1), "sets": ("|b1", 2),
    "values": ("<f8", 2), "base": ("<f8", 1),
}  # fmt: skip
_LINKS = ("identity", "sigmoid", "softmax", "exp")


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything of an `Ensemble` but its arrays."""

    version: int
    kind: str
    labels: tuple[str, ...]
    features: int
    names: tuple[str, ...]
    divisor: int
    single: bool
    ordered: bool
    slack: float
    link: str
    center: float
    tie: float
    rounds_inputs: bool
    whole_categories: bool
    source: str


def write_trees(ensemble: Ensemble, path: str | Path) -> None:
    """Write a file atomically; equal ensembles give equal bytes.

    Parameters
    ----------
    ensemble : Ensemble
    path : str or Path

    Raises
    ------
    TreesError
        If the file cannot be written.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for name, (kind, _) in _TYPES.items():
        owner = ensemble if name == "base" else ensemble.nodes
        arrays[name] = np.ascontiguousarray(getattr(owner, name), kind)
    scalars = {name: getattr(ensemble, name) for name in _Manifest.__struct_fields__[2:]}
    arrays[MANIFEST] = manifest_array(_Manifest(_VERSION, _KIND, **scalars))
    write_archive(Path(path), arrays, TreesError, compressed=True)


def read_archive_of_trees(path: Path) -> Ensemble:
    """Read and fully check what `write_trees` wrote."""
    arrays = read_archive(path, TreesError)
    expect_arrays(path, arrays, TreesError, (*_TYPES, MANIFEST), ())
    manifest = read_manifest(path, arrays.pop(MANIFEST), _Manifest, TreesError, _VERSION)
    for name, (kind, dimensions) in _TYPES.items():
        if arrays[name].dtype != np.dtype(kind) or arrays[name].ndim != dimensions:
            raise TreesError(f"{path}: the array {name!r} has the wrong type; write it again")
    base = arrays.pop("base")
    scalars = {name: getattr(manifest, name) for name in _Manifest.__struct_fields__[2:]}
    ensemble = Ensemble(nodes=Nodes(**arrays), base=base, **scalars)
    try:
        ensemble.nodes.check(manifest.features)
    except Rejected as error:
        raise TreesError(f"{path}: is not a model of trees: {error}; write it again") from None
    if problem := _problem_of(ensemble, manifest.kind):
        raise TreesError(f"{path}: {problem}; write it again")
    return ensemble


def _problem_of(ensemble: Ensemble, kind: str) -> str | None:
    scores, labels = ensemble.nodes.values.shape[1], ensemble.labels
    numbers = (ensemble.slack, ensemble.tie)
    if kind != _KIND:
        return f"holds {kind[:40]!r}, expected {_KIND!r}"
    if not scores or len(ensemble.base) != scores or not np.isfinite(ensemble.base).all():
        return "'base' is not a finite number for each score"
    if len(ensemble.names) not in (0, ensemble.features):
        return f"has {len(ensemble.names)} names of {ensemble.features} features"
    if labels and len(labels) != scores and (scores > 1 or len(labels) != 2):
        return f"has {len(labels)} labels of {scores} scores"
    if len(set(labels)) < len(labels):
        return "two labels have one name"
    if not 1 <= ensemble.divisor <= ensemble.trees or not all(each >= 0 for each in numbers):
        return "'divisor', 'slack' or 'tie' is out of range"
    if ensemble.link not in _LINKS:
        return f"the link is {ensemble.link[:40]!r}, expected one of {', '.join(_LINKS)}"
    if ensemble.nodes.sets.shape[1] < 1 and len(ensemble.nodes.sets):
        return "'sets' has no column for other categories"
    return None
