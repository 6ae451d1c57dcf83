"""A property of three labels on real data, closed and confirmed on a grid."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from sklearn.datasets import load_iris
from sklearn.neural_network import MLPClassifier

import leaveout
from leaveout.models import load_network

from support import networks
from support.children import HANGS


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    """Train a small network on iris, scaled to [0, 1], and one with a flower left out."""
    folder = tmp_path_factory.mktemp("iris")
    data, labels = load_iris(return_X_y=True)
    data = (data - data.min(axis=0)) / np.ptp(data, axis=0)
    for name, kept in (("full", slice(None)), ("without", np.arange(len(data)) != 70)):
        fitted = MLPClassifier((8, 6), max_iter=2000, random_state=0).fit(data[kept], labels[kept])
        constants, nodes, last = {}, [], "x"
        for i, (weight, bias) in enumerate(zip(fitted.coefs_, fitted.intercepts_, strict=True)):
            constants[f"w{i}"] = weight.astype(np.float32)
            constants[f"b{i}"] = bias.astype(np.float32)
            out = "y" if i == 2 else f"z{i}"
            nodes.append(helper.make_node("Gemm", [last, f"w{i}", f"b{i}"], [out]))
            if out != "y":
                nodes.append(helper.make_node("Relu", [out], [f"h{i}"]))
                last = f"h{i}"
        model = networks.model(nodes, constants, ["n", 4], ["n", 3])
        onnx.save(model, folder / f"{name}.onnx")
    return folder


SPEC = """
let N = network("full.onnx")
let M = network("without.onnx")
let X = box(0, 1)

# One flower changes no answer of which the network is more certain than this.
find bound: least b per label such that
    forall x in X: confidence(N, x) > b => label(M, x) == label(N, x)

# A flower with wide petals is never taken for a setosa.
guarantee petals:
    forall x in X: feature(x, 2) >= 0.6 and feature(x, 3) >= 0.6 => label(N, x) != 0

find change: least d such that forall x in X: difference(N, M, x) <= d
"""


def test_three_labels_are_closed_and_agree_with_a_grid(iris):
    (iris / "iris.spec").write_text(SPEC)
    results = leaveout.verify(iris / "iris.spec", time=HANGS).results
    axis = np.linspace(0, 1, 26)
    grid = np.stack(np.meshgrid(*[axis] * 4, indexing="ij"), -1).reshape(-1, 4).astype(np.float32)
    own = load_network(iris / "full.onnx").runner().scores(grid).astype(np.float64)
    other = load_network(iris / "without.onnx").runner().scores(grid).astype(np.float64)
    answers, changed = own.argmax(axis=1), other.argmax(axis=1)
    top = np.sort(own, axis=1)
    confidence = top[:, -1] - top[:, -2]
    for result in results[:3]:
        leaks = (answers == result.label) & (changed != answers)
        best = confidence[leaks].max(initial=0.0)
        assert result.verdict == "proved"
        assert best <= result.upper
        assert result.upper - best <= 0.3 * result.upper + 0.05
    petals, change = results[3:]
    wide = (grid[:, 2] >= 0.6) & (grid[:, 3] >= 0.6)
    assert (petals.verdict == "proved") == bool((answers[wide] != 0).all())
    worst = np.abs(own - other).max()
    assert worst <= change.upper
    assert change.verdict == "proved"
    assert change.upper - worst <= 0.05 * change.upper
