"""Digests of a forest: of what makes forests out of rows, and of one forest with its rows."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.plain import Ensemble


def kind_digest(ensemble: Ensemble) -> str:
    """Digest of what deletions and additions leave: settings, seed, features and labels."""
    hashed = hashlib.sha256(msgspec.json.encode(ensemble.settings))
    hashed.update(f" {ensemble.X.shape[1]} ".encode())
    hashed.update(msgspec.json.encode(ensemble.classes.tolist()))
    return hashed.hexdigest()


def forest_digest(ensemble: Ensemble) -> str:
    """Digest of a forest and the rows it holds; two have the same if they are the same."""
    hashed = hashlib.sha256(kind_digest(ensemble).encode())
    _put(hashed, ensemble.names, ensemble.X, ensemble.y)
    for tree in ensemble.trees:
        _put(hashed, tree.feature, tree.threshold, tree.left, tree.right, tree.counts)
    return hashed.hexdigest()


def _put(hashed: Any, *arrays: NDArray[Any]) -> None:
    for array in arrays:
        hashed.update(f"{array.dtype.str} {array.shape}\n".encode())
        hashed.update(np.ascontiguousarray(array).tobytes())
