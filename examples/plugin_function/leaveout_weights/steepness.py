"""Bounds of how steep a network is, from the largest change of a feature to that of a score.

Both allow for the rounding of what is computed here, so the true value lies between them. What is
measured is the network in normal form, in exact arithmetic.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from leaveout.models import Stack

__all__ = ["largest_slope", "steepest_sample"]

Floats = NDArray[np.float64]

_SPREADS = (0.1, 1.0, 10.0)


def largest_slope(stack: Stack) -> float:
    """Return a number that the slope exceeds nowhere: norms multiplied along the layers."""
    slopes = [1.0]
    for layer in stack.layers:
        slope = 0.0
        for source, weights in layer.weights.items():
            norm = _up(max(math.fsum(row) for row in np.abs(weights[0])))
            slope = _up(slope + _up(norm * slopes[source]))
        slopes.append(slope)
    return slopes[-1]


def steepest_sample(stack: Stack, rng: np.random.Generator, samples: int, largest: float) -> float:
    """Return a slope that the network has somewhere.

    Parameters
    ----------
    stack : Stack
        Of one network.
    rng : Generator
        Of the points.
    samples : int
    largest : float
        From `largest_slope`; rounding is relative to it.
    """
    terms = sum(layer.width + sum(w.shape[2] for w in layer.weights.values()) + 4
                for layer in stack.layers)  # fmt: skip
    unit = 4 * terms * np.finfo(np.float64).eps
    slopes = [
        _slope(stack, rng.normal(scale=_SPREADS[i % len(_SPREADS)], size=stack.inputs), unit)
        for i in range(samples)
    ]
    return max(0.0, max(slopes, default=0.0) - unit * largest)


def _slope(stack: Stack, x: Floats, unit: float) -> float:
    """Return the slope at a point, 0 where it is too close to a kink to tell its side."""
    values, sizes, jacobians = [x], [np.abs(x)], [np.eye(stack.inputs)]
    for k, layer in enumerate(stack.layers):
        parts = {source: weights[0] for source, weights in layer.weights.items()}
        z = layer.bias[0] + sum(w @ values[s] for s, w in parts.items())
        size = np.abs(layer.bias[0]) + sum(np.abs(w) @ sizes[s] for s, w in parts.items())
        jacobian = np.sum([w @ jacobians[s] for s, w in parts.items()], axis=0)
        if k < len(stack.layers) - 1:
            if np.any(np.abs(z) <= unit * size):
                return 0.0
            jacobian = jacobian * (z > 0)[:, None]
            z = np.maximum(z, 0)
        values.append(z)
        sizes.append(size)
        jacobians.append(jacobian)
    return float(np.abs(jacobians[-1]).sum(axis=1).max())


def _up(value: float) -> float:
    return math.nextafter(value, math.inf) if value else value
