"""Damage done to files of trees: reading must end in a refusal or a model, and in nothing else."""

from __future__ import annotations

import numpy as np

from leaveout.errors import TreesError
from leaveout.models.trees.reading import read_trees


def refusal_of(path, data):
    """Write bytes to a file; return the message of what reading it says."""
    path.write_bytes(data)
    try:
        read_trees(path)
    except TreesError as error:
        assert "\n" not in str(error)
        assert str(error).startswith(str(path))
        return str(error)
    return None


def survive_damage(path, data, seed, times=60):
    """Truncate, flip, cut out and repeat bytes of a file."""
    rng = np.random.default_rng(seed)
    for _ in range(times):
        first, last = np.sort(rng.integers(0, len(data), 2))
        assert refusal_of(path, data[:first])
        changed = bytearray(data)
        changed[first] = rng.integers(0, 256)
        refusal_of(path, bytes(changed))
        refusal_of(path, data[:first] + data[last:])
        refusal_of(path, data[:last] + data[first:])
