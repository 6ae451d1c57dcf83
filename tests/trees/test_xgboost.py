"""Models of XGBoost: read, they answer bit for bit as the library does."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.errors import TreesError
from leaveout.models.trees.reading import of_model, read_trees

from support.damage import refusal_of, survive_damage
from support.depth import rounds
from tree_inputs import hard_inputs

OBJECTIVES = (
    "binary:logistic", "binary:hinge", "multi:softprob", "multi:softmax", "reg:squarederror",
    "reg:squaredlogerror", "reg:logistic", "reg:pseudohubererror", "reg:absoluteerror",
    "reg:quantileerror", "count:poisson", "reg:gamma", "reg:tweedie",
)  # fmt: skip


def matrix(X, y=None, *, categories=False, **more):
    types = ["q"] * (X.shape[1] - 1) + ["c" if categories else "q"]
    return xgboost.DMatrix(X, y, feature_types=types, enable_categorical=True, nthread=1, **more)


def data(seed, objective="binary:logistic", *, categories=False, rows=80, features=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features)) * 10.0 ** rng.integers(-3, 4)
    if categories:
        X[:, -1] = rng.integers(0, 40, rows)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.integers(0, 3, rows).astype(float)
    if objective.startswith("binary:") or objective == "reg:logistic":
        y = (y > 0).astype(float)
    return X, y + 0.1 * (objective == "reg:gamma")


def train(seed, objective="binary:logistic", *, categories=False, rounds=4, **more):
    X, y = data(seed, objective, categories=categories)
    asked = {"objective": objective, "nthread": 1, "seed": seed, "max_depth": 3, **more}
    if objective.startswith("multi:"):
        asked["num_class"] = 3
    if objective == "reg:quantileerror":
        asked["quantile_alpha"] = [0.2, 0.7]
    weight = np.random.default_rng(seed).random(len(X)) + 0.5
    return xgboost.train(asked, matrix(X, y, categories=categories, weight=weight), rounds)


def compare(model, ensemble, seed, *, categories=False, rows=1500):
    X = hard_inputs(ensemble, np.random.default_rng(seed), rows)
    asked = matrix(X, categories=categories)
    margins = model.predict(asked, output_margin=True).reshape(rows, -1).astype(np.float64)
    scores = ensemble.scores(X)
    if ensemble.ordered:
        assert np.array_equal(scores, margins)
        found = model.inplace_predict(X, predict_type="margin").reshape(rows, -1)
        assert np.array_equal(scores, found.astype(np.float64))
    else:
        assert (np.abs(scores - margins) <= ensemble.rounding()).all()
        found = model.inplace_predict(X, predict_type="margin").reshape(rows, -1)
        assert (np.abs(scores - found) <= ensemble.rounding()).all()
    if ensemble.labels:
        values = model.predict(asked)
        if values.ndim > 1:
            values = values.argmax(axis=1)
        elif ensemble.link == "sigmoid":
            values = values > 0.5
        differ = ensemble.answers(X) != values
        assert not differ.any() or near_tie(ensemble, scores[differ])


def near_tie(ensemble, scores):
    """Return whether these scores may be answered otherwise."""
    room = ensemble.tie + 2 * (0.0 if ensemble.ordered else ensemble.rounding().max())
    if scores.shape[1] == 1:
        return (np.abs(scores - ensemble.center) <= room).all()
    last = np.sort(scores, axis=1)
    return (last[:, -1] - last[:, -2] <= room).all()


@settings(max_examples=rounds(60))
@given(
    seed=st.integers(0, 2**31 - 1),
    objective=st.sampled_from(OBJECTIVES),
    booster=st.sampled_from(["gbtree", "gbtree", "dart"]),
    categories=st.booleans(),
    rounds=st.integers(1, 8),
    depth=st.integers(1, 6),
    onehot=st.sampled_from([1, 100]),
    parallel=st.integers(1, 2),
    more=st.sampled_from([
        {}, {"max_delta_step": 0.3}, {"subsample": 0.6, "colsample_bytree": 0.7}, {"gamma": 0.5},
        {"tree_method": "exact"}, {"tree_method": "approx"}, {"base_score": 0.3},
        {"monotone_constraints": "(1,-1,0)"}, {"grow_policy": "lossguide", "max_leaves": 6},
    ]),
)  # fmt: skip
def test_scores_are_those_of_the_library(
    tmp_path_factory, seed, objective, booster, categories, rounds, depth, onehot, parallel, more
):
    if more.get("tree_method") == "exact" or "monotone_constraints" in more:
        categories = False
    if objective == "reg:absoluteerror" or objective == "reg:quantileerror":
        more = {k: v for k, v in more.items() if k != "base_score"}
    drops = {"rate_drop": 0.4} if booster == "dart" else {}
    model = train(
        seed, objective, categories=categories, rounds=rounds, max_depth=depth, booster=booster,
        max_cat_to_onehot=onehot, num_parallel_tree=parallel, **more, **drops,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("models")
    for name in ("model.json", "model.ubj"):
        model.save_model(folder / name)
        compare(model, read_trees(folder / name), seed, categories=categories)
    compare(model, of_model(model), seed, categories=categories)


def test_several_targets_are_several_scores():
    X, y = data(0, "reg:squarederror")
    model = xgboost.train({"nthread": 1}, matrix(X, np.stack((y, -y, y * y), axis=1)), 3)
    compare(model, of_model(model), 0)


def test_a_logistic_function_that_rounds_to_one_half_is_a_tie():
    X = np.array([[0.0], [1.0]])
    model = xgboost.train(
        {"objective": "binary:logistic", "base_score": 0.5, "nthread": 1, "eta": 2e-8,
         "min_child_weight": 0, "lambda": 0}, matrix(X, np.array([0.0, 1.0])), 1,
    )  # fmt: skip
    ensemble = of_model(model)
    score = ensemble.scores(X)[1, 0]
    assert 0 < score <= ensemble.tie
    assert model.predict(matrix(X))[1] == 0.5


@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob"])
def test_beyond_a_tie_the_library_answers_as_read(tmp_path, objective):
    """Leaves are given margins near a tie; what lies further than it is never in doubt."""
    model = json.loads(bytes(train(1, objective, rounds=1, max_depth=1).save_raw("json")))
    learner = model["learner"]
    classes = 3 if objective.startswith("multi:") else 1
    learner["learner_model_param"]["base_score"] = "[" + ",".join(["5E-1"] * classes) + "]"
    first = learner["gradient_booster"]["model"]["trees"][0]
    for other in learner["gradient_booster"]["model"]["trees"][1:]:
        other["split_conditions"] = [0.0] * len(other["split_conditions"])
    rng = np.random.default_rng(0)
    tied = 0
    for gap in [
        *(2.0**-20 * 1.01 * 2 ** rng.uniform(0, 8, 40)),
        *(2.0 ** rng.uniform(-40, -22, 40)),
    ]:
        first["split_conditions"][1:] = [float(gap), -float(gap)]
        path = tmp_path / "model.json"
        path.write_text(json.dumps(model))
        ensemble, booster = read_trees(path), xgboost.Booster(model_file=path)
        X = data(1, objective)[0]
        values = booster.predict(matrix(X))
        labels = values.argmax(axis=1) if classes > 1 else values > 0.5
        differ = ensemble.answers(X) != labels
        tied += int(differ.any())
        assert not differ.any() or near_tie(ensemble, ensemble.scores(X)[differ])
    assert tied or classes > 1


def test_models_of_older_versions_are_read(tmp_path):
    """As XGBoost 1.6 wrote them: one base score for all, fields that came later left out."""
    for objective in ("binary:logistic", "multi:softprob", "count:poisson"):
        model = json.loads(bytes(train(1, objective, rounds=3).save_raw("json")))
        model["version"] = [1, 6, 2]
        learner = model["learner"]
        learner["learner_model_param"]["base_score"] = "3.7E-1"
        for name in ("boost_from_average", "num_target"):
            del learner["learner_model_param"][name]
        inner = learner["gradient_booster"]["model"]
        del inner["cats"], inner["iteration_indptr"]
        for tree in inner["trees"]:
            tree["default_left"] = [bool(each) for each in tree["default_left"]]
        path = tmp_path / "model.json"
        path.write_text(json.dumps(model))
        compare(xgboost.Booster(model_file=path), read_trees(path), 1)


def test_single_rows_are_answered_as_many_are():
    model = train(1, rounds=30)
    ensemble = of_model(model)
    X = hard_inputs(ensemble, np.random.default_rng(0), 200)
    alone = [float(model.predict(matrix(row[None]), output_margin=True)[0]) for row in X]
    assert np.array_equal(ensemble.scores(X)[:, 0], alone)


@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob"])
def test_a_classifier_answers_with_its_best_rounds(tmp_path, objective):
    X, y = data(3, objective)
    model = xgboost.XGBClassifier(
        n_estimators=40, early_stopping_rounds=5, n_jobs=1, learning_rate=1.0
    )
    model.fit(X, y, eval_set=[(X[:20], y[::-1][:20])], verbose=False)
    ensemble = of_model(model)
    assert ensemble.trees == (model.best_iteration + 1) * max(1, ensemble.nodes.values.shape[1])
    Q = hard_inputs(ensemble, np.random.default_rng(0), 1000)
    margins = model.predict(Q, output_margin=True).reshape(1000, -1)
    assert np.array_equal(ensemble.scores(Q), margins.astype(np.float64))
    assert np.array_equal(ensemble.answers(Q), model.predict(Q))
    model.save_model(tmp_path / "model.json")
    with pytest.raises(TreesError, match="early stopping found round"):
        read_trees(tmp_path / "model.json")
    best = model.get_booster()[: model.best_iteration + 1]
    best.save_model(tmp_path / "best.json")
    assert np.array_equal(read_trees(tmp_path / "best.json").scores(Q), ensemble.scores(Q))
    assert of_model(model.get_booster()).trees > ensemble.trees


def edited(change):
    """Return the JSON of a small model after a change to it."""
    found = json.loads(bytes(train(1, categories=True, rounds=2).save_raw("json")))
    learner = found["learner"]
    change(found, learner, learner["gradient_booster"]["model"]["trees"][1])
    return json.dumps(found).encode()


def set_at(name, *keys):
    def change(model, learner, tree):
        at = {"model": model, "learner": learner, "tree": tree}[name]
        *path, last, value = keys
        for key in path:
            at = at[key]
        at[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_at("model", "news", 1), "news"),
        (set_at("tree", "news", 1), "news"),
        (set_at("model", "version", [1, 5, 0]), "XGBoost 1.5.0 wrote it"),
        (set_at("learner", "objective", {"name": "rank:pairwise"}), "'rank:pairwise' is not"),
        (set_at("learner", "objective", {"name": "survival:cox"}), "survival"),
        (set_at("learner", "objective", {"name": "binary:logitraw"}), "binary:logistic"),
        (set_at("learner", "gradient_booster", {"name": "gblinear"}), "gblinear"),
        (set_at("learner", "learner_model_param", "base_score", "[0,1]"), "base_score"),
        (set_at("learner", "learner_model_param", "base_score", "nan"), "base_score"),
        (set_at("learner", "learner_model_param", "base_score", "x"), "base_score"),
        (set_at("learner", "learner_model_param", "num_feature", "2"), "does not exist"),
        (set_at("learner", "learner_model_param", "num_class", "3"), "num_class"),
        (set_at("learner", "feature_names", ["a"]), "feature_names"),
        (set_at("tree", "left_children", 0, 0), "tree 1: a node has two parents"),
        (set_at("tree", "right_children", 0, 99), "tree 1: node 99 does not exist"),
        (set_at("tree", "split_conditions", 0, math.nan), "damaged"),
        (set_at("tree", "split_conditions", []), "tree 1"),
        (set_at("tree", "split_indices", 0, 70), "a feature that does not exist"),
        (set_at("tree", "default_left", []), "differ in length"),
        (set_at("tree", "split_type", 0, 2), "split_type"),
        (set_at("tree", "categories_nodes", []), "categories"),
        (set_at("tree", "categories", []), "categories"),
        (set_at("tree", "tree_param", "size_leaf_vector", "3"), "one_output_per_tree"),
        (set_at("learner", "gradient_booster", "model", "trees", []), "num_trees"),
        (set_at("learner", "gradient_booster", "model", "tree_info", [0, 1]), "score 1"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path, change, message):
    assert message in refusal_of(tmp_path / "model.json", edited(change))


def test_damaged_files_are_refused(tmp_path):
    model = train(2, "multi:softprob", categories=True, rounds=1)
    for kind in ("json", "ubj"):
        survive_damage(tmp_path / f"model.{kind}", bytes(model.save_raw(kind)), 0)


@pytest.mark.parametrize("half", [9_000, 500_000])
def test_deep_chains_are_read_or_refused(tmp_path, half):
    change = {
        "left_children": [i + 1 if i < half else -1 for i in range(2 * half + 1)],
        "right_children": [2 * half - i if i < half else -1 for i in range(2 * half + 1)],
        "split_indices": [0] * (2 * half + 1),
        "split_conditions": [1.0] * (2 * half + 1),
        "default_left": [0] * (2 * half + 1),
        "split_type": [0] * (2 * half + 1),
    }

    def deepen(model, learner, tree):
        tree.update(change)
        tree["tree_param"]["num_nodes"] = str(2 * half + 1)
        for name in ("", "_nodes", "_segments", "_sizes"):
            tree["categories" + name] = []

    found = refusal_of(tmp_path / "deep.json", edited(deepen))
    assert found is None if half < 10_000 else "10000 levels deep" in found


def test_deep_values_are_refused(tmp_path):
    deep = b'{"learner":' + b"[" * 100_000
    assert refusal_of(tmp_path / "deep.json", deep)
    assert "nested too deeply" in refusal_of(tmp_path / "deep.ubj", b"{U\x01a" + b"[" * 100_000)


def test_another_number_for_missing_values_is_refused():
    X, y = data(0)
    model = xgboost.XGBClassifier(n_estimators=2, missing=-999.0, n_jobs=1).fit(X, y)
    with pytest.raises(TreesError, match="missing is -999"):
        of_model(model)


def test_pickles_and_other_objects_are_refused(tmp_path):
    assert "pickle" in refusal_of(tmp_path / "model.pkl", b"\x80\x04model")
    assert "not a model of trees" in refusal_of(tmp_path / "empty", b"")
    with pytest.raises(TreesError, match="can be read; pass"):
        of_model(object())
