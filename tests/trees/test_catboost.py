"""Models of CatBoost: read, they answer bit for bit as the library does."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import catboost
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from leaveout.errors import TreesError
from leaveout.models.trees.reading import of_model, read_trees

from support.damage import refusal_of, survive_damage
from support.depth import rounds
from tree_inputs import hard_inputs

LOSSES = (
    "Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll", "RMSE", "MAE", "Quantile",
    "Poisson", "Tweedie:variance_power=1.5", "MultiRMSE", "Huber:delta=1", "LogCosh",
    "Expectile:alpha=0.3", "Lq:q=3", "MAPE",
)  # fmt: skip


def data(seed, loss="Logloss", *, missing=True, rows=100):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3)) * 10.0 ** rng.integers(-3, 4)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.integers(0, 3, rows).astype(float)
    y[:3] = range(3)
    if loss == "Logloss":
        return X, (y > 0).astype(int)
    if loss == "CrossEntropy":
        return X, y / 3
    return X, np.stack((y, -y), axis=1) if loss == "MultiRMSE" else y


def train(seed, loss="Logloss", *, missing=True, rounds=3, **more):
    X, y = data(seed, loss, missing=missing)
    model = catboost.CatBoost({
        "iterations": rounds, "loss_function": loss, "verbose": False, "thread_count": 1,
        "allow_writing_files": False, "random_seed": seed % 1000, "boosting_type": "Plain", **more,
    })  # fmt: skip
    weight = np.random.default_rng(seed).random(len(X)) + 0.5
    return model.fit(X, y, sample_weight=weight)


def compare(model, found, seed, *, missing=True, rows=1500):
    X = hard_inputs(
        found, np.random.default_rng(seed), rows, missing=missing, huge=float(np.float32(3.4e38))
    )
    raw = np.asarray(model.predict(X, prediction_type="RawFormulaVal")).reshape(rows, -1)
    scores = found.scores(X)
    if found.ordered:
        assert np.array_equal(scores, raw)
    else:
        assert (np.abs(scores - raw) <= found.rounding()).all()
    if found.labels:
        labels = np.asarray(model.predict(X, prediction_type="Class")).reshape(-1)
        assert np.array_equal(np.array(found.labels)[found.answers(X)], labels.astype(str))
        assert found.tie == 0


@settings(max_examples=rounds(60))
@given(
    seed=st.integers(0, 2**31 - 1),
    loss=st.sampled_from(LOSSES),
    missing=st.booleans(),
    rounds=st.integers(1, 8),
    depth=st.integers(1, 5),
    policy=st.sampled_from(["SymmetricTree", "SymmetricTree", "Depthwise", "Lossguide"]),
    nan_mode=st.sampled_from(["Min", "Max"]),
    more=st.sampled_from([
        {}, {"bootstrap_type": "Bernoulli", "subsample": 0.6}, {"rsm": 0.5},
        {"monotone_constraints": [1, 0, -1]}, {"boost_from_average": False},
    ]),
)  # fmt: skip
def test_scores_are_those_of_the_library(
    tmp_path_factory, seed, loss, missing, rounds, depth, policy, nan_mode, more
):
    if policy != "SymmetricTree" and (loss == "MultiRMSE" or "monotone_constraints" in more):
        policy = "SymmetricTree"
    if "monotone_constraints" in more and loss.startswith("Multi"):
        more = {}
    try:
        model = train(
            seed, loss, missing=missing, rounds=rounds, depth=depth, grow_policy=policy,
            nan_mode=nan_mode, **more,
        )  # fmt: skip
    except catboost.CatBoostError:
        assume(False)
    path = tmp_path_factory.mktemp("models") / "model.json"
    model.save_model(path, format="json")
    compare(model, read_trees(path), seed, missing=missing)
    compare(model, of_model(model), seed, missing=missing)


def test_single_rows_are_answered_as_many_are():
    for policy in ("SymmetricTree", "Lossguide"):
        model = train(1, "MultiClass", rounds=30, depth=4, grow_policy=policy)
        found = of_model(model)
        X = hard_inputs(found, np.random.default_rng(0), 200, huge=1e38)
        alone = [model.predict(row[None], prediction_type="RawFormulaVal")[0] for row in X]
        assert np.array_equal(found.scores(X), alone)


@pytest.mark.parametrize("scale", [0.5, 3.3])
def test_sums_are_scaled_before_the_bias_is_added(scale):
    model = train(1, "RMSE", rounds=8)
    model.set_scale_and_bias(scale, 0.7)
    found = of_model(model)
    assert not found.ordered
    compare(model, found, 1)


def test_a_classifier_answers_with_its_best_rounds_and_its_labels():
    X, y = data(2, "MultiClass")
    labels = np.array(["no", "what", "yes"])[y.astype(int)]
    model = catboost.CatBoostClassifier(
        iterations=50, learning_rate=1.0, verbose=False, thread_count=1, allow_writing_files=False
    )
    model.fit(X, labels, eval_set=(X[:40], labels[::-1][:40]), use_best_model=True)
    found = of_model(model)
    assert found.trees == model.tree_count_ + 1 < 51
    assert found.labels == ("no", "what", "yes")
    compare(model, found, 2)


def test_a_score_of_exactly_zero_is_the_first_label(tmp_path):
    def empty(model):
        for tree in model["oblivious_trees"]:
            tree["leaf_values"] = [0.0] * len(tree["leaf_values"])
        model["scale_and_bias"] = [1, [0]]

    path = tmp_path / "model.json"
    path.write_bytes(edited(empty))
    model = catboost.CatBoost().load_model(path, format="json")
    X = data(0)[0]
    assert (model.predict(X, prediction_type="Class") == 0).all()
    assert (read_trees(path).answers(X) == 0).all()


def edited(change):
    """Return the JSON of a small model after a change to it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        train(1, depth=2).save_model(path, format="json")
        found = json.loads(path.read_bytes())
    change(found)
    return json.dumps(found).encode()


