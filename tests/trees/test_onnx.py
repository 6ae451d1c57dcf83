"""Trees in ONNX files: read, they answer as onnxruntime does."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)

from leaveout.errors import TreesError
from leaveout.models.trees.onnx import read_onnx
from leaveout.models.trees.reading import of_model, read_trees

from support.damage import refusal_of, survive_damage
from support.depth import rounds
from support.onnx_trees import as_model, new_attributes, old_attributes, random_trees, run
from tree_inputs import hard_inputs

FEATURES = 3
REGRESSOR, CLASSIFIER, NEW = "TreeEnsembleRegressor", "TreeEnsembleClassifier", "TreeEnsemble"
QUESTIONS = (("LEQ",), ("LT",), ("LEQ", "LT", "GT", "GTE"), ("EQ", "LEQ"), ("EQ",), ("NEQ", "LT"))
LABELS = (
    ("classlabels_int64s", [0, 1]),
    ("classlabels_int64s", [5, 7]),
    ("classlabels_strings", ["a", "b"]),
)


def scores(trees, target, targets, *, double=False, opset=1, missing=True, **more):
    """Return a model of scores."""
    if opset == 5:
        found = new_attributes(trees, target, double, missing=missing)
    else:
        found = old_attributes(trees, target, double, missing=missing, as_tensor=opset == 3)
    kind = TensorProto.DOUBLE if double and opset == 5 else TensorProto.FLOAT
    return as_model(
        NEW if opset == 5 else REGRESSOR, {**found, "n_targets": targets, **more}, FEATURES, double,
        opset, [("y", kind)],
    )  # fmt: skip


def classifier(trees, target, labels, *, double=False, opset=1, missing=True, **more):
    """Return a model of labels and scores."""
    found = old_attributes(
        trees, target, double, missing=missing, as_tensor=opset == 3, prefix="class"
    )
    text = "classlabels_strings" in dict([labels])
    kind = TensorProto.STRING if text else TensorProto.INT64
    return as_model(
        CLASSIFIER, {**found, **dict([labels]), **more}, FEATURES, double, opset,
        [("label", kind), ("y", TensorProto.FLOAT)],
    )  # fmt: skip


def agree(data, seed=0, rows=400):
    """Compare scores and labels with onnxruntime's on inputs at and beside all thresholds."""
    ensemble = read_onnx(data)
    X = hard_inputs(ensemble, np.random.default_rng(seed), rows, huge=3e38)
    found = run(data, X)
    own = ensemble.scores(X)
    assert not ensemble.ordered
    if not ensemble.labels:
        want = np.asarray(found[0], float).reshape(own.shape)
        assert (np.abs(own - want) <= 2 * ensemble.rounding()).all()
        return ensemble
    labels = np.array(ensemble.labels)[ensemble.answers(X)]
    last = np.sort(own, axis=1)
    margin = np.abs(own[:, 0] - ensemble.center) if own.shape[1] == 1 else last[:, -1] - last[:, -2]
    differ = labels != np.asarray(found[0]).astype(str)
    assert (margin[differ] <= 4 * ensemble.rounding().max()).all()
    return ensemble


@settings(max_examples=rounds(300))
@given(
    seed=st.integers(0, 2**31 - 1),
    double=st.booleans(),
    opset=st.sampled_from((1, 3, 5)),
    modes=st.sampled_from(QUESTIONS),
    missing=st.booleans(),
    targets=st.integers(1, 3),
    mean=st.booleans(),
    base=st.booleans(),
)
def test_scores_are_those_of_onnxruntime(seed, double, opset, modes, missing, targets, mean, base):
    rng = np.random.default_rng(seed)
    if opset == 5 and modes == ("EQ",):
        modes = ("MEMBER", "LEQ")
    trees = random_trees(rng, FEATURES, int(rng.integers(1, 8)), 3, modes)
    more = {"aggregate_function": int(not mean) if opset == 5 else ("SUM", "AVERAGE")[mean]}
    if base and opset < 5:
        more["base_values"] = rng.normal(size=targets).tolist()
    agree(
        scores(trees, lambda at: at % targets, targets, double=double, opset=opset,
               missing=missing, **more), seed,
    )  # fmt: skip


