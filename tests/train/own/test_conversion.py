"""What a training returns, as ONNX: it computes what the model itself computes."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC

from leaveout.errors import TrainingError
from leaveout.models.onnx.file import network_from_bytes
from leaveout.models.train.own.convert import model_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(7)
X = (RNG.random((90, 4)) * [1, 100, 3, 0.01] + [0, 500, -1, 0]).astype(np.float32)
POINTS = (X[RNG.integers(0, 90, 400)] + RNG.normal(size=(400, 4)) * X.std(axis=0)).astype(
    np.float32
)

SCALERS = {
    "none": [],
    "standard": [StandardScaler()],
    "mean": [StandardScaler(with_std=False)],
    "deviation": [StandardScaler(with_mean=False)],
    "both": [MinMaxScaler((-1, 2)), "passthrough", StandardScaler()],
}
CLASSIFIERS = {
    "mlp": lambda: MLPClassifier((5, 3), max_iter=30, random_state=1),
    "mlp tanh": lambda: MLPClassifier((4,), activation="tanh", max_iter=9, random_state=1),
    "mlp logistic": lambda: MLPClassifier((4, 3), activation="logistic", max_iter=9),
    "mlp identity": lambda: MLPClassifier((4,), activation="identity", max_iter=9, random_state=1),
    "mlp none": lambda: MLPClassifier((), max_iter=30, random_state=1),
    "logistic": lambda: LogisticRegression(),
    "no intercept": lambda: LogisticRegression(fit_intercept=False),
    "ridge": lambda: RidgeClassifier(),
    "svc": lambda: LinearSVC(random_state=0),
    "sgd": lambda: SGDClassifier(random_state=0, max_iter=20),
}


def fitted(classifier, scaler, labels):
    y = np.digitize(X[:, 0] + X[:, 2] / 9, [0.5, 0.8][: labels - 1])
    steps = [*SCALERS[scaler], CLASSIFIERS[classifier]()]
    return (make_pipeline(*steps) if len(steps) > 1 else steps[0]).fit(X, y)


@pytest.mark.parametrize(
    ("classifier", "scaler"),
    [*itertools.product(CLASSIFIERS, ["standard"]), *itertools.product(["mlp", "svc"], SCALERS)],
)
@pytest.mark.parametrize("labels", [2, 3])
def test_an_estimator_labels_as_its_network_does(classifier, scaler, labels):
    estimator = fitted(classifier, scaler, labels)
    network = network_from_bytes(model_of(estimator, X, labels, "it"), "it")
    scores = network.runner().scores(POINTS)
    assert scores.shape == (len(POINTS), labels)
    first, second = np.sort(scores, axis=1)[:, -2:].T
    # Float32 decides near-ties otherwise.
    clear = second - first > 1e-4 * (1 + np.abs(scores).max(axis=1))
    assert clear.mean() > 0.5
    expected = estimator.predict(POINTS)
    assert np.array_equal(scores.argmax(axis=1)[clear], expected[clear])


@pytest.mark.parametrize("labels", [2, 3])
def test_weights_are_the_estimators_rounded_once(labels):
    estimator = fitted("mlp", "none", labels)
    network = network_from_bytes(model_of(estimator, X, labels, "it"), "it")
    for place, (weight, bias) in enumerate(zip(estimator.coefs_, estimator.intercepts_)):
        found = network.parameters[f"layers.{place}.weight"]
        shift = network.parameters[f"layers.{place}.bias"]
        if labels == 2 and place == 2:
            assert not found[0].any()
            assert not shift[0]
            found, shift = found[1:], shift[1:]
        assert np.array_equal(found, weight.T.astype(np.float32))
        assert np.array_equal(shift, bias.astype(np.float32))


def test_two_labels_tie_as_the_estimator_decides():
    estimator = LogisticRegression().fit(X, X[:, 0] > 0.5)
    estimator.classes_ = np.array([0, 1])
    estimator.coef_, estimator.intercept_ = np.zeros((1, 4)), np.zeros(1)
    network = network_from_bytes(model_of(estimator, X, 2, "it"), "it")
    assert np.array_equal(network.runner().scores(X[:3]).argmax(axis=1), estimator.predict(X[:3]))


def test_a_regression_is_no_classifier(snapshot):
    with pytest.raises(TrainingError) as told:
        model_of(LinearRegression().fit(X, X[:, 0]), X, 2, "it")
    assert str(told.value) == snapshot


def modules(torch):
    nn = torch.nn

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.inner = nn.Linear(4, 6), nn.Linear(6, 6, bias=False)
            self.leave = nn.Linear(6, 3)

        def forward(self, x):
            hidden = torch.relu(self.enter(x))
            return self.leave(hidden + torch.relu(self.inner(hidden)))

    return {
        "dense": nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)),
        "norm": nn.Sequential(
            nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(), nn.Linear(6, 3)
        ),
        "conv": nn.Sequential(
            nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4, 3)
        ),
        "residual": Residual(),
        "softmax": nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1)),
    }


@pytest.mark.parametrize("name", ["dense", "norm", "conv", "residual", "softmax"])
def test_a_module_gives_the_scores_of_its_network(torch, name):
    torch.manual_seed(3)
    module = modules(torch)[name]
    scaled = (POINTS - X.mean(axis=0)) / X.std(axis=0)
    module(torch.from_numpy(scaled))  # what a norm remembers of a batch
    content = model_of(module.eval(), scaled, 3, "it")
    network = network_from_bytes(content, "it")
    with torch.no_grad():
        expected = module(torch.from_numpy(scaled)).numpy()
    found = network.runner().scores(scaled)
    if name == "softmax":
        found = np.exp(found) / np.exp(found).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_the_names_of_parameters_are_the_modules(torch):
    module = modules(torch)["dense"]
    network = network_from_bytes(model_of(module, X, 3, "it"), "it")
    for name, value in module.state_dict().items():
        assert np.array_equal(network.parameters[name], value.numpy())


@pytest.mark.parametrize("probability", [False, True])
def test_one_score_of_two_labels_is_read_as_two(torch, probability):
    torch.manual_seed(0)
    nn = torch.nn
    scoring = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1))
    module = nn.Sequential(*scoring, nn.Sigmoid()) if probability else scoring
    points = RNG.normal(size=(200, 4)).astype(np.float32)
    network = network_from_bytes(model_of(module, points, 2, "it"), "it")
    found = network.runner().scores(points)
    with torch.no_grad():
        expected = scoring(torch.from_numpy(points))[:, 0].numpy()
    assert not found[:, 0].any()
    np.testing.assert_allclose(found[:, 1], expected, atol=1e-6)
    assert list(network.parameters) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_an_onnx_model_is_taken_as_it_is(tmp_path):
    content = model_of(fitted("mlp", "both", 3), X, 3, "it")
    model = onnx.load_from_string(content)
    path = tmp_path / "own.onnx"
    onnx.save(model, path)
    for given in (model, content, path, str(path)):
        assert model_of(given, X, 3, "it") == content


def test_an_onnx_model_of_float64_is_refused(snapshot):
    model = onnx.load_from_string(model_of(fitted("logistic", "none", 3), X, 3, "it"))
    (weight, _) = model.graph.initializer
    value = onnx.numpy_helper.to_array(weight).astype(np.float64)
    weight.CopyFrom(onnx.numpy_helper.from_array(value, weight.name))
    with pytest.raises(TrainingError) as told:
        model_of(model, X, 3, "it")
    assert str(told.value) == snapshot
