"""Every claim about a network whose final Softmax is dropped says so: no score is a probability."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import leaveout
from leaveout.verifier.plan import plan

from support import networks

HEAD = 'let N = network("n.onnx")\nlet M = network("m.onnx")\nlet X = box(0, 0.1)\n'
CLAIMS = {
    "leaks": "guarantee g: forall x in X: confidence(N, x) > 1 => label(M, x) == label(N, x)",
    "confidences": "guarantee g: forall x in X: confidence(N, x) > 0.9 => confidence(M, x) > 0.8",
    "one network": "guarantee g: forall x in X: confidence(M, x) > 0.9",
    "scores": "guarantee g: forall x in X: score(M, x, 0) > 0.5",
    "a find": "find d: least d such that forall x in X: confidence(M, x) <= d",
    "labels": "guarantee g: forall x in X, y in X: label(M, x) == label(M, y)",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory):
    where = tmp_path_factory.mktemp("softmax")
    for name, seed in (("n", 0), ("m", 1)):
        model = networks.matmul_add_softmax(np.random.default_rng(seed))
        onnx.save(model, where / f"{name}.onnx")
    return where


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_dropped_softmax_is_noted_of_every_claim_that_involves_it(
    folder, claim, snapshot
) -> None:
    path = folder / "claim.spec"
    path.write_text(HEAD + CLAIMS[claim] + "\n")
    for notes in (leaveout.verify(path, time=20).notes, plan(path).notes):
        (said,) = (each for each in notes if "m.onnx: the final Softmax is dropped" in each)
        assert said == snapshot
        assert any("n.onnx" in each for each in notes) == ("N, x" in CLAIMS[claim])


def test_a_network_that_ends_in_scores_is_noted_nothing_of(tmp_path) -> None:
    onnx.save(networks.dense(np.random.default_rng(0), (3, 3)), tmp_path / "m.onnx")
    path = tmp_path / "claim.spec"
    path.write_text('let M = network("m.onnx")\nlet X = box(0, 1)\n' + CLAIMS["one network"])
    assert leaveout.verify(path, time=20).notes == ()
