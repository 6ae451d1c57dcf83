"""CatBoost's models, from JSON (version 1): trees of numbers, oblivious or not.

CatBoost compares inputs rounded to float32, ``x > border``, and sums in float64, tree after tree;
the sum is scaled, and then the bias is added.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from leaveout.arrays import Floats
from leaveout.kernel.forest_file import before_rounding
from leaveout.kernel.numbers import Rejected, need
from leaveout.kernel.trees import Ensemble
from leaveout.models.trees.assemble import (
    Sets,
    Tree,
    assemble,
    constant,
    expect,
    float32_of,
    label_names,
)

_DEEPEST = 20  # oblivious trees have all 2**depth leaves; CatBoost itself allows depth 16
_TREATMENTS = {"AsFalse": True, "AsIs": True, "AsTrue": False}
"""Whether a missing value goes left, as one that is not above the border."""
_LINKS = {
    **dict.fromkeys(
        ("RMSE", "MAE", "Quantile", "MAPE", "Huber", "LogCosh", "Lq", "Expectile", "MultiRMSE"),
        "identity",
    ),
    **dict.fromkeys(("Poisson", "Tweedie"), "exp"),
    **dict.fromkeys(("Logloss", "CrossEntropy", "MultiClassOneVsAll"), "sigmoid"),
    "MultiClass": "softmax",
}
_CLASSIFIES = ("Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll")


class _Split(msgspec.Struct, forbid_unknown_fields=True):
    """A question; only those of numbers are read."""

    split_type: str
    split_index: int
    float_feature_index: int = -1
    border: float = 0.0
    cat_feature_index: Any = None
    value: Any = None
    ctr_target_border_idx: Any = None


class _Oblivious(msgspec.Struct, forbid_unknown_fields=True):
    leaf_values: list[float]
    splits: list[_Split] | None = None
    leaf_weights: Any = None


class _Node(msgspec.Struct, forbid_unknown_fields=True):
    """A node of a tree that is not oblivious: a split and two children, or a value."""

    split: _Split | None = None
    left: _Node | None = None
    right: _Node | None = None
    value: float | list[float] | None = None
    weight: Any = None


class _Number(msgspec.Struct, forbid_unknown_fields=True):
    feature_index: int
    flat_feature_index: int
    nan_value_treatment: str
    feature_id: str = ""
    borders: Any = None
    has_nans: Any = None


class _Category(msgspec.Struct, forbid_unknown_fields=True):
    feature_index: int
    flat_feature_index: int
    feature_id: str = ""
    values: Any = None


class _Features(msgspec.Struct, forbid_unknown_fields=True):
    float_features: list[_Number] = []
    categorical_features: list[_Category] = []
    # How numbers are made of categories; splits that ask of them are refused.
    ctrs: Any = None


class _Loss(msgspec.Struct):
    type: str


class _Params(msgspec.Struct):
    loss_function: _Loss


class _Classes(msgspec.Struct):
    class_names: list[str | int | float | bool] = []
    class_label_type: str = ""


class _Info(msgspec.Struct):
    """Of all that the model tells of its training, what says how scores are used."""

    params: _Params
    class_params: _Classes | None = None
    binclass_probability_threshold: Any = None


class _Model(msgspec.Struct, forbid_unknown_fields=True):
    features_info: _Features
    model_info: _Info
    scale_and_bias: tuple[float, float | list[float]]
    oblivious_trees: list[_Oblivious] | None = None
    trees: list[_Node] | None = None
    # The statistics behind numbers that are made of categories.
    ctr_data: Any = None


def read_json(data: bytes) -> Ensemble:
    """Read what ``save_model("model.json", format="json")`` wrote."""
    model = msgspec.json.decode(data, type=_Model)
    loss = model.model_info.params.loss_function.type
    need(loss in _LINKS, f"loss_function {loss[:40]!r} is not supported; train with one of "
         f"{', '.join(_LINKS)}")  # fmt: skip
    need(model.model_info.binclass_probability_threshold is None,
         "has a probability threshold of its own; save it without one")  # fmt: skip
    scale, bias = model.scale_and_bias
    biases = np.atleast_1d(np.asarray(bias, np.float64))
    features = _flat_features(model.features_info)
    expect((model.oblivious_trees is None) != (model.trees is None),
           "has neither oblivious_trees nor trees, or both")  # fmt: skip
    trees = [_free_form(tree, model.features_info) for tree in model.trees or ()]
    trees += [_oblivious(tree, model.features_info) for tree in model.oblivious_trees or ()]
    need(len(trees) > 0, "has no trees; train at least one round")
    scores = trees[0].values.shape[1]
    expect(all(tree.values.shape[1] == scores for tree in trees), "trees differ in their scores")
    expect(len(biases) in (0, 1, scores) and math.isfinite(scale) and scale > 0,
           f"scale_and_bias does not fit {scores} scores")  # fmt: skip
    if scale != 1:
        trees = [replace(tree, values=tree.values * scale) for tree in trees]
    last = constant(np.broadcast_to(biases if len(biases) else np.zeros(1), (scores,)))
    several = loss in ("MultiClass", "MultiClassOneVsAll")
    expect(loss == "MultiRMSE" or several == (scores > 1),
           f"{scores} scores do not fit the loss_function {loss}")  # fmt: skip
    return Ensemble(
        assemble([*trees, last], Sets(), scores, len(features)), np.zeros(scores),
        _labels(model.model_info, max(2, scores)) if loss in _CLASSIFIES else (), len(features),
        tuple(features) if len(set(features) - {""}) == len(features) else (), ordered=scale == 1,
        link=_LINKS[loss], rounds_inputs=True, source=f"CatBoost ({loss})",
    )  # fmt: skip


def of_catboost(model: Any) -> Ensemble:
    """Return a fitted model's trees, by way of a temporary file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        return read_json(path.read_bytes())


