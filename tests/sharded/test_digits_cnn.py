"""A network of torch in shards: a function of points and seed, forgotten and attacked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from leaveout.models.sharded import ServiceSettings, ShardedClassifier
from leaveout.verifier.audits.adaptive import WhiteBox

torch = pytest.importorskip("torch")

FOLDER = Path(__file__).parents[2] / "examples" / "deletion"


@pytest.fixture
def cnn(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    from digits_cnn import DigitsCNN

    return DigitsCNN(channels=2, epochs=3)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:120], y[:120]


def test_it_is_a_function_of_points_order_and_seed(cnn, digits):
    X, y = digits
    first = clone(cnn).set_params(random_state=3).fit(X, y)
    torch.rand(5)  # what others draw does not matter, nor what it draws to them
    before = torch.get_rng_state()
    again = clone(cnn).set_params(random_state=3).fit(X, y)
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(first.predict_proba(X), again.predict_proba(X))
    other = clone(cnn).set_params(random_state=4).fit(X, y)
    assert not np.array_equal(first.predict_proba(X), other.predict_proba(X))
    assert first.predict_proba(X).sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_it_learns(cnn, digits):
    X, y = digits
    assert cnn.set_params(channels=8, epochs=40, random_state=0).fit(X, y).score(X, y) > 0.95


def test_a_service_of_networks_forgets_and_is_the_same_when_loaded(cnn, digits, tmp_path):
    settings = ServiceSettings(shards=3, mechanism="majority", rows=200)
    service = ShardedClassifier(cnn, settings, tmp_path / "service", seed=b"test").fit(*digits)
    service.delete([0, 60])
    again = ShardedClassifier.load(tmp_path / "service", cnn, seed=b"test")
    assert np.array_equal(service.predict(digits[0][:20]), again.predict(digits[0][:20]))


def test_the_attack_on_published_networks_is_replayed(cnn, digits):
    attack = WhiteBox(cnn, *digits, *digits, shards=4)
    trial = attack.replay(1, 2)
    assert trial == attack.replay(1, 2)
    assert 0 < len(trial.deleted) < 120
    assert len(trial.unlearned) == 4
