"""Networks with members at all distances, and what their margins are."""

from __future__ import annotations

import numpy as np

from leaveout.bab import make_instance
from leaveout.encoders import Box
from leaveout.models import Family
from leaveout.models.onnx.file import network_from

from support.cases import shaken

__all__ = ["FACTORS", "margins_at", "question", "unbounded"]

FACTORS = (0.0, 1e-6, 1e-3, 0.02, 0.3, 50.0)
"""Of what members change: equal to N, hardly, far off."""


def question(model, seed, members, factors=FACTORS, box=None):
    rng = np.random.default_rng(seed)
    network = network_from(model, "N")
    stacks = shaken(rng, network, members, 1.0)
    factor = np.asarray(factors)[rng.integers(len(factors), size=members)]
    for name, stack in stacks.items():
        own, shape = network.parameters[name], (-1, *[1] * (stack.ndim - 1))
        stacks[name] = (own + factor.reshape(shape) * (stack - own)).astype(np.float32)
    family = Family(stacks, np.arange(members))
    cube = box or Box(np.zeros(network.inputs), np.ones(network.inputs))
    return make_instance(network, family, cube)


def unbounded(instance):
    return np.full((instance.labels, len(instance.family)), np.inf)


def margins_at(instance, points):
    """Labels of N, and exact margins of all members, shape (m, p)."""
    exact = points.astype(np.float64)
    labels = instance.network.stack.scores(exact)[0].argmax(axis=1)
    scores = instance.members.take(np.arange(len(instance.family))).scores(exact)
    at = np.arange(len(points))
    own = scores[:, at, labels]
    scores[:, at, labels] = -np.inf
    return labels, own - scores.max(axis=2)
