"""Estimators of scikit-learn: read, they answer bit for bit as they do themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import ensemble as ensembles
from sklearn import tree as trees
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from leaveout.errors import TreesError
from leaveout.models.trees.reading import of_model

from support.depth import rounds
from tree_inputs import hard_inputs

LABELS = {2: ["no", "yes"], 3: ["no", "what", "yes"]}
MEANS = (
    trees.DecisionTreeClassifier, trees.DecisionTreeRegressor, trees.ExtraTreeClassifier,
    trees.ExtraTreeRegressor, ensembles.RandomForestClassifier, ensembles.RandomForestRegressor,
    ensembles.ExtraTreesClassifier, ensembles.ExtraTreesRegressor,
)  # fmt: skip


def data(seed, kind, labels=2, *, missing=False, categories=False, rows=100):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3)) * 10.0 ** rng.integers(-3, 4)
    if categories:
        X[:, 1] = 3 * rng.integers(0, 12, rows)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.integers(0, labels, rows)
    y[:labels] = range(labels)
    return X, np.array(LABELS[labels])[y] if kind.__name__.endswith("Classifier") else y + 0.25


def compare(model, seed, rows=1500, **more):
    found = of_model(model)
    X = hard_inputs(found, np.random.default_rng(seed), rows, **more)
    scores = found.scores(X)
    if hasattr(model, "decision_function"):
        raw = model.decision_function(X)
    elif hasattr(model, "predict_proba"):
        raw = model.predict_proba(X)
    elif found.link == "exp":
        raw = model._raw_predict(X)
    else:
        raw = model.predict(X)
    assert np.array_equal(scores, raw.reshape(rows, -1))
    if found.labels:
        assert np.array_equal(np.array(found.labels)[found.answers(X)], model.predict(X))
        assert found.tie == 0
    return found


@settings(max_examples=rounds(60))
@given(
    seed=st.integers(0, 2**31 - 1),
    kind=st.sampled_from(MEANS),
    labels=st.sampled_from([2, 3]),
    missing=st.booleans(),
    depth=st.sampled_from([1, 3, None]),
    number=st.integers(1, 9),
    more=st.sampled_from([{}, {"monotonic_cst": [1, 0, -1]}, {"min_samples_leaf": 5}]),
)
def test_trees_and_forests(seed, kind, labels, missing, depth, number, more):
    if "monotonic_cst" in more:
        labels, missing = 2, False
    if kind.__module__.startswith("sklearn.ensemble"):
        more = {**more, "n_estimators": number, "n_jobs": 1}
    X, y = data(seed, kind, labels, missing=missing)
    model = kind(max_depth=depth, random_state=seed % 2**31, **more).fit(X, y)
    compare(model, seed, missing=missing)


@settings(max_examples=rounds(40))
@given(
    seed=st.integers(0, 2**31 - 1),
    loss=st.sampled_from([
        "log_loss", "exponential", "squared_error", "absolute_error", "huber", "quantile",
    ]),
    labels=st.sampled_from([2, 3]),
    rounds=st.integers(1, 6),
    more=st.sampled_from([
        {}, {"init": "zero"}, {"subsample": 0.6}, {"n_iter_no_change": 1, "n_estimators": 30},
    ]),
)  # fmt: skip
def test_gradient_boosting(seed, loss, labels, rounds, more):
    classifies = loss in ("log_loss", "exponential")
    kind = (
        ensembles.GradientBoostingClassifier if classifies else ensembles.GradientBoostingRegressor
    )
    X, y = data(seed, kind, 2 if loss == "exponential" else labels)
    model = kind(loss=loss, **{"n_estimators": rounds, "random_state": 0, **more}).fit(X, y)
    compare(model, seed, missing=False)


@settings(max_examples=rounds(60))
@given(
    seed=st.integers(0, 2**31 - 1),
    loss=st.sampled_from([
        "log_loss", "squared_error", "absolute_error", "gamma", "poisson", "quantile",
    ]),
    labels=st.sampled_from([2, 3]),
    missing=st.booleans(),
    categories=st.booleans(),
    rounds=st.integers(1, 6),
    leaves=st.integers(2, 12),
    more=st.sampled_from([
        {}, {"monotonic_cst": [1, 0, -1]}, {"max_features": 0.5},
        {"early_stopping": True, "n_iter_no_change": 1, "max_iter": 30},
    ]),
)  # fmt: skip
def test_histogram_boosting(seed, loss, labels, missing, categories, rounds, leaves, more):
    kind = ensembles.HistGradientBoostingClassifier
    if loss != "log_loss":
        kind = ensembles.HistGradientBoostingRegressor
    if "monotonic_cst" in more:
        labels = 2
    X, y = data(seed, kind, labels, missing=missing, categories=categories)
    more = {"max_iter": rounds, **more}
    if loss == "quantile":
        more["quantile"] = 0.3
    model = kind(
        loss=loss, categorical_features=[1] if categories else None, max_leaf_nodes=leaves,
        min_samples_leaf=3, random_state=0, **more,
    ).fit(X, y)  # fmt: skip
    found = compare(model, seed, huge=1e300)
    assert categories or not len(found.nodes.sets)


def test_infinite_values_are_compared():
    X, y = data(1, trees.DecisionTreeRegressor)
    model = ensembles.HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=3).fit(X, y)
    Q = np.random.default_rng(0).choice([-np.inf, np.inf, np.nan, 0.0], (500, 3))
    assert np.array_equal(of_model(model).scores(Q)[:, 0], model.predict(Q))


def test_a_score_of_exactly_zero_is_the_second_label():
    X = np.array([[0.0], [1.0]])
    model = ensembles.GradientBoostingClassifier(n_estimators=1, init="zero", learning_rate=1e-300)
    model.fit(X, ["a", "b"])
    found = of_model(model)
    model.estimators_[0, 0].tree_.value[:] = 0.0
    zero = of_model(model)
    assert (zero.scores(X) == 0).all()
    assert zero.answers(X).tolist() == [1, 1]
    assert model.predict(X).tolist() == ["b", "b"]
    assert found.answers(X).tolist() == [0, 1]


def test_several_outputs_are_several_scores():
    X, y = data(0, trees.DecisionTreeRegressor)
    model = ensembles.RandomForestRegressor(n_estimators=5, n_jobs=1, random_state=0)
    compare(model.fit(X, np.stack((y, -y), axis=1)), 0, missing=False)


def test_a_forest_of_several_threads_may_add_in_any_order():
    X, y = data(0, trees.DecisionTreeClassifier)
    model = ensembles.RandomForestClassifier(n_estimators=30, n_jobs=2, random_state=0).fit(X, y)
    found = of_model(model)
    assert not found.ordered
    Q = hard_inputs(found, np.random.default_rng(0), 500, missing=False)
    assert (np.abs(found.scores(Q) - model.predict_proba(Q)) <= found.rounding()).all()


def test_one_label_is_answered_always():
    X, _ = data(0, trees.DecisionTreeRegressor)
    model = ensembles.RandomForestClassifier(n_estimators=2, n_jobs=1).fit(X, ["only"] * len(X))
    found = of_model(model)
    assert found.labels == ("only",)
    assert np.array_equal(found.scores(X), model.predict_proba(X))
    assert (found.answers(X) == 0).all()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LogisticRegression(), "not a model of trees"),
        (make_pipeline(StandardScaler(), trees.DecisionTreeClassifier()), "its last step"),
        (ensembles.GradientBoostingClassifier(init=LogisticRegression()), "init=None"),
        (ensembles.GradientBoostingClassifier(init=DummyClassifier(strategy="uniform")), "random"),
        (ensembles.IsolationForest(n_estimators=2), "not a model of trees"),
    ],
)
def test_other_models_are_refused(model, message):
    X, y = data(0, trees.DecisionTreeClassifier)
    with pytest.raises(TreesError, match=message):
        of_model(model.fit(X, y))


def test_models_that_are_not_fitted_are_refused():
    with pytest.raises(TreesError, match="not fitted"):
        of_model(trees.DecisionTreeClassifier())


@pytest.mark.parametrize("values", [[0.5, 1.5], [-1.0, 1.0], [0.0, 1e9]])
def test_categories_that_are_no_whole_numbers_are_refused(values):
    X = np.array(values * 30)[:, None]
    y = np.array([0, 1] * 30)
    model = ensembles.HistGradientBoostingClassifier(categorical_features=[0], max_iter=2)
    with pytest.raises(TreesError, match="number them 0, 1"):
        of_model(model.fit(X, y))
    with pytest.raises(TreesError, match="number them 0, 1"):
        of_model(model.fit(X.astype(str).astype(object), y))
