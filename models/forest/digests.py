"""Digests of a forest: of its settings alone, and of the forest with its rows."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.plain import Ensemble


def kind_digest(ensemble: Ensemble) -> str:
    """Return a digest of what changes never touch: settings, seed, features and labels."""
    hashed = hashlib.sha256(msgspec.json.encode(ensemble.settings))
    hashed.update(f" {ensemble.X.shape[1]} ".encode())
    hashed.update(msgspec.json.encode(ensemble.classes.tolist()))
    return hashed.hexdigest()


def forest_digest(ensemble: Ensemble) -> str:
    """Return a digest of a forest and its rows; equal forests have equal digests."""
    hashed = hashlib.sha256(kind_digest(ensemble).encode())
    _put(hashed, ensemble.names, ensemble.X, ensemble.y)
    for tree in ensemble.trees:
        _put(hashed, tree.feature, tree.threshold, tree.left, tree.right, tree.counts)
    return hashed.hexdigest()


def _put(hashed: Any, *arrays: NDArray[Any]) -> None:
    for array in arrays:
        hashed.update(f"{array.dtype.str} {array.shape}\n".encode())
        hashed.update(np.ascontiguousarray(array).tobytes())