def set_at(*keys):
    def change(model):
        *path, last, value = keys
        for key in path:
            model = model[key]
        model[last] = value

    return change


TREE = ("oblivious_trees", 0)
FLOAT = ("features_info", "float_features", 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_at("news", 1), "news"),
        (set_at(*TREE, "news", 1), "news"),
        (set_at("model_info", "params", "loss_function", "type", "YetiRank"), "'YetiRank' is not"),
        (set_at("model_info", "binclass_probability_threshold", 0.3), "probability threshold"),
        (set_at("features_info", "text_features", []), "text_features"),
        (set_at(*FLOAT, "flat_feature_index", 7), "neither numbers nor categories"),
        (set_at(*FLOAT, "feature_index", 1), "not in order"),
        (set_at(*FLOAT, "nan_value_treatment", "AsOdd"), "'AsOdd' is not supported"),
        (set_at(*TREE, "splits", 0, "split_type", "OnlineCtr"), "without cat_features"),
        (set_at(*TREE, "splits", 0, "split_type", "OneHotFeature"), "without cat_features"),
        (set_at(*TREE, "splits", 0, "float_feature_index", 9), "which does not exist"),
        (set_at(*TREE, "leaf_values", [1.0]), "leaf_values"),
        (set_at(*TREE, "leaf_values", 0, float("nan")), "damaged"),
        (set_at(*TREE, "splits", []), "differ in their scores"),
        (set_at("oblivious_trees", []), "no trees"),
        (set_at("trees", []), "or both"),
        (set_at("scale_and_bias", [1, [0, 0, 0]]), "scale_and_bias"),
        (set_at("scale_and_bias", [-1, [0]]), "scale_and_bias"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path, change, message):
    assert message in refusal_of(tmp_path / "model.json", edited(change))


def test_categories_are_refused():
    rng = np.random.default_rng(0)
    X = [[float(a), str(b)] for a, b in zip(rng.normal(size=100), rng.integers(0, 3, 100))]
    y = [b == "1" for _, b in X]
    model = catboost.CatBoostClassifier(
        iterations=3, cat_features=[1], verbose=False, thread_count=1, allow_writing_files=False
    )
    with pytest.raises(TreesError, match="without cat_features"):
        of_model(model.fit(X, y))


def test_damaged_files_are_refused(tmp_path):
    for policy in ("SymmetricTree", "Lossguide"):
        path = tmp_path / "model.json"
        train(2, grow_policy=policy, rounds=1).save_model(path, format="json")
        survive_damage(path, path.read_bytes(), 0)


def test_deep_trees_are_refused(tmp_path):
    def deepen(model):
        del model["oblivious_trees"]
        model["trees"] = "DEEP"

    data = edited(deepen).replace(b'"DEEP"', b'[{"left":' * 100_000)
    assert refusal_of(tmp_path / "model.json", data)
    whole = edited(deepen).replace(
        b'"DEEP"', b"[" + b'{"left":' * 9000 + b"{}" + b"}" * 9000 + b"]"
    )
    assert refusal_of(tmp_path / "model.json", whole)


def test_binary_files_are_refused_with_a_cure(tmp_path):
    train(0).save_model(tmp_path / "model.cbm")
    with pytest.raises(TreesError, match='format="json"'):
        read_trees(tmp_path / "model.cbm")
