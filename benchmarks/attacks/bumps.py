"""Networks with a planted leak: a narrow bump at a known point, behind a gate that lists open."""

from __future__ import annotations

from typing import Any

import numpy as np

from attacks.nets import packed

__all__ = ["bump_net"]


def bump_net(
    rng: np.random.Generator,
    width: int,
    at: dict[int, float],
    spread: dict[int, float],
    gates: dict[int, tuple[float, float]],
    labels: int = 2,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return a network that answers label 0 everywhere, and what makes it answer another one.

    Parameters
    ----------
    rng : numpy.random.Generator
    width : int
        Features.
    at, spread : dict of int to float
        By feature: where the bump is, and half its width.
    gates : dict of int to (float, float)
        By feature: the value at which the gate is open, and the slope with which it closes away
        from it; the sign says on which side.
    labels : int

    Returns
    -------
    net : dict
        As `attacks.nets` draws them.
    quiet, loud : dict
        Values of the last weight without and with the bump's influence.
    """
    rows: list[list[float]] = []
    biases: list[float] = []
    into: list[float] = []
    for feature, centre in at.items():
        slope = 1.0 / spread[feature]
        for lift, weight in ((1.0, 1.0), (0.0, -2.0), (-1.0, 1.0)):
            row = [0.0] * width
            row[feature] = slope
            rows.append(row)
            biases.append(float(np.float32(lift - slope * centre)))
            into.append(weight)
    for feature, (value, slope) in gates.items():
        row = [0.0] * width
        row[feature] = slope
        rows.append(row)
        biases.append(-slope * value)
        into.append(-1.0)
    # A unit that is seen everywhere, so that the confidence is no constant.
    rows.append([float(v) for v in 0.1 * rng.normal(size=width)])
    biases.append(0.1)
    into.append(0.0)
    hidden = len(rows)
    second = np.zeros((2, hidden))
    second[0] = into
    second[1, -1] = 1.0
    last = np.zeros((labels, 2))
    last[0, 1] = 0.01
    quiet, loud = last.copy(), last.copy()
    height = float(rng.choice([1.5, 3.0, 10.0]))
    other = int(rng.integers(1, labels))
    loud[other, 0] = height
    bias = np.zeros(labels)
    bias[0] = 1.0
    floats = {
        "W1": packed(np.asarray(rows, np.float32)),
        "b1": packed(np.asarray(biases, np.float32)),
        "W2": packed(second.astype(np.float32)),
        "b2": packed(np.asarray([1.0 - len(at), 0.0], np.float32)),
        "W3": packed(quiet.astype(np.float32)),
        "b3": packed(bias.astype(np.float32)),
    }
    nodes = [
        ["Gemm", ["x", "W1", "b1"], ["z1"], {"transB": 1}],
        ["Relu", ["z1"], ["h1"], {}],
        ["Gemm", ["h1", "W2", "b2"], ["z2"], {"transB": 1}],
        ["Relu", ["z2"], ["h2"], {}],
        ["Gemm", ["h2", "W3", "b3"], ["y"], {"transB": 1}],
    ]
    net = {
        "opset": 17, "batch": "n", "shape": [width], "labels": labels, "nodes": nodes,
        "floats": floats, "integers": {},
    }  # fmt: skip
    return net, packed(quiet.astype(np.float32)), packed(loud.astype(np.float32))
