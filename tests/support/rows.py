"""Every member asked by itself through onnxruntime, and results as they are kept."""

from __future__ import annotations

import msgspec
import numpy as np

from leaveout.models import load_family, load_network
from leaveout.verifier.report import Report


def loaded(folder):
    """Return the network and the family of a folder."""
    network = load_network(folder / "full.onnx")
    return network, load_family(folder / "family.npz", network)


def scores_of(folder, x):
    """Return the scores of N, and of each member, by onnxruntime, a point at a time."""
    network, family = loaded(folder)

    def ask(own=None):
        runner = network.runner() if own is None else network.runner(own)
        return np.stack([runner.scores(point[None])[0] for point in x])

    members = [
        ask({name: stack[0] for name, stack in family.take([m]).items()})
        for m in range(len(family))
    ]
    return ask(), members


def margin(scores, labels):
    """Return how far each point's score of its label is above the others."""
    at = np.arange(len(scores))
    rest = scores.astype(np.float64)
    own = rest[at, labels].copy()
    rest[at, labels] = -np.inf
    return own - rest.max(axis=1)


def points(folder, count=300, seed=3, low=-0.2, high=1.2):
    """Return random points, some of them outside the box."""
    width = load_network(folder / "full.onnx").inputs
    return np.random.default_rng(seed).uniform(low, high, (count, width)).astype(np.float32)


def saved(report, path):
    """Write results, and return them as they are read back."""
    path.write_bytes(report.to_json())
    return msgspec.json.decode(path.read_bytes(), type=Report)