@settings(max_examples=rounds(300))
@given(
    seed=st.integers(0, 2**31 - 1),
    double=st.booleans(),
    opset=st.sampled_from((1, 3)),
    labels=st.sampled_from(LABELS),
    positive=st.booleans(),
    written=st.sampled_from(("first", "second", "both")),
    base=st.integers(0, 2),
    post=st.sampled_from(("NONE", "LOGISTIC", "SOFTMAX")),
)
def test_two_labels_are_those_of_onnxruntime(
    seed, double, opset, labels, positive, written, base, post
):
    rng = np.random.default_rng(seed)
    trees = random_trees(rng, FEATURES, 4, 3, ("LEQ", "GT"))

    def above_zero(tree):
        return abs(tree) if isinstance(tree, float) else (*tree[:4], *map(above_zero, tree[4:]))

    def least(tree):
        return tree if isinstance(tree, float) else min(map(least, tree[4:]))

    trees = [*map(above_zero, trees)] if positive else trees
    positive = min(map(least, trees)) >= 0
    more = {"base_values": rng.normal(size=base).tolist()} if base else {}
    data = classifier(
        trees, {"first": lambda at: 0, "second": lambda at: 1, "both": lambda at: at % 2}[written],
        labels, double=double, opset=opset, post_transform=post, **more,
    )  # fmt: skip
    try:
        ensemble = agree(data, seed)
    except TreesError as error:
        assert written != "first" or base == 2
        assert "one score" in str(error) or "one base value" in str(error)
        return
    assert ensemble.center == (0.5 if positive and written != "both" else 0.0)
    assert ensemble.link == {"NONE": "identity", "LOGISTIC": "sigmoid"}.get(post, "softmax")


@settings(max_examples=rounds(60))
@given(seed=st.integers(0, 2**31 - 1), base=st.booleans(), double=st.booleans())
def test_three_labels_are_those_of_onnxruntime(seed, base, double):
    rng = np.random.default_rng(seed)
    trees = random_trees(rng, FEATURES, 6, 3, ("LEQ", "LT"))
    more = {"base_values": rng.normal(size=3).tolist()} if base else {}
    labels = ("classlabels_strings", ["x", "y", "z"])
    agree(classifier(trees, lambda at: at % 3, labels, double=double, **more), seed)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize(
    "members", [[1, 3], [0, 30], [40, 0], [31], [-1, 2], [-3, -1], list(range(31)), [2.5, 7]]
)
def test_members_of_sets_are_those_of_onnxruntime(members, missing, double):
    tree = (0, "MEMBER", [float(each) for each in members], missing, 1.0, 2.0)
    data = scores([tree], lambda at: 0, 1, double=double, opset=5)
    X = np.zeros((400, FEATURES))
    X[:, 0] = np.append(np.arange(-3, 96.5, 0.25), [np.nan, 1e5])
    X = np.concatenate((X, np.nextafter(X.astype(np.float32), np.float32(9e9)).astype(float)))
    assert np.array_equal(read_onnx(data).scores(X), run(data, X)[0])


def chain(members, missing):
    """Return equal questions one after another, which end at one leaf, as converters write sets."""
    size = len(members)
    found = {
        "nodes_treeids": [0] * (size + 2), "nodes_nodeids": list(range(size + 2)),
        "nodes_featureids": [0] * (size + 2), "nodes_modes": ["BRANCH_EQ"] * size + ["LEAF"] * 2,
        "nodes_values": [*map(float, members), 0.0, 0.0],
        "nodes_truenodeids": [size] * size + [0, 0],
        "nodes_falsenodeids": [*range(1, size), size + 1, 0, 0],
        "nodes_missing_value_tracks_true": [*missing, 0, 0],
        "target_treeids": [0, 0], "target_nodeids": [size, size + 1], "target_ids": [0, 0],
        "target_weights": [1.0, 2.0], "n_targets": 1,
    }  # fmt: skip
    return as_model(REGRESSOR, found, 1, False, 1, [("y", TensorProto.FLOAT)])


@pytest.mark.parametrize(
    "members", [[1, 3], [1, 3, 40], [40, 3, 1], [2.5, 3, 4], [30, 31, 32], [-1, 5]]
)
@pytest.mark.parametrize("missing", [0, 1])
def test_chains_of_equal_questions(members, missing):
    data = chain(members, [missing] * len(members))
    X = np.append(np.arange(-3, 70, 0.25), np.nan)[:, None]
    assert np.array_equal(read_onnx(data).scores(X), run(data, X)[0])


