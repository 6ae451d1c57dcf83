"""Networks near a point: scores and Jacobians, exact within a linear region."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.models import Stack

Doubles = NDArray[np.float64]

_NUMBERS = 2**22
"""Largest Jacobian of one layer that is held at once, in numbers."""


def jacobians(network: Stack, points: Doubles) -> tuple[Doubles, Doubles]:
    """Return the scores and Jacobians of one network at many points."""
    dimension = points.shape[1]
    widest = max(dimension, *(layer.width for layer in network.layers))
    chunk = max(1, _NUMBERS // (widest * dimension))
    if len(points) > chunk:
        parts = [jacobians(network, points[i : i + chunk]) for i in range(0, len(points), chunk)]
        return np.concatenate([s for s, _ in parts]), np.concatenate([j for _, j in parts])
    count = len(points)
    values = [points]
    slopes = [np.broadcast_to(np.eye(dimension), (count, dimension, dimension))]
    for k, layer in enumerate(network.layers):
        value = layer.bias[0] + sum(values[s] @ w[0].T for s, w in layer.weights.items())
        slope = sum(w[0] @ slopes[s] for s, w in layer.weights.items())
        value, slope = np.asarray(value), np.asarray(slope)
        if k < len(network.layers) - 1:
            on = value > 0
            value, slope = np.where(on, value, 0.0), slope * on[:, :, None]
        values.append(value)
        slopes.append(slope)
    return values[-1], slopes[-1]
