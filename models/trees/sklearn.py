"""Fitted estimators of scikit-learn: trees, forests, and both kinds of gradient boosting.

They have no file format but pickles, which run code; `files` writes what is read here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.errors import TreesError
from leaveout.kernel.forest_file import before_rounding
from leaveout.kernel.numbers import need
from leaveout.kernel.trees import Ensemble
from leaveout.models.trees.assemble import Sets, Tree, assemble, label_names

_TREES = ("DecisionTree", "ExtraTree")
_FORESTS = ("RandomForest", "ExtraTrees")
_CATEGORIES = 2**20  # categories must be numbers below this, since each has a place in every set
_BELOW_ZERO = float(np.nextafter(0.0, -1.0))
_LINKS = {
    "IdentityLink": "identity", "LogLink": "exp", "LogitLink": "sigmoid",
    "HalfLogitLink": "sigmoid", "MultinomialLogit": "softmax",
}  # fmt: skip


def of_sklearn(model: Any) -> Ensemble:
    """Return the trees of a fitted estimator."""
    name = type(model).__name__
    stem = name.removesuffix("Classifier").removesuffix("Regressor")
    need(hasattr(model, "n_features_in_"), "is not fitted, or is not a model of trees")
    if stem == "HistGradientBoosting":
        return _of_histograms(model)
    if stem == "GradientBoosting" and name != stem:
        return _of_boosting(model)
    if stem in _TREES and name != stem:
        return _of_mean(model, [model], ordered=True)
    if stem in _FORESTS and name != stem:
        return _of_mean(model, list(model.estimators_), ordered=model.n_jobs in (None, 1))
    cure = ""
    if stem == "Pipeline":
        cure = (
            "; pass the fitted model of its last step, and rows as the steps before it return them"
        )
    raise TreesError(f"is not a model of trees that can be read{cure}")


def _of_mean(model: Any, estimators: list[Any], *, ordered: bool) -> Ensemble:
    """Read a tree, or a forest whose answer is the mean of its trees'."""
    outputs = model.n_outputs_
    classifies = hasattr(model, "classes_")
    need(not classifies or outputs == 1, f"has {outputs} outputs; fit one classifier for each")
    # One row a node, of outputs and their classes.
    values = [each.tree_.value[:, 0, :] if classifies else each.tree_.value[:, :, 0]
              for each in estimators]  # fmt: skip
    trees = [_binary(each.tree_, value) for each, value in zip(estimators, values, strict=True)]
    scores = values[0].shape[1]
    # A single label is the first, and its share is 1.
    return _ensemble(
        model, trees, Sets(), np.zeros(scores), scores, divisor=len(trees), ordered=ordered,
        center=2.0 if classifies and scores == 1 else 0.0, rounds_inputs=True,
    )  # fmt: skip


def _of_boosting(model: Any) -> Ensemble:
    """Read gradient boosting of trees that all see the same inputs, after a constant."""
    begins = type(model.init_).__name__
    need(begins in ("str", "DummyClassifier", "DummyRegressor"),
         f"begins with {begins}; fit it with init=None")  # fmt: skip
    need(getattr(model.init_, "strategy", None) not in ("stratified", "uniform"),
         "begins with a random guess; fit it with init=None")  # fmt: skip
    base = model._raw_predict_init(np.zeros((1, model.n_features_in_)))[0]
    trees = [
        _binary(each.tree_, model.learning_rate * each.tree_.value[:, 0, 0], score)
        for stage in model.estimators_
        for score, each in enumerate(stage)
    ]
    link = "softmax" if len(base) > 1 else "sigmoid" if hasattr(model, "classes_") else "identity"
    # With one score the second label is answered at 0, too.
    center = _BELOW_ZERO if link == "sigmoid" else 0.0
    return _ensemble(
        model, trees, Sets(), base, max(2, len(base)), link=link, center=center, rounds_inputs=True
    )


