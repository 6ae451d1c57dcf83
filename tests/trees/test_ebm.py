"""Explainable boosting machines: read, they answer bit for bit as interpret does."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

from leaveout.errors import TreesError
from leaveout.models.trees.reading import of_model, read_trees

from support.damage import refusal_of, survive_damage
from support.depth import rounds
from tree_inputs import hard_inputs

pytestmark = pytest.mark.filterwarnings("ignore:(Missing values|JSON formats)")


def train(seed, link="logit", *, missing=True, categories=False, interactions=1, rounds=8, **more):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(90, 3)) * 10.0 ** rng.integers(-3, 4)
    if categories:
        X[:, 1] = rng.integers(0, 7, len(X))
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.integers(0, 3, len(X))
    y[:3] = range(3)
    types = ["continuous", "nominal" if categories else "continuous", "continuous"]
    asked = {
        "interactions": interactions, "max_rounds": rounds, "outer_bags": 2, "max_bins": 12,
        "max_interaction_bins": 5, "feature_types": types, "random_state": seed % 1000,
        "learning_rate": 0.2, "n_jobs": 1, **more,
    }  # fmt: skip
    if link in ("logit", "mlogit"):
        names = np.array(["no", "yes"] if link == "logit" else ["no", "what", "yes"])
        return ExplainableBoostingClassifier(**asked).fit(X, names[y % len(names)])
    objective = "poisson_deviance" if link == "log" else "rmse"
    return ExplainableBoostingRegressor(objective=objective, **asked).fit(X, y + 0.5)


def compare(model, found, seed, rows=1000):
    X = hard_inputs(found, np.random.default_rng(seed), rows, huge=1e308)
    scores = found.scores(X)
    assert np.array_equal(scores, model._predict_score(X).reshape(rows, -1))
    if found.labels:
        assert np.array_equal(np.array(found.labels)[found.answers(X)], model.predict(X))
        assert found.tie == 0


@settings(max_examples=rounds(25))
@given(
    seed=st.integers(0, 2**31 - 1),
    link=st.sampled_from(["logit", "mlogit", "identity", "log"]),
    missing=st.booleans(),
    categories=st.booleans(),
    interactions=st.sampled_from([0, 2]),
    rounds=st.integers(1, 12),
)
def test_scores_are_those_of_the_library(
    tmp_path_factory, seed, link, missing, categories, interactions, rounds
):
    # More than two labels and interactions do not go together in interpret.
    model = train(
        seed, link, missing=missing, categories=categories, rounds=rounds,
        interactions=0 if link == "mlogit" else interactions,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("models") / "model.json"
    for detail in ("minimal", "all"):
        model.to_json(path, detail=detail)
        compare(model, read_trees(path), seed)
    compare(model, of_model(model), seed)


def test_terms_of_three_features_and_infinite_values():
    model = train(3, interactions=[(0, 1), (0, 1, 2)])
    found = of_model(model)
    compare(model, found, 3)
    Q = np.random.default_rng(0).choice([-np.inf, np.inf, np.nan, 0.0], (500, 3))
    assert np.array_equal(found.scores(Q)[:, 0], model._predict_score(Q))


@pytest.fixture(scope="module")
def small():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train(1, categories=True, interactions=[(0, 1)]).to_jsonable(detail="minimal")


def set_at(*keys):
    def change(model):
        *path, last, value = keys
        for key in path:
            model = model[key]
        model[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_at("news", 1), "news"),
        (set_at("ebm", "news", 1), "news"),
        (set_at("version", "2.0"), "version '2.0'"),
        (set_at("ebm", "outputs", 0, "link", "vlogit"), "'vlogit' is not supported"),
        (set_at("ebm", "outputs", 0, "link", "identity"), "does not fit its task"),
        (set_at("ebm", "outputs", 0, "classes", ["a"]), "1 labels"),
        (set_at("ebm", "intercept", [0.0, 1.0]), "2 intercepts"),
        (set_at("ebm", "features", 0, "name", "feature_0001"), "two features have one name"),
        (set_at("ebm", "features", 0, "type", "text"), "'text' has no bins"),
        (set_at("ebm", "features", 0, "cuts", [[1.0, 0.0]]), "do not ascend"),
        (set_at("ebm", "features", 0, "cuts", [[0.0]]), "scores of shape"),
        (set_at("ebm", "features", 1, "categories", [["red"]]), "number the categories"),
        (set_at("ebm", "features", 1, "categories", [["01"]]), "number the categories"),
        (set_at("ebm", "terms", 0, "term_features", ["what"]), "term 0: 'what'"),
        (set_at("ebm", "terms", 0, "scores", 0, "nan"), "not finite"),
        (set_at("ebm", "terms", 0, "scores", [[1.0], [1.0, 2.0]]), "term 0"),
        (set_at("ebm", "terms", []), "no trees"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path, small, change, message):
    model = json.loads(json.dumps(small))
    change(model)
    assert message in refusal_of(tmp_path / "model.json", json.dumps(model).encode())


def test_categories_that_are_no_whole_numbers_are_refused():
    X = np.array(["red", "green", "blue"] * 20, object)[:, None]
    model = ExplainableBoostingClassifier(max_rounds=3, outer_bags=1, n_jobs=1)
    with pytest.raises(TreesError, match="number the categories"):
        of_model(model.fit(X, [0, 1, 1] * 20))


def test_other_models_of_the_library_are_refused():
    from interpret.glassbox import LogisticRegression

    with pytest.raises(TreesError, match="not a model of trees"):
        of_model(LogisticRegression())


def test_damaged_files_are_refused(tmp_path, small):
    survive_damage(tmp_path / "model.json", json.dumps(small).encode(), 0)
