"""Models of LightGBM: read, they answer bit for bit as the library does."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from leaveout.errors import TreesError
from leaveout.models.trees.reading import of_model, read_trees

from support.damage import refusal_of, survive_damage
from support.depth import rounds
from tree_inputs import hard_inputs

OBJECTIVES = (
    "binary", "multiclass", "multiclassova", "regression", "regression_l1", "huber", "fair",
    "poisson", "quantile", "mape", "gamma", "tweedie", "cross_entropy",
)  # fmt: skip


def data(seed, objective="binary", *, categories=False, zeros=False, missing=True, rows=120):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3)) * 10.0 ** rng.integers(-3, 4)
    if zeros:
        X[rng.random(X.shape) < 0.4] = 0.0
    if categories:
        X[:, -1] = rng.integers(0, 70, rows)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.integers(0, 3, rows).astype(float)
    if objective in ("binary", "cross_entropy"):
        y = (y > 0).astype(float)
    return X, y + 0.1 * (objective in ("gamma", "mape"))


def train(
    seed, objective="binary", *, categories=False, zeros=False, missing=True, rounds=4, **more
):
    X, y = data(seed, objective, categories=categories, zeros=zeros, missing=missing)
    asked = {
        "objective": objective, "num_threads": 1, "verbose": -1, "seed": seed, "num_leaves": 7,
        "min_data_in_leaf": 3, "min_data_in_bin": 1, "min_data_per_group": 3, "cat_smooth": 1.0,
        **more,
    }  # fmt: skip
    if objective.startswith("multiclass"):
        asked["num_class"] = 3
    weight = np.random.default_rng(seed).random(len(X)) + 0.5
    given = lightgbm.Dataset(X, y, weight=weight, categorical_feature=[2] if categories else [])
    try:
        return lightgbm.train(asked, given, rounds)
    except lightgbm.basic.LightGBMError as error:
        # The library refuses some splits that it chose itself.
        assert "Check failed: (best_split_info." in str(error)
        reject()


def compare(model, ensemble, seed, rows=1500):
    X = hard_inputs(ensemble, np.random.default_rng(seed), rows, huge=1e308)
    raw = model.predict(X, raw_score=True, num_threads=1).reshape(rows, -1)
    scores = ensemble.scores(X)
    assert np.array_equal(scores, raw / ensemble.divisor)
    if ensemble.labels:
        values = model.predict(X, num_threads=1)
        labels = values.argmax(axis=1) if values.ndim > 1 else 1 - values < values
        differ = ensemble.answers(X) != labels
        assert not differ.any() or near_tie(ensemble, scores[differ])


def near_tie(ensemble, scores):
    if scores.shape[1] == 1:
        return (np.abs(scores - ensemble.center) <= ensemble.tie).all()
    last = np.sort(scores, axis=1)
    return (last[:, -1] - last[:, -2] <= ensemble.tie).all()


@settings(max_examples=rounds(60))
@given(
    seed=st.integers(0, 2**31 - 1),
    objective=st.sampled_from(OBJECTIVES),
    categories=st.booleans(),
    missing=st.booleans(),
    zeros=st.booleans(),
    rounds=st.integers(1, 8),
    leaves=st.integers(2, 20),
    more=st.sampled_from([
        {}, {"zero_as_missing": True}, {"use_missing": False}, {"max_delta_step": 0.3},
        {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}, {"boosting": "dart"},
        {"bagging_freq": 1, "bagging_fraction": 0.6}, {"monotone_constraints": [1, -1, 0]},
        {"data_sample_strategy": "goss"}, {"max_cat_to_onehot": 100}, {"linear_lambda": 1.0},
    ]),
)  # fmt: skip
def test_scores_are_those_of_the_library(
    tmp_path_factory, seed, objective, categories, missing, zeros, rounds, leaves, more
):
    if objective in ("regression_l1", "quantile", "mape"):
        more = {name: value for name, value in more.items() if name != "monotone_constraints"}
    model = train(
        seed, objective, categories=categories, zeros=zeros, missing=missing, rounds=rounds,
        num_leaves=leaves, **more,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("models") / "model.txt"
    model.save_model(path)
    compare(model, read_trees(path), seed)
    compare(model, of_model(model), seed)


@settings(max_examples=rounds(30))
@given(seed=st.integers(0, 2**31 - 1), categories=st.booleans(), leaves=st.integers(4, 25))
def test_zero_may_be_missing(seed, categories, leaves):
    model = train(
        seed, categories=categories, zeros=True, zero_as_missing=True, num_leaves=leaves, rounds=3
    )
    compare(model, of_model(model), seed)


def test_zero_goes_to_the_other_side_than_its_size_says():
    """Learned from data in which zero is like the far end."""
    X = np.array([[-3.0], [-2.0], [-1.0], [0.0], [1.0], [2.0], [3.0], [0.0]] * 10)
    for values in ([1, 0, 0, 1, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 1, 0], [0, 1, 0, 1, 0, 1, 0, 1]):
        y = np.array(values * 10, float)
        model = lightgbm.train(
            {"objective": "regression", "num_threads": 1, "verbose": -1, "min_data_in_leaf": 1,
             "min_data_in_bin": 1, "zero_as_missing": True, "num_leaves": 4},
            lightgbm.Dataset(X, y), 3,
        )  # fmt: skip
        ensemble = of_model(model)
        for seed in range(3):
            compare(model, ensemble, seed)


@pytest.mark.parametrize("slope", [0.5, 2.0, 30.0])
@pytest.mark.parametrize("objective", ["binary", "multiclassova"])
def test_the_slope_of_the_logistic_function_matters_to_ties_alone(objective, slope):
    model = train(5, objective, sigmoid=slope, rounds=20)
    ensemble = of_model(model)
    assert ensemble.tie > 0
    compare(model, ensemble, 5, rows=5000)


def test_single_rows_are_answered_as_many_are():
    model = train(1, rounds=30)
    ensemble = of_model(model)
    X = hard_inputs(ensemble, np.random.default_rng(0), 200, huge=1e308)
    alone = [model.predict(row[None], raw_score=True, num_threads=1)[0] for row in X]
    assert np.array_equal(ensemble.scores(X)[:, 0], alone)


def compare_classifier(model, ensemble, rows=1000):
    X = hard_inputs(ensemble, np.random.default_rng(0), rows)
    scores = ensemble.scores(X)
    assert np.array_equal(scores, model.predict(X, raw_score=True).reshape(rows, -1))
    found = np.array(ensemble.labels)[ensemble.answers(X)]
    differ = found != model.predict(X).astype(str)
    assert not differ.any() or near_tie(ensemble, scores[differ])


def test_a_classifier_answers_with_its_best_rounds():
    X, y = data(3, "multiclass")
    model = lightgbm.LGBMClassifier(n_estimators=60, learning_rate=1.0, n_jobs=1, verbose=-1)
    stop = lightgbm.early_stopping(3, verbose=False)
    model.fit(X, y, eval_X=X[:30], eval_y=y[::-1][:30], callbacks=[stop])
    ensemble = of_model(model)
    assert model.best_iteration_ < 60
    assert ensemble.trees == 3 * model.best_iteration_
    compare_classifier(model, ensemble)


@pytest.mark.parametrize("names", [["no", "yes"], ["no", "what", "yes"]])
def test_a_classifier_answers_with_its_labels(names):
    X, y = data(3, "multiclass")
    model = lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1)
    model.fit(X, np.array(names)[y.astype(int) % len(names)])
    ensemble = of_model(model)
    assert ensemble.labels == tuple(names)
    compare_classifier(model, ensemble)


def test_a_classifier_that_stops_early_in_predictions_is_refused():
    X, y = data(3)
    model = lightgbm.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1, pred_early_stop=True)
    with pytest.raises(TreesError, match="pred_early_stop"):
        of_model(model.fit(X, y))


def edited(old, new):
    text = train(1, categories=True, rounds=2).model_to_string()
    assert old in text
    return text.replace(old, new, 1).encode()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version=v4", "version=v2", "v3 and v4"),
        ("label_index=0", "news=0", "'news' is not understood"),
        ("objective=binary sigmoid:1", "objective=lambdarank", "'lambdarank' is not"),
        ("objective=binary sigmoid:1", "objective=regression sqrt", "train without reg_sqrt"),
        ("objective=binary sigmoid:1", "objective=binary sigmoid:0", "sigmoid is 0"),
        ("objective=binary sigmoid:1", "objective=multiclass num_class:3", "do not fit"),
        ("max_feature_idx=2", "max_feature_idx=1", "does not exist"),
        ("max_feature_idx=2", "max_feature_idx=x", "whole number"),
        ("Tree=1", "Tree=2", "tree 1 is not where"),
        ("tree_sizes=", "tree_sizes=1", "tree 0 is not where"),
        ("num_leaves=", "num_leaves=1", "tree 0: has "),
        ("is_linear=0", "is_linear=1", "linear_tree"),
        ("end of trees", "end of tree", "truncated"),
        ("threshold=", "threshald=", "tree 0: 'threshald' is not understood"),
        ("\nleft_child=1", "\nleft_child=0", "two parents"),
        ("\nsplit_feature=", "\nsplit_feature=1", "a feature that does not exist"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path, old, new, message):
    data = edited(old, new)
    if "Tree=" not in old and "tree" not in old and data.count(b"\nTree=") == 2:
        # What a tree's text grew by is told in the header, as the library would.
        head, _, rest = data.partition(b"\n\n")
        lines = head.split(b"\n")
        parts = [b"Tree=" + part for part in rest.split(b"end of trees")[0].split(b"Tree=")[1:]]
        sizes = b"tree_sizes=" + b" ".join(b"%d" % len(part) for part in parts)
        lines = [sizes if line.startswith(b"tree_sizes=") else line for line in lines]
        data = b"\n".join(lines) + b"\n\n\n" + rest.lstrip(b"\n")
    assert message in refusal_of(tmp_path / "model.txt", data)


def test_linear_leaves_are_refused():
    model = train(2, linear_tree=True, missing=False)
    with pytest.raises(TreesError, match="linear_tree"):
        of_model(model)


def test_damaged_files_are_refused(tmp_path):
    text = train(2, "multiclass", categories=True, rounds=1).model_to_string()
    survive_damage(
        tmp_path / "model.txt", text.partition("feature_importances")[0].encode()[:-20], 0
    )