def test_chains_with_missing_values_both_ways_are_refused():
    with pytest.raises(TreesError, match="missing values both ways"):
        read_onnx(chain([1, 3], [0, 1]))


MODELS = {
    "boosting": (GradientBoostingClassifier(n_estimators=9), load_breast_cancer),
    "boosting of three": (GradientBoostingClassifier(n_estimators=4), load_iris),
    "histograms": (HistGradientBoostingClassifier(max_iter=9), load_breast_cancer),
    "histograms of three": (HistGradientBoostingClassifier(max_iter=4), load_iris),
    "histogram scores": (HistGradientBoostingRegressor(max_iter=9), load_diabetes),
    "forest": (RandomForestClassifier(9), load_breast_cancer),
    "forest of three": (RandomForestClassifier(9), load_iris),
    "extra trees": (ExtraTreesRegressor(9), load_diabetes),
}


@pytest.mark.parametrize("name", MODELS)
def test_exports_of_skl2onnx_are_read(name):
    model, load = MODELS[name]
    X, y = load(return_X_y=True)
    model.fit(X, y)
    exported = to_onnx(model, initial_types=[("x", FloatTensorType([None, X.shape[1]]))])
    ensemble = agree(exported.SerializeToString())
    assert ensemble.features == X.shape[1]
    assert ensemble.rounds_inputs
    assert of_model(exported).trees == ensemble.trees


def test_what_follows_the_trees_is_read():
    trees = random_trees(np.random.default_rng(3), FEATURES, 4, 2, ("LEQ",))
    attributes = {**old_attributes(trees, lambda at: 0, False), "n_targets": 1}

    def ending(*more, constants=()):
        return as_model(
            REGRESSOR, attributes, FEATURES, False, 1, [("y", TensorProto.FLOAT)], more, constants
        )

    half = ("c", np.array([0.5], np.float32))
    node = helper.make_node
    plain = agree(ending(node("Identity", ["y"], ["z"])))
    halved = agree(ending(node("Mul", ["y", "c"], ["z"]), constants=[half]))
    assert np.array_equal(halved.nodes.values, plain.nodes.values / 2)
    agree(ending(node("Div", ["y", "c"], ["z"]), constants=[half]))
    assert agree(ending(node("Add", ["c", "y"], ["z"]), constants=[half])).base == [0.5]
    assert agree(ending(node("Sub", ["y", "c"], ["z"]), constants=[half])).base == [-0.5]
    agree(ending(node("Add", ["y", "y"], ["z"])))
    shape = ("s", np.array([-1, 1]))
    agree(ending(node("Reshape", ["y", "s"], ["z"]), constants=[shape]))
    agree(ending(node("Concat", ["y"], ["z"], axis=1)))
    for kind, link in (("Exp", "exp"), ("Sigmoid", "sigmoid")):
        assert read_onnx(ending(node(kind, ["y"], ["z"]))).link == link
    with pytest.raises(TreesError, match="Tanh that is not read"):
        read_onnx(ending(node("Tanh", ["y"], ["z"])))
    with pytest.raises(TreesError, match="uses Mul"):
        read_onnx(
            ending(node("Mul", ["y", "c"], ["w"]), node("Mul", ["w", "c"], ["z"]), constants=[half])
        )


def test_columns_are_chosen_and_cast():
    trees = random_trees(np.random.default_rng(4), 2, 4, 2, ("LEQ", "LT"))
    attributes = {**old_attributes(trees, lambda at: 0, False), "n_targets": 1}
    before = [
        helper.make_node("Cast", ["x"], ["short"], to=TensorProto.FLOAT),
        helper.make_node("ArrayFeatureExtractor", ["short", "at"], ["two"], domain="ai.onnx.ml"),
    ]
    data = as_model(
        REGRESSOR, attributes, FEATURES, True, 1, [("y", TensorProto.FLOAT)],
        constants=[("at", np.array([2, 0]))], before=before,
    )  # fmt: skip
    ensemble = agree(data)
    assert ensemble.features == FEATURES
    assert set(ensemble.nodes.feature) <= {-1, 0, 2}


