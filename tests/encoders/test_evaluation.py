"""The stated float32 evaluation error covers what onnxruntime really does."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.models import confidence

from support import networks
from support.cases import question


@pytest.mark.parametrize("kind", networks.ALL)
@pytest.mark.parametrize("seed", range(4))
def test_onnxruntime_stays_within_the_stated_error(kind, seed):
    model = networks.ALL[kind](np.random.default_rng(seed))
    instance = question(seed, model=model, negative=bool(seed % 2))
    points = instance.box.sample(np.random.default_rng(seed), 2000).astype(np.float32)
    exact = instance.network.stack.scores(points.astype(np.float64))[0]
    computed = instance.network.runner().scores(points).astype(np.float64)
    stack = instance.members.take(range(len(instance.members)))
    members = stack.scores(points.astype(np.float64))
    for label in range(instance.labels):
        off = np.abs(confidence(computed, label) - confidence(exact, label)).max()
        assert off <= instance.network_error
        for member in range(len(instance.family)):
            taken = {k: v[0] for k, v in instance.family.take([member]).items()}
            found = instance.network.runner(taken).scores(points).astype(np.float64)
            off = np.abs(confidence(found, label) - confidence(members[member], label)).max()
            assert off <= instance.member_error


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_stated_error_is_small_against_the_scores(scale):
    instance = question(2, scale=scale)
    points = instance.box.sample(np.random.default_rng(0), 1000)
    size = np.abs(instance.network.stack.scores(points)).max()
    assert 0 < instance.network_error < 1e-3 * size
