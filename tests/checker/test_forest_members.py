"""The checker's forests without a row answer as those that are trained without it."""

from __future__ import annotations

import numpy as np

from leaveout.models.forest import DareForestClassifier
from leaveout.verifier.checker.ensembles.files import read_forest
from leaveout.verifier.checker.ensembles.members import members_of
from leaveout.verifier.checker.ensembles.node_pool import Listed, enlarge, is_full
from leaveout.verifier.checker.ensembles.pairs import put_tree, scored_trees
from leaveout.verifier.checker.ensembles.training import train, without

from support.forest_scripts import random_data, random_forest


def everywhere(features):
    """All inputs."""
    none = np.zeros(0)
    wide = np.full(features, 1e300)
    return Listed(-wide, wide, np.zeros(features + 1, np.int64), none)


def shares(pool, node, x):
    while pool.feature[node] >= 0:
        at = pool.feature[node]
        node = pool.left[node] if x[at] <= pool.threshold[node] else pool.right[node]
    return pool.shares[pool.left[node]]


def mean(pool, roots, x):
    return sum(shares(pool, int(root), x) for root in roots) / len(roots)


def inputs(rng, X, count=12):
    """Inputs at, between and beside the values of rows, none of them missing."""
    known = np.nan_to_num(X)
    picked = known[rng.integers(0, len(X), (count, X.shape[1])), np.arange(X.shape[1])]
    return picked + rng.choice([0.0, 0.0, 0.05, -0.05, 0.5], picked.shape)


def test_members_answer_as_forests_trained_without_the_row(tmp_path):
    changed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X, y = random_data(rng, (2, 3, 8, 40, 130))
        forest = random_forest(rng, X.shape[1], lazy=False).fit(X, y)
        forest.save(tmp_path / "forest.npz")
        held = read_forest(tmp_path / "forest.npz")
        found = members_of(held, everywhere(held.features))
        asked = inputs(rng, X)
        assert (whole_of(found, asked) == forest.predict_proba(asked)).all(), seed
        for row in rng.choice(len(X), min(len(X), 12), replace=False):
            left = forest.retrain([int(row)])
            place = np.searchsorted(forest.classes_, left.classes_)
            for x, expected in zip(asked, left.predict_proba(asked), strict=True):
                got = mean(found.pool, found.others[row], x)
                assert (got[place] == expected).all(), (seed, row)
                assert got.sum() == got[place].sum()
            changed += (found.others[row] != found.whole).any()
    assert changed > 100


def test_members_are_node_for_node_what_training_without_the_row_gives(tmp_path):
    changed = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, y = random_data(rng, (2, 3, 8, 40, 130, 300))
        forest = random_forest(rng, X.shape[1], lazy=False).fit(X, y)
        forest.save(tmp_path / "forest.npz")
        held = read_forest(tmp_path / "forest.npz")
        found = members_of(held, everywhere(held.features))
        pool = found.pool
        for row in rng.choice(len(X), min(len(X), 25), replace=False):
            anew = train(without(held, [int(row)]))
            for t, tree in enumerate(scored_trees(anew, held.labels)):
                while is_full(pool, 2 * len(tree[0])):
                    pool = enlarge(pool)
                assert put_tree(pool, *tree) == found.others[row, t], (seed, row, t)
            changed += (found.others[row] != found.whole).any()
    assert changed > 200


def whole_of(found, asked):
    return np.array([mean(found.pool, found.whole, x) for x in asked])


def test_nodes_that_a_set_of_inputs_does_not_tell_apart_are_one(tmp_path):
    X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    forest = DareForestClassifier(6, k=5, random_state=0).fit(X, [0, 0, 1, 1])
    forest.save(tmp_path / "forest.npz")
    held = read_forest(tmp_path / "forest.npz")
    lower, upper = np.array([0.0, 0.0]), np.array([0.2, 1.0])
    narrow = Listed(lower, upper, np.zeros(3, np.int64), np.zeros(0))
    # Up to 0.2 the first feature, by which the labels are told apart, is known.
    assert len(np.unique(members_of(held, narrow).whole)) == 1
    listed = Listed(
        np.array([0.0, 0.0]), np.array([3.0, 1.0]), np.array([0, 2, 2]), np.array([0.0, 3.0])
    )
    found = members_of(held, listed)
    size = found.pool.used[0]
    asked = found.pool.feature[:size] == 0
    assert set(found.pool.threshold[:size][asked].tolist()) == {0.0}