def _binary(tree: Any, values: Floats, score: int = 0) -> Tree:
    leaf = tree.children_left < 0
    return Tree(
        np.where(leaf, -1, tree.feature).astype(np.int64),
        before_rounding(np.where(leaf, 0.0, tree.threshold)),
        np.asarray(tree.missing_go_to_left) != 0, np.full(len(leaf), -1, np.int64),
        tree.children_left.astype(np.int64), tree.children_right.astype(np.int64),
        np.asarray(values, np.float64), score,
    )  # fmt: skip


def _of_histograms(model: Any) -> Ensemble:
    base = np.asarray(model._baseline_prediction)
    need(base.dtype == np.float64 and base.size == model.n_trees_per_iteration_,
         f"begins with {base.dtype} of shape {base.shape}, not float64; fit it again")  # fmt: skip
    features, sets = model.n_features_in_, Sets()
    categorical = np.zeros(features, bool)
    categories: list[NDArray[np.int64]] = []
    if model.is_categorical_ is not None:
        categorical[:] = model.is_categorical_
        encoder = model._preprocessor.named_transformers_["encoder"]
        categories = [_category_numbers(each) for each in encoder.categories_]
    # Categorical features stand first in what trees see.
    order = np.concatenate((np.flatnonzero(categorical), np.flatnonzero(~categorical)))
    trees = [
        _histogram(each, order, categories, score, sets)
        for stage in model._predictors
        for score, each in enumerate(stage)
    ]
    link = type(model._loss.link).__name__
    need(link in _LINKS, f"has the link {link!r}; fit it with another loss")
    return _ensemble(
        model, trees, sets, base.reshape(-1), max(2, base.size), link=_LINKS[link],
        whole_categories=True,
    )  # fmt: skip


def _category_numbers(values: Any) -> NDArray[np.int64]:
    """Return categories as whole numbers, the missing one left out."""
    cure = "number them 0, 1, ... and fit again"
    need(values.dtype.kind in "biuf", f"has categories that are no numbers; {cure}")
    found: Floats = values.astype(np.float64)
    found = found[~np.isnan(found)]
    need((found == np.trunc(found)) & (found >= 0) & (found < _CATEGORIES),
         f"has categories that are no whole numbers below {_CATEGORIES}; {cure}")  # fmt: skip
    return np.asarray(found, np.int64)


def _histogram(
    tree: Any, order: NDArray[np.int64], categories: list[NDArray[np.int64]], score: int, sets: Sets
) -> Tree:
    nodes = tree.nodes
    leaf = nodes["is_leaf"] != 0
    missing_left = nodes["missing_go_to_left"] != 0
    asks = np.full(len(nodes), -1, np.int64)
    for node in np.flatnonzero((nodes["is_categorical"] != 0) & ~leaf):
        known = categories[nodes["feature_idx"][node]]
        words = tree.raw_left_cat_bitsets[nodes["bitset_idx"][node]]
        code = np.arange(len(known))
        left = (words[code // 32] >> (code % 32).astype(np.uint32)) & 1 != 0
        # Unknown categories go where missing values go.
        side = ~left if missing_left[node] else left
        asks[node] = sets.add(known[side], left=not missing_left[node])
    return Tree(
        np.where(leaf, -1, order[np.where(leaf, 0, nodes["feature_idx"])]),
        np.where(asks >= 0, 0.0, nodes["num_threshold"]), missing_left, asks,
        nodes["left"].astype(np.int64), nodes["right"].astype(np.int64),
        nodes["value"].astype(np.float64), score,
    )  # fmt: skip


def _ensemble(
    model: Any, trees: list[Tree], sets: Sets, base: Any, labels: int, **more: Any
) -> Ensemble:
    return Ensemble(
        assemble(trees, sets, len(base), model.n_features_in_), np.array(base, np.float64),
        label_names(model.classes_, labels) if hasattr(model, "classes_") else (),
        model.n_features_in_, tuple(map(str, getattr(model, "feature_names_in_", ()))),
        source=f"scikit-learn {type(model).__name__}", **more,
    )  # fmt: skip
