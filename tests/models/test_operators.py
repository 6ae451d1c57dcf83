"""Every operator with every attribute: read as onnxruntime computes it, or refused in a line."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leaveout.errors import ModelError
from leaveout.models import load_network
from leaveout.models.onnx.rewrites import REWRITES
from leaveout.models.onnx.table import OPERATORS

from attacks.operators import magnitudes
from support.depth import enough, rounds
from support.drawn import Drawn

F32 = np.float32
REWRITTEN = {each.operator for each in REWRITES} - {
    *("ArgMax", "Constant", "Softmax", "LogSoftmax", "Sigmoid", "Shape", "Size")
}
"""Of those left out nothing is computed of the data where they stand alone."""


def computed(model, points):
    """Return what onnxruntime computes of the operators as they are."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    running = onnxruntime.InferenceSession(model.SerializeToString(), options)
    if running.get_inputs()[0].shape[0] == 1:
        return np.concatenate([running.run(None, {"x": x[None]})[0] for x in points])
    return running.run(None, {"x": points})[0]


@pytest.mark.parametrize("kind", sorted({*OPERATORS, *REWRITTEN}))
def test_every_operator_is_read_as_onnxruntime_computes_it_or_refused(kind):
    accepted = 0

    @settings(
        max_examples=rounds(60) if kind in REWRITTEN else 150,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def examine(data):
        nonlocal accepted
        drawn = Drawn(data, kind)
        model = drawn.model()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            onnx.save(model, path)
            try:
                network = load_network(path)
            except ModelError as refusal:
                assert "\n" not in str(refusal)
                assert "please report" not in str(refusal)
                return
        accepted += 1
        points = drawn.rng.normal(size=(5, *drawn.shape)).astype(F32)
        found = network.stack.scores(points.reshape(5, -1).astype(np.float64))[0]
        expected = computed(model, points)
        if expected.shape[1] == 1:
            expected = np.concatenate([0 * expected, expected], axis=1)
        size = magnitudes(network.stack, points.reshape(5, -1).astype(np.float64))
        floats = [v.astype(float) for v in drawn.constants.values() if v.dtype.kind == "f"]
        size += abs(np.asarray([v.sum() for v in floats])).sum()
        assert (np.abs(found - expected) <= 1e-5 * (1 + size)).all()

    examine()
    assert accepted > enough(5)
