"""The kernels grow the trees that a page of plain Python defines."""

from __future__ import annotations

import numpy as np

from leaveout.models.forest import DareForestClassifier, trees_of

from support import forest_definition as brute
from support.depth import rounds
from support.forest_definition import defined, nested
from support.forest_scripts import random_data, random_forest


def test_trees_are_those_of_the_definition():
    for seed in range(rounds(150)):
        rng = np.random.default_rng(seed)
        X, y = random_data(rng, sizes=(3, 8, 25, 60, 90))
        forest = random_forest(rng, X.shape[1]).fit(X, y)
        assert [nested(tree) for tree in trees_of(forest)] == defined(forest, X, y), seed


def test_trees_with_many_two_valued_attributes_are_those_of_the_definition():
    rng = np.random.default_rng(1)
    X = (rng.random((120, 150)) < rng.random(150)).astype(float)
    X[:, 3] = rng.normal(size=120)
    y = rng.integers(0, 3, 120)
    for seed in range(3):
        forest = DareForestClassifier(2, max_features=12, random_state=seed).fit(X, y)
        assert [nested(tree) for tree in trees_of(forest)] == defined(forest, X, y)


def test_cached_thresholds_are_those_of_the_definition():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(150, 2)).round(1), rng.integers(0, 2, 150)
    forest = DareForestClassifier(1, k=4, max_features=2, random_state=9).fit(X, y)
    tree = trees_of(forest)[0]
    key = brute.mixed((brute.mixed((9 + brute.STEP) & brute.MASK) + brute.STEP) & brute.MASK)
    for j in range(2):
        mine = (tree.cached_node == 0) & (tree.cached_attribute == j)
        pairs = brute.thresholds(X[:, j].tolist(), y.tolist(), brute.priority(key, j), 4)
        assert [tuple(pair) for pair in tree.cached_values[mine].tolist()] == pairs


def test_a_midpoint_that_rounds_up_still_parts_its_values():
    low = 1.0 - 2.0**-53
    X, y = np.array([[low], [1.0]]), np.array([0, 1])
    forest = DareForestClassifier(2, random_state=0).fit(X, y)
    assert forest.predict(X).tolist() == [0, 1]
    assert trees_of(forest)[0].threshold[0] == low
