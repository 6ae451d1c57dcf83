"""The small network as a scikit-learn classifier, also of the members of a service."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from leaveout.models.sharded import ServiceSettings, ShardedClassifier

pytest.importorskip("torch")

from leaveout.models.train import NetworkClassifier


def test_it_learns_and_is_a_function_of_its_seed():
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    network = NetworkClassifier((8,), epochs=25, random_state=1).fit(X, names)
    assert network.score(X, names) > 0.9
    again, other = clone(network).fit(X, names), NetworkClassifier((8,), random_state=2)
    assert np.array_equal(network.decision_function(X), again.decision_function(X))
    other.set_params(epochs=25).fit(X, names)
    assert not np.array_equal(network.decision_function(X), other.decision_function(X))


def test_scores_are_those_of_the_exported_network():
    import onnxruntime

    from leaveout.models.train.architecture import layers_of
    from leaveout.models.train.export import network_model, unflatten
    from leaveout.models.train.recipe import Recipe

    X, y = load_iris(return_X_y=True)
    network = NetworkClassifier((8, 5), epochs=3, random_state=0).fit(X, y)
    layers = layers_of(Recipe(layers=(8, 5)), 4, 3)
    model = network_model(layers, unflatten(layers, network.parameters_))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (scores,) = session.run(None, {session.get_inputs()[0].name: X.astype(np.float32)})
    assert np.allclose(scores, network.decision_function(X), atol=1e-4)


def test_a_service_of_networks_forgets(tmp_path):
    X, y = load_iris(return_X_y=True)
    settings = ServiceSettings(shards=3, mechanism="majority", rows=200)
    network = NetworkClassifier((4,), epochs=5)
    service = ShardedClassifier(network, settings, tmp_path / "service", seed=b"test")
    service.fit(X, y)
    service.delete([0, 60])
    again = ShardedClassifier.load(tmp_path / "service", network, seed=b"test")
    assert np.array_equal(service.predict(X[:9]), again.predict(X[:9]))


def test_one_clear_error():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="learning_rate"):
        NetworkClassifier((8, 8), learning_rate=9e4, epochs=5, random_state=0).fit(1e6 * X, y)
