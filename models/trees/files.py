"""Files of trees, of whatever library: one archive with the arrays of an `Ensemble`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TreesError
from leaveout.kernel.trees import Ensemble, Nodes
from leaveout.models.archive import (
    MANIFEST,
    expect_arrays,
    manifest_array,
    read_archive,
    read_manifest,
    write_archive,
)
from leaveout.models.trees.assemble import expect, place

START = b"PK"  # how a file begins

_VERSION = 1
_KIND = "trees"
_TYPES = {
    "roots": ("<i8", 1), "feature": ("<i4", 1), "threshold": ("<f8", 1), "missing_left": ("|b1", 1),
    "set": ("<i4", 1), "left": ("<i8", 1), "right": ("<i8", 1), "sets": ("|b1", 2),
    "values": ("<f8", 2), "base": ("<f8", 1),
}  # fmt: skip
Arrays = dict[str, NDArray[Any]]
Types = Mapping[str, tuple[str, int]]
M = TypeVar("M", bound=msgspec.Struct)
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
    """Write a file atomically; equal ensembles give equal bytes."""
    arrays = {
        name: getattr(ensemble if name == "base" else ensemble.nodes, name) for name in _TYPES
    }
    scalars = {name: getattr(ensemble, name) for name in _Manifest.__struct_fields__[2:]}
    write_typed(Path(path), arrays, _TYPES, _Manifest(_VERSION, _KIND, **scalars))


def read_archive_of_trees(path: Path) -> Ensemble:
    """Read and fully check what `write_trees` wrote."""
    arrays, manifest = read_typed(path, _TYPES, _Manifest, _VERSION)
    base = arrays.pop("base")
    scalars = {name: getattr(manifest, name) for name in _Manifest.__struct_fields__[2:]}
    ensemble = Ensemble(nodes=Nodes(**arrays), base=base, **scalars)
    with place(str(path)):
        expect(manifest.kind == _KIND, f"holds {manifest.kind[:40]!r}, not {_KIND!r}")
        ensemble.nodes.check(manifest.features)
        _check(ensemble)
    return ensemble


def write_typed(path: Path, arrays: Arrays, types: Types, manifest: msgspec.Struct) -> None:
    """Write arrays of given types atomically, with a manifest."""
    typed = {name: np.ascontiguousarray(array, types[name][0]) for name, array in arrays.items()}
    typed[MANIFEST] = manifest_array(manifest)
    write_archive(path, typed, TreesError, compressed=True)


def read_typed(path: Path, types: Types, kind: type[M], version: int) -> tuple[Arrays, M]:
    """Read arrays of given types, and their manifest."""
    arrays = read_archive(path, TreesError)
    expect_arrays(path, arrays, TreesError, (*types, MANIFEST), ())
    manifest = read_manifest(path, arrays.pop(MANIFEST), kind, TreesError, version)
    for name, (dtype, dimensions) in types.items():
        if arrays[name].dtype != np.dtype(dtype) or arrays[name].ndim != dimensions:
            raise TreesError(f"{path}: the array {name!r} has the wrong type; write it again")
    return arrays, manifest


def _check(ensemble: Ensemble) -> None:
    scores, labels, nodes = len(ensemble.base), ensemble.labels, ensemble.nodes
    expect(0 < scores == nodes.values.shape[1], "'base' is not a number for each score")
    expect(np.isfinite(ensemble.base), "'base' is not finite")
    expect(nodes.sets.shape[1] or not len(nodes.sets), "'sets' has no column for other categories")
    expect(len(ensemble.names) in (0, ensemble.features), f"has {len(ensemble.names)} names")
    expect(not labels or len(labels) == scores or (scores == 1 and len(labels) == 2),
           f"has {len(labels)} labels of {scores} scores")  # fmt: skip
    expect(len(set(labels)) == len(labels), "two labels have one name")
    expect(1 <= ensemble.divisor <= ensemble.trees, "'divisor' is out of range")
    expect(ensemble.slack >= 0 and ensemble.tie >= 0, "'slack' or 'tie' is negative")
    expect(ensemble.link in _LINKS, f"the link {ensemble.link[:40]!r} is not supported")
