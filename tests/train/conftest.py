"""Small data to train on, and the shared data sets where they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def blobs(tmp_path):
    """Write an NPZ of 61 rows, 6 features, 3 labels, with a test part, all in [0, 1]."""
    rng = np.random.default_rng(5)
    y = np.arange(91) % 3
    X = rng.random((91, 6)).astype(np.float32) * 0.6
    X[np.arange(91), y] += 0.4
    path = tmp_path / "blobs.npz"
    np.savez(path, X_train=X[:61], y_train=y[:61], X_test=X[61:], y_test=y[61:])
    return path


@pytest.fixture
def shared():
    """Return the path of a shared data set, or skip."""

    def find(name: str) -> Path:
        path = SHARED / name
        if not path.exists():
            pytest.skip(f"{path} is not here: the public data sets are not part of the project")
        return path

    return find
