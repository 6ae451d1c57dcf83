"""A service over random points, and where it is kept."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from leaveout.models.sharded import ServiceSettings, ShardedClassifier


@pytest.fixture
def table():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 3))
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=120) > 0, "ill", "well")


@pytest.fixture
def settings():
    def make(**more):
        given = {"shards": 8, "inclusion": 0.3, "mechanism": "exponential", "rows": 200}
        if more.get("mechanism") != "majority":
            given |= {"epsilon": 0.5, "predictions": 20}
        return ServiceSettings(**{**given, **more})

    return make


@pytest.fixture
def service(tmp_path, table, settings):
    """Make a fitted service; seeded, so that it is the same each time."""

    def make(name="service", estimator=None, **more):
        found = ShardedClassifier(
            DecisionTreeClassifier() if estimator is None else estimator,
            settings(**more),
            tmp_path / name,
            seed=b"test",
            chance=random.Random(0),
        )
        return found.fit(*table)

    return make
