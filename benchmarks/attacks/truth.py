"""What is so: scores by onnxruntime, with and without its optimisations, and where to look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from attacks.inputs import Inputs

__all__ = ["Runtime", "confidences", "look"]

Floats = NDArray[np.float64]

_LEVELS = (
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
)


class Runtime:
    """One network in onnxruntime, twice: with all optimisations, and with none."""

    def __init__(self, model: onnx.ModelProto) -> None:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        scores = copy.graph.output[0].name
        final = [n for n in copy.graph.node if scores in n.output]
        soft = [n for n in final if n.op_type in {"Softmax", "LogSoftmax"}]
        if soft:
            # Labels and confidences are those of the scores before it.
            del copy.graph.output[:]
            copy.graph.output.append(
                onnx.helper.make_tensor_value_info(soft[-1].input[0], onnx.TensorProto.FLOAT, None)
            )
        value = copy.graph.input[0]
        self.name = value.name
        dims = value.type.tensor_type.shape.dim
        self.shape = [d.dim_value for d in dims[1:]]
        self.alone = dims[0].dim_value == 1
        raw = copy.SerializeToString()
        self.sessions = [_session(raw, level) for level in _LEVELS]

    def scores(self, points: Floats) -> Floats:
        """Scores of float32 points, shape (2, p, labels): first with optimisations."""
        batch = points.astype(np.float32).reshape(-1, *self.shape)
        return np.stack([self._run(session, batch) for session in self.sessions])

    def _run(self, session: Any, batch: NDArray[np.float32]) -> Floats:
        if not self.alone:
            return np.asarray(session.run(None, {self.name: batch})[0], float)
        each = [session.run(None, {self.name: batch[i : i + 1]})[0] for i in range(len(batch))]
        return np.concatenate(each).astype(float)


def _session(raw: bytes, level: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])


def confidences(scores: Floats, label: int) -> Floats:
    """Return the score of a label minus the best other one, shape (...)."""
    others = np.delete(scores, label, axis=-1)
    return np.asarray(scores[..., label] - others.max(axis=-1))


def look(
    inputs: Inputs,
    planted: Sequence[Sequence[float]],
    rng: np.random.Generator,
    value: Callable[[Floats], Floats],
    *,
    count: int = 192,
    rounds: int = 6,
) -> tuple[Floats, Floats]:
    """Look for points of a high value: all of them, or planted ones, random ones and uphill.

    Parameters
    ----------
    inputs : Inputs
    planted : sequence of points
        Where something is known to be.
    rng : numpy.random.Generator
    value : callable
        Of points, shape (p, d), each in the set; shape (p,) or (k, p): each row is ascended.
    count, rounds : int
        Random points, and steps uphill.

    Returns
    -------
    points : ndarray of float64, shape (p, d)
    values : ndarray of float64, shape (k, p)
    """
    known = inputs.every()
    if known is not None:
        return known, np.atleast_2d(value(known)) if len(known) else np.zeros((1, 0))
    parts = [inputs.sample(rng, count)]
    if len(planted):
        parts.append(inputs.moved(np.asarray(planted, float), rng))
    points = np.concatenate(parts)
    if not len(points):
        return points, np.zeros((1, 0))
    values = np.atleast_2d(value(points))
    width = inputs.upper - inputs.lower
    for i in range(rounds):
        tops = np.unique(np.argsort(-values, axis=1)[:, :4])
        near = np.repeat(points[tops], 6, axis=0)
        step = rng.normal(size=near.shape) * width * 10.0 ** -rng.uniform(0, 1 + i, (len(near), 1))
        # Of single features as often as of all.
        step *= (rng.random(near.shape) < 0.5) | (rng.random((len(near), 1)) < 0.5)
        near = near + step
        for columns, rows in inputs.tables:
            some = np.flatnonzero(rng.random(len(near)) < 0.3)
            if len(rows) and len(some):
                near[np.ix_(some, columns)] = rows[rng.integers(len(rows), size=len(some))]
        new = inputs.moved(near, rng)
        if len(new):
            points = np.concatenate([points, new])
            values = np.concatenate([values, np.atleast_2d(value(new))], axis=1)
    return points, values