def _labels(info: _Info, count: int) -> tuple[str, ...]:
    classes = info.class_params
    if classes is None or not classes.class_names:
        return tuple(map(str, range(count)))
    kind = float if classes.class_label_type == "Float" else None
    return label_names(np.array(classes.class_names, kind or object), count)


def _flat_features(info: _Features) -> list[str]:
    """Return the features' names by their places in a row."""
    every: list[_Number | _Category] = [*info.float_features, *info.categorical_features]
    places = {each.flat_feature_index: each.feature_id for each in every}
    need(sorted(places) == list(range(len(every))), "has features that are neither numbers nor "
         "categories; train without text_features and embedding_features")  # fmt: skip
    for number, each in enumerate(info.float_features):
        expect(each.feature_index == number, "float_features are not in order")
        need(each.nan_value_treatment in _TREATMENTS, "nan_value_treatment "
             f"{each.nan_value_treatment[:40]!r} is not supported; set nan_mode")  # fmt: skip
    return [places[place] for place in range(len(every))]


def _question(split: _Split, info: _Features) -> tuple[int, float, bool]:
    """Return a split's feature, its border, and whether a missing value goes left."""
    need(split.split_type == "FloatFeature", f"has a split of type {split.split_type[:40]!r}; "
         "encode categories as numbers yourself, and train without cat_features")  # fmt: skip
    expect(0 <= split.float_feature_index < len(info.float_features),
           f"asks of number {split.float_feature_index}, which does not exist")  # fmt: skip
    feature = info.float_features[split.float_feature_index]
    return feature.flat_feature_index, split.border, _TREATMENTS[feature.nan_value_treatment]


def _oblivious(tree: _Oblivious, info: _Features) -> Tree:
    """Return a tree level by level, last split on top; bit j of a leaf says if split j holds."""
    splits = [_question(split, info) for split in reversed(tree.splits or ())]
    depth, count = len(splits), len(tree.leaf_values)
    expect(depth <= _DEEPEST and count and count % 2 ** min(depth, _DEEPEST) == 0,
           f"a tree has {count} leaf_values for {depth} splits")  # fmt: skip
    inner, level = 2**depth - 1, np.repeat(np.arange(depth), 2 ** np.arange(depth))
    child = 2 * np.arange(inner) + 1
    leaves = np.zeros(2**depth, np.int64)
    borders = _thresholds([border for _, border, _ in splits])
    values = np.array(tree.leaf_values, np.float64).reshape(2**depth, -1)
    return Tree(
        np.append(np.array([feature for feature, _, _ in splits], np.int64)[level], leaves - 1),
        np.append(borders[level], leaves.astype(np.float64)),
        np.append(np.array([goes for _, _, goes in splits], bool)[level], leaves != 0),
        np.full(inner + 2**depth, -1, np.int64),
        np.append(child, leaves),
        np.append(child + 1, leaves),
        np.concatenate((np.zeros((inner, values.shape[1])), values)),
    )


def _free_form(root: _Node, info: _Features) -> Tree:
    nodes = [root]
    rows: list[tuple[int, float, bool, int, int]] = []
    values: list[list[float]] = []
    # What is appended to is walked to its end.
    for node in nodes:
        if node.split is None:
            value = [] if node.value is None else node.value
            values.append(value if isinstance(value, list) else [value])
            expect(len(values[-1]) > 0 and node.left is node.right is None, "a node has no value")
            rows.append((-1, 0.0, False, 0, 0))
            continue
        if node.left is None or node.right is None or node.value is not None:
            raise Rejected("a node has a split, but not two children; save it again")
        rows.append((*_question(node.split, info), len(nodes), len(nodes) + 1))
        nodes += (node.left, node.right)
        values.append([])
    scores = max(map(len, values))
    expect(scores and all(len(each) in (0, scores) for each in values), "leaves differ in size")
    feature, border, goes, left, right = zip(*rows, strict=True)
    return Tree(
        np.array(feature), _thresholds(list(border)), np.array(goes, bool),
        np.full(len(rows), -1, np.int64), np.array(left), np.array(right),
        np.array([each or [0.0] * scores for each in values], np.float64),
    )  # fmt: skip


def _thresholds(borders: list[float]) -> Floats:
    return np.asarray(before_rounding(float32_of(borders).astype(np.float64)), np.float64)
