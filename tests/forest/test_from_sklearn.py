"""Forests of scikit-learn: read, they answer bit for bit as the estimator does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import (
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier

from leaveout.kernel.forest_file import before_rounding
from leaveout.models.forest import (
    DareForestClassifier,
    ForestError,
    SklearnForest,
    exact_forest,
    from_sklearn,
    read_forest,
)
from leaveout.models.forest.scored import leaves_of, round_to_float32

from support.depth import rounds

FORESTS = (RandomForestClassifier, ExtraTreesClassifier)
TREES = (DecisionTreeClassifier, ExtraTreeClassifier)
LABELS = (np.array([0, 1, 2]), np.array(["no", "yes", "what"]), np.array([-2, 0, 7], np.int16))


def data(seed: int, labels: int = 2, rows: int = 60) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3)) * [1, 1e-3, 1e6]
    X[:, 1] = X[:, 1].round(3)
    return X, rng.integers(0, labels, rows)


def near(forest: SklearnForest, rng: np.random.Generator, size: int = 300) -> Any:
    """Draw inputs at thresholds: float32 values around them, half way between, one bit off."""
    X = np.zeros((size, forest.n_features_in_))
    for feature in range(X.shape[1]):
        cuts = [t.threshold[t.feature == feature] for t in forest.scored.trees]
        one = np.unique(np.append(np.concatenate(cuts), 0.0)).astype(np.float32)
        below, above = (np.nextafter(one, np.float32(end)) for end in (-np.inf, np.inf))
        points = np.concatenate([each.astype(np.float64) for each in (one, below, above, *cuts)])
        half = np.concatenate([(one.astype(np.float64) + each) / 2 for each in (below, above)])
        off = [np.nextafter(half, end) for end in (-np.inf, np.inf)]
        X[:, feature] = rng.choice(np.concatenate((points, half, *off)), size)
    return X


@settings(max_examples=rounds(50), deadline=None)
@given(
    seed=st.integers(0, 2**31),
    make=st.sampled_from(FORESTS + TREES),
    labels=st.integers(1, 3),
    words=st.sampled_from(LABELS),
    weights=st.sampled_from([None, "balanced", "sample"]),
    more=st.sampled_from(
        [{}, {"max_leaf_nodes": 7}, {"ccp_alpha": 0.01}, {"max_depth": 2}, {"criterion": "entropy"}]
    ),
)
def test_answers_are_those_of_the_estimator(seed, make, labels, words, weights, more):
    X, y = data(seed, labels)
    rng = np.random.default_rng(seed)
    given = {"class_weight": "balanced"} if weights == "balanced" else {}
    if make in FORESTS:
        given |= {"n_estimators": int(rng.integers(1, 12)), "n_jobs": 1}
    estimator = make(random_state=seed, **given, **more)
    estimator.fit(X, words[y], sample_weight=rng.random(len(y)) if weights == "sample" else None)
    forest = from_sklearn(estimator)
    at = near(forest, rng)
    expected = estimator.predict_proba(at)
    assert forest.predict_proba(at).tobytes() == expected.tobytes()
    assert np.array_equal(forest.predict(at), estimator.predict(at))
    whole = rng.integers(-(10**6), 10**6, (50, 3))
    assert np.array_equal(forest.predict_proba(whole), estimator.predict_proba(whole))


def test_monotonic_constraints_and_threads_are_no_matter():
    X, y = data(1)
    estimator = RandomForestClassifier(9, random_state=1, n_jobs=2, monotonic_cst=[1, 0, -1])
    forest = from_sklearn(estimator.fit(X, y))
    estimator.n_jobs = 1
    assert np.array_equal(forest.predict_proba(X), estimator.predict_proba(X))


def test_nodes_are_in_preorder_however_the_tree_was_grown():
    X, y = data(5, 3, 200)
    estimator = RandomForestClassifier(4, max_leaf_nodes=20, random_state=0).fit(X, y)
    for tree, own in zip(from_sklearn(estimator).scored.trees, estimator.estimators_, strict=True):
        inner = np.flatnonzero(tree.feature >= 0)
        assert np.array_equal(tree.left[inner], inner + 1)
        assert len(tree.feature) == own.tree_.node_count
        assert np.array_equal(
            tree.shares[leaves_of(tree, round_to_float32(X))],
            own.predict_proba(X.astype(np.float32)),
        )


@settings(max_examples=rounds(300), deadline=None)
@given(
    threshold=st.one_of(
        st.floats(allow_nan=False),
        st.floats(allow_nan=False, width=32),
        st.floats(-1e-44, 1e-44),
        st.floats(-3.5e38, 3.5e38),
    )
)
def test_thresholdsbefore_rounding(threshold):
    cut = np.array([threshold])
    found = before_rounding(cut)
    below, above = (np.nextafter(found, end) for end in (-np.inf, np.inf))
    for x in (found, below, above, cut, np.nextafter(cut, np.inf), -cut, cut / 2):
        if np.isfinite(x).all():
            assert (round_to_float32(x) <= cut) == (x <= found)


def test_gaps_in_the_training_data_leave_finite_thresholds(snapshot):
    X, y = data(3)
    X[y == 1, 0] = np.nan
    estimator = DecisionTreeClassifier(random_state=0).fit(X, y)
    assert np.isinf(estimator.tree_.threshold).any()
    forest = from_sklearn(estimator)
    full, _ = data(4)
    assert np.array_equal(forest.predict_proba(full), estimator.predict_proba(full))
    assert np.isfinite(forest.scored.trees[0].threshold).all()
    with pytest.raises(ForestError) as told:
        forest.predict(X)
    assert str(told.value) == snapshot


class Own(RandomForestClassifier):  # type: ignore[misc]
    """An estimator that may answer as it likes."""


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestRegressor(2),
        DecisionTreeRegressor(),
        RandomTreesEmbedding(2),
        LogisticRegression(),
        Own(2),
        DareForestClassifier(2),
    ],
)
def test_what_is_no_forest_of_labels_is_refused_by_name(estimator, snapshot):
    with pytest.raises(ForestError) as told:
        from_sklearn(estimator)
    assert str(told.value) == snapshot


def test_other_refusals(snapshot):
    X, y = data(0)
    with pytest.raises(ForestError) as told:
        from_sklearn(RandomForestClassifier())
    assert str(told.value) == snapshot
    with pytest.raises(ForestError) as told:
        from_sklearn(RandomForestClassifier(2).fit(X, np.stack((y, 1 - y), axis=1)))
    assert str(told.value) == snapshot
    estimator = RandomForestClassifier(2).fit(X, y)
    forest = from_sklearn(estimator)
    with pytest.raises(ForestError) as told:
        forest.predict(X[:, :2])
    assert str(told.value) == snapshot
    with pytest.raises(ForestError) as told:
        forest.predict([[0, 1e39, 0]])
    assert str(told.value) == snapshot
    with pytest.raises(ForestError) as told:
        exact_forest(forest)
    assert str(told.value) == snapshot
    estimator.predict_proba = lambda X: np.full((len(X), 2), 0.5)
    with pytest.raises(ForestError) as told:
        from_sklearn(estimator)
    assert str(told.value) == snapshot


@pytest.mark.parametrize("words", LABELS)
def test_a_file_holds_all_of_it(tmp_path, words):
    X, y = data(2, 3)
    forest = from_sklearn(ExtraTreesClassifier(5, random_state=0).fit(X, words[y]))
    forest.save(tmp_path / "a.npz")
    again = read_forest(tmp_path / "a.npz")
    assert isinstance(again, SklearnForest)
    assert again == forest
    assert again.difference(forest) is None
    assert again.kind == "ExtraTreesClassifier"
    again.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert again.predict_proba(X).tobytes() == forest.predict_proba(X).tobytes()


def test_forests_that_differ_say_where(snapshot):
    X, y = data(2)
    one = from_sklearn(RandomForestClassifier(5, random_state=0).fit(X, y))
    other = from_sklearn(RandomForestClassifier(5, random_state=1).fit(X, y))
    assert one.difference(other) == snapshot
    assert one != other
    assert "trees" in one.difference(from_sklearn(DecisionTreeClassifier().fit(X, y)))
    assert "labels" in one.difference(from_sklearn(DecisionTreeClassifier().fit(X, y + 1)))
    assert "features" in one.difference(from_sklearn(DecisionTreeClassifier().fit(X[:, :2], y)))
    exact = DareForestClassifier(2, random_state=0).fit(X, y)
    assert exact.difference(one) == snapshot
    assert "DareForestClassifier" in one.difference(exact)
    assert exact != one


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("feature", lambda a: a + 1),
        ("left", lambda a: a[::-1]),
        ("shares", lambda a: a * np.nan),
        ("shares", lambda a: a[:, :1]),
        ("threshold", lambda a: a.astype(np.float32)),
        ("classes", lambda a: a[::-1]),
        ("sizes", lambda a: a + 1),
        ("right", lambda a: a[:-1]),
    ],
)
def test_a_file_that_is_no_forest_is_refused(tmp_path, name, change, snapshot):
    X, y = data(2)
    path = tmp_path / "a.npz"
    from_sklearn(RandomForestClassifier(2, random_state=0).fit(X, y)).save(path)
    with np.load(path) as arrays:
        held = dict(arrays)
    np.savez(path, **(held | {name: change(held[name])}))
    with pytest.raises(ForestError) as caught:
        read_forest(path)
    assert str(caught.value) == snapshot
    assert str(path) in str(caught.value)


def test_every_damaged_byte_is_found(tmp_path):
    X, y = data(2)
    path = tmp_path / "a.npz"
    forest = from_sklearn(RandomForestClassifier(2, random_state=0).fit(X, y))
    forest.save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(1)
    for place in rng.integers(0, len(content), 60):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            again = read_forest(path)
        except ForestError:
            continue
        # Some bytes of a zip archive say nothing about its content.
        assert again == forest