def test_a_threshold_of_float32_is_put_before_the_rounding_of_inputs():
    ensemble = read_onnx(scores([(0, "LEQ", 0.1, 0, 1.0, 2.0)], lambda at: 0, 1))
    (threshold,) = ensemble.nodes.threshold[:1]
    assert np.float32(threshold) <= np.float32(0.1) < np.float32(np.nextafter(threshold, 1))


TREE = (0, "LEQ", 0.5, 0, 1.0, 2.0)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"aggregate_function": "MIN"}, "combines its trees by MIN"),
        ({"post_transform": "PROBIT"}, "combines its trees by PROBIT"),
        ({"post_transform": "LOGISTIC"}, "which onnxruntime ignores"),
        ({"secret": 1}, "an attribute 'secret'"),
        ({"base_values": [1.0, 2.0]}, "base values"),
        ({"n_targets": 0}, "scores that do not exist"),
        ({"target_ids": [0, 1]}, "scores that do not exist"),
        ({"target_nodeids": [1, 1]}, "a score twice"),
        ({"nodes_featureids": [7, 0, 0]}, "a feature that its input does not have"),
        ({"nodes_values": [np.nan, 0.0, 0.0]}, "not a number"),
        ({"nodes_modes": ["BRANCH_WILD", "LEAF", "LEAF"]}, "mode 'WILD'"),
        ({"nodes_truenodeids": [0, 0, 0]}, "too large or deep"),
        ({"nodes_truenodeids": [9, 0, 0]}, "damaged"),
        ({"nodes_values": [0.5]}, "differ in length"),
        ({"nodes_nodeids": [0, 1, 1]}, "a node twice"),
        ({"nodes_treeids": [0, 1, 0]}, "in several places"),
        ({"target_weights": [np.inf, 1.0]}, "not finite"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path, more, message):
    data = scores([TREE], lambda at: 0, 1)
    model = onnx.load_from_string(data)
    node = model.graph.node[0]
    kept = [each for each in node.attribute if each.name not in more]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(*each) for each in more.items())])
    assert message in refusal_of(tmp_path / "model.onnx", model.SerializeToString())


def test_minus_infinity_is_compared_only_where_that_can_be_said():
    read_onnx(scores([(0, "LEQ", -np.inf, 0, 1.0, 2.0)], lambda at: 0, 1))
    with pytest.raises(TreesError, match="minus infinity"):
        read_onnx(scores([(0, "LT", -np.inf, 0, 1.0, 2.0)], lambda at: 0, 1))


@pytest.mark.parametrize("value", [np.inf, -np.inf, 3.4028235e38, -3.4028235e38, 1e-45, -0.0, 0.0])
@pytest.mark.parametrize("mode", ["LEQ", "GT"])
def test_the_ends_of_float32(value, mode):
    data = scores([(0, mode, value, 0, 1.0, 2.0)], lambda at: 0, 1)
    near = [0.0, 1e-46, 7e-46, 8e-46, 1e-45, 3.4028235e38, 3.4028235677973366e38, 3.5e38, np.inf]
    X = np.zeros((2 * len(near), FEATURES))
    X[:, 0] = [*near, *(-each for each in near)]
    assert np.array_equal(read_onnx(data).scores(X), run(data, X)[0])


def test_steps_before_the_trees_are_refused():
    scaler = helper.make_node(
        "Scaler", ["x"], ["s"], domain="ai.onnx.ml", offset=[0.0], scale=[1.0]
    )
    attributes = {**old_attributes([TREE], lambda at: 0, False), "n_targets": 1}
    data = as_model(
        REGRESSOR, attributes, FEATURES, False, 1, [("y", TensorProto.FLOAT)], before=[scaler]
    )
    with pytest.raises(TreesError, match="Scaler that is not read"):
        read_onnx(data)


def test_damaged_files_are_refused(tmp_path):
    trees = random_trees(np.random.default_rng(1), FEATURES, 2, 3, ("LEQ", "EQ"))
    for opset in (1, 3, 5):
        survive_damage(tmp_path / "m.onnx", scores(trees, lambda at: 0, 1, opset=opset), opset)
    (tmp_path / "m.onnx").write_bytes(scores(trees, lambda at: 0, 1))
    assert read_trees(tmp_path / "m.onnx").trees == 2
