"""What skl2onnx writes: pipelines answer as onnxruntime runs them, within the charged rounding."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from sklearn.compose import make_column_transformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from leaveout.encoders import Box
from leaveout.encoders.bounds import network_bounds
from leaveout.encoders.rounding import evaluation_of, rounding_error
from leaveout.errors import ModelError
from leaveout.models.onnx.file import check_against_onnxruntime, network_from, network_from_bytes
from leaveout.models.replay import session

from support.depth import rounds

F32 = np.float32
RNG = np.random.default_rng(3)
X = (RNG.normal(size=(200, 4)) * [1, 50, 3, 0.1] + [0, 100, -2, 1]).astype(F32)
POINTS = (X[RNG.integers(0, 200, 500)] + RNG.normal(size=(500, 4)) * X.std(axis=0)).astype(F32)
CLASSIFIERS = {
    "logistic": LogisticRegression(),
    "network": MLPClassifier((6,), max_iter=50, random_state=0),
    "discriminant": LinearDiscriminantAnalysis(),
}


def transformer():
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), [2, 0]),
        (make_pipeline(MinMaxScaler(), MaxAbsScaler()), [3]),
        (RobustScaler(), [1]),
        remainder="passthrough",
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("zipped", [False, True])
def test_a_column_transformer_labels_points_as_onnxruntime_does(name, labels, zipped):
    convert = pytest.importorskip("skl2onnx").to_onnx
    y = np.digitize(X[:, 0] + X[:, 1] / 50, [2, 3][: labels - 1])
    pipeline = make_pipeline(transformer(), CLASSIFIERS[name]).fit(X, y)
    model = convert(pipeline, X[:1], options={id(pipeline): {"zipmap": zipped}})
    network = network_from_bytes(model.SerializeToString(), "net.onnx")
    scores = network.runner().scores(POINTS)
    own = session(model, "it").run(None, {"X": POINTS})[0]
    low, high = np.sort(scores.astype(np.float64), axis=1)[:, -2:].T
    differs = scores.argmax(axis=1) != own
    assert len(set(own.tolist())) > 1
    assert (high - low <= 2.0**-20 * (1 + np.abs(scores).max(axis=1)))[differs].all()


def linear(rng, inputs, labels):
    """Return a random scaler of selected columns, then a classifier with plain scores."""
    places = rng.permutation(inputs + 2)[:inputs]
    sizes = 10.0 ** rng.integers(-3, 4, inputs)
    node, ml = helper.make_node, {"domain": "ai.onnx.ml"}
    nodes = [
        node("ArrayFeatureExtractor", ["x", "places"], ["a"], **ml),
        node(
            *("Scaler", ["a"], ["b"]),
            offset=(sizes * rng.normal(size=inputs)).tolist(),
            scale=(rng.normal(size=inputs) / sizes).tolist(),
            **ml,
        ),
        node(
            *("Imputer", ["b"], ["c"]),
            imputed_value_floats=[1.0] * inputs,
            replaced_value_float=float("nan"),
            **ml,
        ),
        node(
            *("LinearClassifier", ["c"], ["label", "y"]),
            coefficients=(rng.normal(size=labels * inputs) * 10.0 ** rng.integers(-2, 3)).tolist(),
            intercepts=rng.normal(size=labels).tolist(),
            classlabels_ints=[*range(labels)],
            post_transform="NONE",
            **ml,
        ),
    ]
    floats = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", inputs + 2])]
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.INT64, ["n"]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", labels]),
    ]
    constants = [numpy_helper.from_array(places.reshape(1, -1), "places")]
    graph = helper.make_graph(nodes, "linear", floats, outputs, constants)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@settings(max_examples=rounds(60), deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_onnxruntimes_scalers_and_linear_models_round_no_more_than_charged(seed):
    rng = np.random.default_rng(seed)
    inputs, labels = int(rng.integers(1, 40)), int(rng.integers(3, 6))
    model = linear(rng, inputs, labels)
    network = network_from(model, "net.onnx")
    check_against_onnxruntime(network)
    low = rng.normal(size=inputs + 2) * 10.0 ** rng.integers(-3, 4, inputs + 2)
    box = Box(low.astype(F32).astype(float), (low + np.abs(low)).astype(F32).astype(float))
    parameters = {name: value[None] for name, value in network.parameters.items()}
    charged = rounding_error(
        evaluation_of(network.graph, parameters), network_bounds(network.stack, box), box
    ).of_forms(np.eye(labels))
    points = rng.uniform(box.lower, box.upper, (200, inputs + 2)).astype(F32)
    points = np.clip(points, box.lower.astype(F32), box.upper.astype(F32))
    own = session(model, "it").run(["y"], {"x": points})[0]
    exact = network.stack.scores(points.astype(np.float64))[0]
    assert np.isfinite(charged).all()
    assert (np.abs(own - exact) <= charged).all()


@pytest.mark.parametrize("change", ["gaps of zero", "columns by data"])
def test_what_jumps_or_selects_by_data_is_refused(change, snapshot):
    model = linear(np.random.default_rng(0), 3, 3)
    if change == "gaps of zero":
        (replaced,) = [
            each for each in model.graph.node[2].attribute if each.name == "replaced_value_float"
        ]
        replaced.f = 0.0
    else:
        del model.graph.initializer[:]
        model.graph.node.insert(
            0, helper.make_node("Cast", ["x"], ["places"], to=TensorProto.INT64)
        )
    with pytest.raises(ModelError) as told:
        network_from(model, "net.onnx")
    assert str(told.value) == snapshot


def test_trees_are_refused_with_what_to_do(snapshot):
    convert = pytest.importorskip("skl2onnx").to_onnx
    from sklearn.ensemble import RandomForestClassifier

    model = convert(RandomForestClassifier(2).fit(X, X[:, 0] > 0), X[:1])
    with pytest.raises(ModelError) as told:
        network_from(onnx.load_from_string(model.SerializeToString()), "net.onnx")
    assert str(told.value) == snapshot


def test_columns_are_selected_along_the_last_axis():
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("ArrayFeatureExtractor", ["r", "places"], ["a"], domain="ai.onnx.ml"),
        helper.make_node("Flatten", ["a"], ["y"]),
    ]
    constants = {"shape": np.array([-1, 2, 3]), "places": np.array([2, 0])}
    graph = helper.make_graph(
        nodes,
        "selected",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    points = RNG.normal(size=(5, 6)).astype(F32)
    (own,) = session(model, "it").run(None, {"x": points})
    network = network_from(model, "net.onnx")
    assert np.array_equal(network.runner().scores(points), own)
    assert np.array_equal(network.stack.scores(points.astype(np.float64))[0], own)
