"""Folders a guard can serve, and points to ask it about."""

from __future__ import annotations

import numpy as np
import pytest

from support import networks
from support.guarded_forests import ServedForest, forest_folder
from support.guards import Served, make_folder


@pytest.fixture(scope="session")
def leaky(tmp_path_factory) -> Served:
    """Three labels, two features, members that disagree in good part of the box."""
    model = networks.dense(np.random.default_rng(5), (2, 6, 5, 3))
    return make_folder(tmp_path_factory.mktemp("leaky"), model, seed=5, members=8, spread=0.05)


@pytest.fixture(scope="session")
def wooded(tmp_path_factory) -> ServedForest:
    """A forest of three labels and two features; deletions matter in good part of the square."""
    return forest_folder(tmp_path_factory.mktemp("wooded"))


@pytest.fixture(scope="session", params=["leaky", "wooded"])
def either(request) -> Served | ServedForest:
    """A network, and a forest."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def grid() -> np.ndarray:
    side = np.linspace(0, 1, 25, dtype=np.float32)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
