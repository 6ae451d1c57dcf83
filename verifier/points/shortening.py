"""Shortening of certificates by removing what checking does not use."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.native.files.proof_trees import narrow
from leaveout.deadline import NEVER, Deadline
from leaveout.files import open_atomically
from leaveout.models.npz import put_array, read_arrays
from leaveout.verifier.checker.check import spares
from leaveout.verifier.checker.spare import Spare

Arrays = dict[str, NDArray[Any]]

_PER_NODE = ("kind", "index", "side", "point", "target", "error", "tie", "errors")
_PLAIN = ("cz", "cd")
"""Arrays that a reader maps, if they are large."""


class _LateError(Exception):
    """The time for checking is over."""


def shorten(
    path: Path,
    networks: Sequence[Path],
    families: Sequence[Path],
    deadline: Deadline = NEVER,
) -> bool:
    """Rewrite a certificate without what its check does not use.

    Dropped: nodes below an empty one, multipliers of empty leaves, and those the rule's own
    replace.
    """

    def look(name: str, label: int | None, done: int, total: int) -> None:
        if deadline.over:
            raise _LateError

    if deadline.over:
        return False
    try:
        found = spares(path, network=networks, family=families, progress=look)
    except _LateError:
        return False
    arrays = read_arrays(path)
    for name, spare in found.items():
        _cut(arrays, name, spare)
    with open_atomically(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            put_array(archive, name, array, packed=name.rpartition(".")[2] not in _PLAIN)
    return True


def _cut(arrays: Arrays, name: str, spare: Spare) -> None:
    """Shorten one tree."""

    def own(key: str) -> NDArray[Any]:
        return arrays[f"{name}.{key}"]

    seen, count = spare.seen, len(spare.seen)
    for key in _PER_NODE:
        array = arrays.get(f"{name}.{key}")
        if array is not None and len(array) == count:
            arrays[f"{name}.{key}"] = _once(array[seen])
    place = np.append(np.cumsum(seen) - 1, -1)
    arrays[f"{name}.parent"] = narrow(place[own("parent")[seen]])
    group = own("group")[seen].astype(np.int64)
    members, offsets = own("members"), own("offsets")
    has = np.flatnonzero(group >= 0)
    sets = [members[offsets[g] : offsets[g + 1]] for g in group[has]]
    group[has] = np.arange(len(has))
    arrays[f"{name}.group"] = narrow(group)
    arrays[f"{name}.members"] = narrow(np.concatenate([members[:0], *sets]))
    arrays[f"{name}.offsets"] = narrow(np.cumsum([0, *(len(each) for each in sets)]))
    leaves = sorted(spare.neurons)
    rows = own("proof")[leaves].astype(np.int64)
    proof = np.full(count, -1)
    proof[leaves] = np.arange(len(leaves))
    arrays[f"{name}.proof"] = narrow(proof[seen])
    for key in ("share", "t"):
        if f"{name}.{key}" in arrays:
            arrays[f"{name}.{key}"] = own(key)[rows]
    needed = [spare.neurons[leaf] for leaf in leaves]
    arrays[f"{name}.neuron"] = narrow(np.concatenate([np.zeros(0, np.int64), *needed]))
    arrays[f"{name}.starts"] = narrow(np.cumsum([0, *(len(each) for each in needed)]))
    for key in _PLAIN:
        given = arrays.pop(f"{name}.{key}", None)
        if given is not None:
            parts = [given[row, each] for row, each in zip(rows, needed, strict=True)]
            values = np.concatenate([np.zeros(0, np.float32), *parts])
            if key == "cz" or values.any():
                arrays[f"{name}.{key}"] = values


def _once(values: NDArray[Any]) -> NDArray[Any]:
    """Return the first number if all are equal; integers unchanged."""
    if values.dtype == np.float64 and len(values) and (values == values[0]).all():
        return values[:1]
    return values
